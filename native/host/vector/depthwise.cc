#include "host/vector/depthwise.h"

#include <algorithm>
#include <utility>

namespace aneforge::vec {

bool DepthwisePlan::supports(const ConvParams& p, const ImageLayout& in) {
  return p.groups > 1 && p.groups == in.channels && p.out_channels == in.channels && !in.planar;
}

DepthwisePlan::DepthwisePlan(const ConvParams& p, const ImageLayout& in, const ImageLayout& out, const float* weights,
                             Epilogue epilogue)
    : params_(p), in_(in), out_(out), epilogue_(std::move(epilogue)) {
  const size_t taps = static_cast<size_t>(p.kernel_h) * p.kernel_w;
  weights_ = Aligned<float>(taps * kLanes * in.blocks());
  for (size_t c = 0; c < static_cast<size_t>(in.channels); ++c)
    for (size_t t = 0; t < taps; ++t)
      weights_.data()[(c / kLanes * taps + t) * kLanes + c % kLanes] = weights[c * taps + t];
}

void DepthwisePlan::run(const float* in, float* out, const float* const* operands, Parallel& parallel) const {
  const Kernels& k = kernels();
  const int planes = out_.batch * out_.blocks();
  const int wanted = task_count(parallel, static_cast<double>(out_.floats()) * params_.kernel_h * params_.kernel_w,
                                kProductsOfATask / 8);
  const int bands = planes >= wanted ? 1 : std::clamp((wanted + planes - 1) / planes, 1, (out_.height + 1) / 2);
  const int tasks = std::min(planes * bands, std::max(wanted, bands));
  const ptrdiff_t taps = static_cast<ptrdiff_t>(params_.kernel_h) * params_.kernel_w;
  parallel.each(static_cast<size_t>(tasks), [&](size_t task) {
    const auto cut = [&](int part) { return static_cast<int>(static_cast<int64_t>(planes) * bands * part / tasks); };
    for (int i = cut(static_cast<int>(task)); i < cut(static_cast<int>(task) + 1); ++i) {
      const int n = i / bands / out_.blocks(), b = i / bands % out_.blocks(), band = i % bands;
      // Even cuts: rows are computed in pairs.
      const int pairs = (out_.height + 1) / 2;
      const int y0 = pairs * band / bands * 2, y1 = std::min(out_.height, pairs * (band + 1) / bands * 2);
      DepthwiseRow d;
      d.in = in + in_.offset(n, b, y0 * params_.stride_h - params_.pad_top, -params_.pad_left);
      d.weights = weights_.data() + b * taps * kLanes;
      d.out = out + out_.offset(n, b, y0, 0);
      d.in_row = in_.row() * params_.dilation_h;
      d.in_tap = static_cast<ptrdiff_t>(kLanes) * params_.dilation_w;
      d.in_pixel = static_cast<ptrdiff_t>(kLanes) * params_.stride_w;
      d.in_next = in_.row() * params_.stride_h;
      d.out_next = out_.row();
      d.kernel_h = params_.kernel_h;
      d.kernel_w = params_.kernel_w;
      d.pixels = out_.width;
      d.rows = y1 - y0;
      const Finish finish = epilogue_.finish(operands, n, b, y0, 0);
      d.finish = &finish;
      if (!epilogue_.has_rest()) {
        if (finish.add_tensor) d.tensor_next = epilogue_.tensor_row();
        k.depthwise(d);
        continue;
      }
      // Row by row, so that the other steps find the results in cache.
      for (int y = y0; y < y1; ++y, d.in += d.in_next, d.out += d.out_next) {
        const Finish row_finish = epilogue_.finish(operands, n, b, y, 0);
        d.finish = &row_finish;
        d.rows = 1;
        k.depthwise(d);
        epilogue_.rest(operands, n, b, y, 0, d.out, d.out, out_.width);
      }
    }
  });
}

}  // namespace aneforge::vec
