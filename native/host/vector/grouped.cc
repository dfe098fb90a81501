#include "host/vector/grouped.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace aneforge::vec {
namespace {

int ceil_div(int a, int b) { return (a + b - 1) / b; }

}  // namespace

bool GroupedConvPlan::supports(const ConvParams& p, const ImageLayout& in) {
  return p.groups > 1 && in.channels % p.groups == 0 && p.out_channels % p.groups == 0 && !in.planar;
}

GroupedConvPlan::GroupedConvPlan(const ConvParams& p, const ImageLayout& in, const ImageLayout& out,
                                 const float* weights, Epilogue epilogue)
    : params_(p), in_(in), out_(out), epilogue_(std::move(epilogue)), kernels_(kernels()) {
  const int in_channels = in.channels / p.groups, out_channels = p.out_channels / p.groups,
            taps = p.kernel_h * p.kernel_w;
  products_ = in_channels * taps;
  blocks_ = ceil_div(out_channels, kLanes);
  weights_ = Aligned<float>(static_cast<size_t>(p.groups) * blocks_ * products_ * kLanes);
  for (int g = 0; g < p.groups; ++g) {
    const int first = g * in_channels / kLanes;
    for (int c = 0; c < in_channels; ++c) {
      const int channel = g * in_channels + c;
      for (int ky = 0; ky < p.kernel_h; ++ky)
        for (int kx = 0; kx < p.kernel_w; ++kx)
          offsets_.push_back(static_cast<int32_t>((channel / kLanes - first) * in.block() + channel % kLanes +
                                                  ky * p.dilation_h * in.row() + kx * p.dilation_w * kLanes));
    }
    for (int o = 0; o < out_channels; ++o) {
      float* w = weights_.data() + (static_cast<size_t>(g) * blocks_ + o / kLanes) * products_ * kLanes + o % kLanes;
      const float* from = weights + static_cast<size_t>(g * out_channels + o) * products_;
      for (int i = 0; i < products_; ++i) w[static_cast<size_t>(i) * kLanes] = from[i];
    }
  }
}

void GroupedConvPlan::run(const float* in, float* out, const float* const* operands, Parallel& parallel) const {
  const double products =
      static_cast<double>(products_) * params_.groups * blocks_ * kLanes * out_.height * out_.width * out_.batch;
  const int64_t rows = static_cast<int64_t>(out_.batch) * params_.groups * out_.height;
  each_of(rows, task_count(parallel, products, kProductsOfATask), parallel, [&](int64_t i) {
    const int y = static_cast<int>(i % out_.height), plane = static_cast<int>(i / out_.height);
    run_row(plane % params_.groups, plane / params_.groups, y, in, out, operands);
  });
}

void GroupedConvPlan::run_row(int group, int n, int y, const float* in, float* out,
                              const float* const* operands) const {
  const int in_channels = in_.channels / params_.groups, out_channels = params_.out_channels / params_.groups;
  float sums[kMaxTilePixels * kLanes];
  for (int b = 0; b < blocks_; ++b) {
    const int channel = group * out_channels + b * kLanes, count = std::min(kLanes, out_channels - b * kLanes);
    const int block = channel / kLanes, lane = channel % kLanes;
    // Results that reach into the next block go there in two pieces.
    const int here = std::min(count, kLanes - lane);
    Tile t;
    t.in = in + in_.offset(n, group * in_channels / kLanes, y * params_.stride_h - params_.pad_top, -params_.pad_left);
    t.in_pixel = static_cast<ptrdiff_t>(kLanes) * params_.stride_w;
    t.weights = weights_.data() + (static_cast<size_t>(group) * blocks_ + b) * products_ * kLanes;
    t.offsets = offsets_.data() + static_cast<ptrdiff_t>(group) * products_;
    t.channels = products_;
    t.out = sums;
    t.out_pixel = kLanes;
    const int tiles = ceil_div(out_.width, kernels_.tile_pixels);
    for (int i = 0, x = 0; i < tiles; ++i) {
      const int pixels = ceil_div(out_.width - x, tiles - i);
      const auto put = [&](int lanes, int to_block, int to_lane, const float* from) {
        float* to = out + out_.offset(n, to_block, y, x) + to_lane;
        for (int p = 0; p < pixels; ++p)
          std::memcpy(to + p * kLanes, from + p * kLanes, static_cast<size_t>(lanes) * sizeof(float));
      };
      if (here == count) {
        const Finish finish = epilogue_.finish(operands, n, block, y, x, lane);
        t.finish = &finish;
        kernels_.tile[kScatteredAny][1][pixels](t);
        if (epilogue_.has_rest()) epilogue_.rest(operands, n, block, y, x, sums, sums, pixels, lane);
        put(count, block, lane, sums);
      } else {
        // Tensor operands lie in two blocks: each piece is finished with its own.
        t.finish = nullptr;
        kernels_.tile[kScatteredAny][1][pixels](t);
        for (int piece = 0; piece < 2; ++piece) {
          const int first = piece ? here : 0, to_block = block + piece, to_lane = piece ? 0 : lane;
          float done[kMaxTilePixels * kLanes];
          for (int p = 0; p < pixels; ++p) {
            std::memset(done + p * kLanes, 0, kLanes * sizeof(float));
            std::memcpy(done + p * kLanes, sums + p * kLanes + first,
                        static_cast<size_t>(kLanes - first) * sizeof(float));
            Finish finish = epilogue_.finish(operands, n, to_block, y, x + p, to_lane);
            kernels_.finish(finish, done + p * kLanes, 1);
          }
          if (epilogue_.has_rest()) epilogue_.rest(operands, n, to_block, y, x, done, done, pixels, to_lane);
          put(piece ? count - here : here, to_block, to_lane, done);
        }
      }
      t.in += pixels * t.in_pixel;
      x += pixels;
    }
  }
}

}  // namespace aneforge::vec
