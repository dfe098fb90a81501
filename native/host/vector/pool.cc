#include "host/vector/pool.h"

#include <algorithm>
#include <vector>

namespace aneforge::vec {
namespace {

struct Range {
  int first, last;  // the input positions of a window, cut to the input
};
Range window(int out, int stride, int pad, int kernel, int extent) {
  const int at = out * stride - pad;
  return {std::max(at, 0), std::min(at + kernel, extent)};
}

}  // namespace

void pool(const PoolParams& p, const ImageLayout& il, const float* in, const ImageLayout& ol, float* out,
          Rounding rounding, Parallel& parallel) {
  const Kernels& k = kernels();
  const int planes = ol.batch * ol.blocks();
  const int wanted =
      task_count(parallel, static_cast<double>(ol.floats()) * p.kernel_h * p.kernel_w, kProductsOfATask / 8);
  const int bands = std::clamp((wanted + planes - 1) / planes, 1, ol.height);
  // Columns whose windows are whole: they share one call a row.
  int x0 = 0, x1 = ol.width;
  while (x0 < x1 && x0 * p.stride_w < p.pad_left) ++x0;
  while (x1 > x0 && (x1 - 1) * p.stride_w - p.pad_left + p.kernel_w > il.width) --x1;
  parallel.each(static_cast<size_t>(planes) * bands, [&](size_t task) {
    const int plane = static_cast<int>(task) / bands, band = static_cast<int>(task) % bands;
    const int n = plane / ol.blocks(), b = plane % ol.blocks();
    for (int y = ol.height * band / bands; y < ol.height * (band + 1) / bands; ++y) {
      const Range rows = window(y, p.stride_h, p.pad_top, p.kernel_h, il.height);
      const auto run = [&](int first, int pixels) {
        const Range columns = window(first, p.stride_w, p.pad_left, p.kernel_w, il.width);
        PoolRow r;
        r.in = in + il.offset(n, b, rows.first, columns.first);
        r.out = out + ol.offset(n, b, y, first);
        r.in_row = il.row();
        r.in_tap = kLanes;
        r.in_pixel = static_cast<ptrdiff_t>(kLanes) * p.stride_w;
        r.kernel_h = rows.last - rows.first;
        r.kernel_w = columns.last - columns.first;
        r.pixels = pixels;
        r.divisor = static_cast<float>(p.count_padding ? p.kernel_h * p.kernel_w : r.kernel_h * r.kernel_w);
        r.rounding = rounding;
        (p.average ? k.average_pool : k.max_pool)(r);
      };
      for (int x = 0; x < x0; ++x) run(x, 1);
      if (x1 > x0) run(x0, x1 - x0);
      for (int x = x1; x < ol.width; ++x) run(x, 1);
    }
  });
}

void pool_all(const PoolAllParams& p, const ImageLayout& il, const float* in, const ImageLayout& ol, float* out,
              Rounding rounding, Parallel& parallel) {
  const Kernels& k = kernels();
  const size_t planes = static_cast<size_t>(il.batch) * il.blocks();
  const size_t tasks =
      std::min(planes, static_cast<size_t>(task_count(parallel, static_cast<double>(il.floats()), kFloatsOfATask)));
  parallel.each(tasks, [&](size_t task) {
    for (size_t plane = planes * task / tasks; plane < planes * (task + 1) / tasks; ++plane) {
      const int n = static_cast<int>(plane) / il.blocks(), b = static_cast<int>(plane) % il.blocks();
      float* to = out + ol.offset(n, b, 0, 0);
      const float* from = in + il.offset(n, b, 0, 0);
      const Reduce sum = p.op == Reduce::kMean ? Reduce::kSum : p.op;
      if (p.narrow) {
        std::fill_n(to, kLanes, 0.0f);
        for (int y = 0; y < il.height; ++y)
          k.narrow_sum_columns(sum, in + il.offset(n, b, y, 0), static_cast<size_t>(il.width), kLanes, to, 1);
      } else if (!il.has_halo()) {
        k.reduce_columns(sum, from, static_cast<size_t>(il.height) * il.width, kLanes, to, 1);
      } else {
        // Row by row, and the rows' results once more.
        std::vector<float> rows(static_cast<size_t>(il.height) * kLanes);
        for (int y = 0; y < il.height; ++y)
          k.reduce_columns(sum, in + il.offset(n, b, y, 0), static_cast<size_t>(il.width), kLanes,
                           rows.data() + static_cast<size_t>(y) * kLanes, 1);
        const bool terms = sum == Reduce::kSumOfSquares || sum == Reduce::kSumOfMagnitudes;
        k.reduce_columns(terms ? Reduce::kSum : sum, rows.data(), static_cast<size_t>(il.height), kLanes, to, 1);
      }
      if (p.op == Reduce::kMean)
        for (int c = 0; c < kLanes; ++c) to[c] /= static_cast<float>(il.height * il.width);
      if (p.scale != 1)
        for (int c = 0; c < kLanes; ++c) to[c] *= p.scale;
      Finish finish;
      finish.saturate = p.saturate;
      finish.rounding = rounding;
      k.finish(finish, to, 1);
    }
  });
}

}  // namespace aneforge::vec
