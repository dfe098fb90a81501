// Depthwise convolution (one input channel an output channel) in blocked layout.
#pragma once
#include "core/parallel.h"
#include "host/vector/aligned.h"
#include "host/vector/conv.h"

namespace aneforge::vec {

class DepthwisePlan {
 public:
  static bool supports(const ConvParams& params, const ImageLayout& in);
  // weights: [channels][kernel_h][kernel_w], finite.
  DepthwisePlan(const ConvParams& params, const ImageLayout& in, const ImageLayout& out, const float* weights,
                Epilogue epilogue);
  void run(const float* in, float* out, const float* const* operands, Parallel& parallel) const;

 private:
  ConvParams params_;
  ImageLayout in_, out_;
  Epilogue epilogue_;
  Aligned<float> weights_;  // [block][kernel_h][kernel_w][16]
};

}  // namespace aneforge::vec
