// Convolution in groups that do not fill blocks of 16 channels: each group for itself, its inputs taken from wherever
// they lie in their blocks, its results put where they belong. Lanes that a group does not need are lost, so this is
// slower than ConvPlan; nothing of one group ever meets another (zero weights in their place would turn infinities into
// NaN).
#pragma once
#include <vector>

#include "core/parallel.h"
#include "host/vector/aligned.h"
#include "host/vector/conv.h"

namespace aneforge::vec {

class GroupedConvPlan {
 public:
  static bool supports(const ConvParams& params, const ImageLayout& in);
  // weights: [out][in / groups][kernel_h][kernel_w], finite. Both images blocked.
  GroupedConvPlan(const ConvParams& params, const ImageLayout& in, const ImageLayout& out, const float* weights,
                  Epilogue epilogue);
  void run(const float* in, float* out, const float* const* operands, Parallel& parallel) const;

 private:
  void run_row(int group, int n, int y, const float* in, float* out, const float* const* operands) const;

  ConvParams params_;
  ImageLayout in_, out_;
  Epilogue epilogue_;
  const Kernels& kernels_;
  int products_ = 0;              // of one result
  int blocks_ = 0;                // of 16 output channels in a group, the last one perhaps not full
  std::vector<int32_t> offsets_;  // [group][product], from the first tap of the group's first block
  Aligned<float> weights_;        // [group][block][product][16]
};

}  // namespace aneforge::vec
