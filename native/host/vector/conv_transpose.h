// Transposed convolution in blocked layout: results whose positions agree modulo the stride are an ordinary convolution
// with every stride-th tap, so it is stride_h × stride_w of those, each writing every stride-th pixel.
#pragma once
#include <vector>

#include "core/parallel.h"
#include "host/vector/conv.h"

namespace aneforge::vec {

class ConvTransposePlan {
 public:
  // One group, no dilation, every residue has taps.
  static bool supports(const ConvParams& params);
  // The halo of the input that a result of this size needs.
  static void halo(const ConvParams& params, const ImageLayout& in, const ImageLayout& out, int* halo_h, int* halo_w);
  // weights: [in][out][kernel_h][kernel_w], finite. pad_top and pad_left are cut from the whole result.
  ConvTransposePlan(const ConvParams& params, const ImageLayout& in, const ImageLayout& out, const float* weights,
                    const Epilogue& epilogue);
  void run(const float* in, float* out, const float* const* operands, Parallel& parallel) const;

 private:
  std::vector<ConvPlan> phases_;
};

}  // namespace aneforge::vec
