// Chains of elementwise operations on blocked images, and other steps that move whole vectors of channels.
#pragma once
#include "core/parallel.h"
#include "host/vector/epilogue.h"
#include "host/vector/layout.h"

namespace aneforge::vec {

// out = the chain applied to in; one pass over memory. The chain's tensor operands and both images may have any halos.
void map_image(const Epilogue& chain, const ImageLayout& in_layout, const float* in, const ImageLayout& out_layout,
               float* out, const float* const* operands, Parallel& parallel);

// in at (top, left) of out, the other pixels all of one value.
void pad_image(int top, int left, float fill, const ImageLayout& in_layout, const float* in,
               const ImageLayout& out_layout, float* out, Parallel& parallel);

// out(y, x) = in(y / scale_h, x / scale_w).
void repeat_image(int scale_h, int scale_w, const ImageLayout& in_layout, const float* in,
                  const ImageLayout& out_layout, float* out, Parallel& parallel);

}  // namespace aneforge::vec
