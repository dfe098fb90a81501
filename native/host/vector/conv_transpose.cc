#include "host/vector/conv_transpose.h"

#include <algorithm>

namespace aneforge::vec {
namespace {

// The results o = stride * t + residue - pad along one axis, for t in [first, first + count): result t is the sum over
// taps j in [0, taps) of input t - j times weight residue + stride * j.
struct Phase {
  int residue, taps, first, count;
};
Phase phase(int residue, int kernel, int stride, int pad, int extent) {
  const int first = std::max(0, (pad - residue + stride - 1) / stride);
  const int last = (extent - 1 + pad - residue) >= 0 ? (extent - 1 + pad - residue) / stride : -1;
  return {residue, (kernel - residue + stride - 1) / stride, first, std::max(0, last - first + 1)};
}

void axis_halo(int kernel, int stride, int pad, int in, int out, int* halo) {
  *halo = 0;
  for (int r = 0; r < stride; ++r) {
    const Phase p = phase(r, kernel, stride, pad, out);
    if (p.count == 0) continue;
    *halo = std::max({*halo, p.taps - 1 - p.first, p.first + p.count - in});
  }
}

}  // namespace

bool ConvTransposePlan::supports(const ConvParams& p) {
  return p.groups == 1 && p.dilation_h == 1 && p.dilation_w == 1 && p.kernel_h >= p.stride_h &&
         p.kernel_w >= p.stride_w;
}

void ConvTransposePlan::halo(const ConvParams& p, const ImageLayout& in, const ImageLayout& out, int* halo_h,
                             int* halo_w) {
  axis_halo(p.kernel_h, p.stride_h, p.pad_top, in.height, out.height, halo_h);
  axis_halo(p.kernel_w, p.stride_w, p.pad_left, in.width, out.width, halo_w);
}

ConvTransposePlan::ConvTransposePlan(const ConvParams& p, const ImageLayout& in, const ImageLayout& out,
                                     const float* weights, const Epilogue& epilogue) {
  const int residues = p.stride_h * p.stride_w;
  if (out.planar && p.kernel_h == p.stride_h && p.kernel_w == p.stride_w && p.pad_top == 0 && p.pad_left == 0 &&
      out.channels * residues <= kLanes && out.height == in.height * p.stride_h && out.width == in.width * p.stride_w) {
    // Every residue has the same window: one 1×1 convolution whose output channels are channel and residue.
    ConvParams c;
    c.out_channels = out.channels * residues;
    ConvGrid grid;
    grid.step_y = p.stride_h;
    grid.step_x = p.stride_w;
    grid.height = in.height;
    grid.width = in.width;
    std::vector<int> channel_of;
    std::vector<float> turned;
    for (int o = 0; o < out.channels; ++o)
      for (int r = 0; r < residues; ++r) {
        grid.channels.push_back(o * out.block() + r / p.stride_w * out.row() + r % p.stride_w);
        channel_of.push_back(o);
        for (int i = 0; i < in.channels; ++i)
          turned.push_back(weights[(static_cast<size_t>(i) * out.channels + o) * residues + r]);
      }
    phases_.emplace_back(c, in, out, turned.data(), epilogue.with_channels(channel_of), ConvPlan::Keep::kFloats, grid);
    return;
  }
  for (int ry = 0; ry < p.stride_h; ++ry)
    for (int rx = 0; rx < p.stride_w; ++rx) {
      const Phase y = phase(ry, p.kernel_h, p.stride_h, p.pad_top, out.height);
      const Phase x = phase(rx, p.kernel_w, p.stride_w, p.pad_left, out.width);
      if (y.count == 0 || x.count == 0) continue;
      // A convolution walks its taps upwards: they are turned around.
      ConvParams c;
      c.out_channels = p.out_channels;
      c.kernel_h = y.taps;
      c.kernel_w = x.taps;
      c.pad_top = y.taps - 1 - y.first;
      c.pad_left = x.taps - 1 - x.first;
      std::vector<float> turned(static_cast<size_t>(p.out_channels) * in.channels * y.taps * x.taps);
      float* w = turned.data();
      for (int o = 0; o < p.out_channels; ++o)
        for (int i = 0; i < in.channels; ++i)
          for (int jy = y.taps - 1; jy >= 0; --jy)
            for (int jx = x.taps - 1; jx >= 0; --jx)
              *w++ = weights[((static_cast<size_t>(i) * p.out_channels + o) * p.kernel_h + ry + p.stride_h * jy) *
                                 p.kernel_w +
                             rx + p.stride_w * jx];
      ConvGrid grid;
      grid.y = p.stride_h * y.first + ry - p.pad_top;
      grid.x = p.stride_w * x.first + rx - p.pad_left;
      grid.step_y = p.stride_h;
      grid.step_x = p.stride_w;
      grid.height = y.count;
      grid.width = x.count;
      phases_.emplace_back(c, in, out, turned.data(), epilogue, ConvPlan::Keep::kFloats, grid);
    }
}

void ConvTransposePlan::run(const float* in, float* out, const float* const* operands, Parallel& parallel) const {
  for (const ConvPlan& phase : phases_) phase.run(in, out, operands, parallel);
}

}  // namespace aneforge::vec
