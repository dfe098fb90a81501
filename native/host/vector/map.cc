#include "host/vector/map.h"

#include <algorithm>
#include <cstring>

namespace aneforge::vec {

void map_image(const Epilogue& chain, const ImageLayout& il, const float* in, const ImageLayout& ol, float* out,
               const float* const* operands, Parallel& parallel) {
  const bool dense = !il.has_halo() && !ol.has_halo() && chain.operands_dense(ol.row());
  each_band(ol, parallel, [&](int n, int b, int y0, int y1) {
    // Some 16 KB at a time, so that each operation of the chain finds the last one's results in cache.
    const int step = dense ? std::max(1, 256 / ol.width) : 1;
    for (int y = y0; y < y1; y += step) {
      const int rows = std::min(step, y1 - y);
      chain.rest(operands, n, b, y, 0, in + il.offset(n, b, y, 0), out + ol.offset(n, b, y, 0), rows * ol.width);
    }
  });
}

void pad_image(int top, int left, float fill, const ImageLayout& il, const float* in, const ImageLayout& ol, float* out,
               Parallel& parallel) {
  each_band(ol, parallel, [&](int n, int b, int y0, int y1) {
    const ptrdiff_t before = static_cast<ptrdiff_t>(left) * kLanes, row = static_cast<ptrdiff_t>(il.width) * kLanes;
    const ptrdiff_t whole = static_cast<ptrdiff_t>(ol.width) * kLanes;
    for (int y = y0; y < y1; ++y) {
      float* to = out + ol.offset(n, b, y, 0);
      if (y < top || y >= top + il.height) {
        std::fill_n(to, whole, fill);
        continue;
      }
      std::fill_n(to, before, fill);
      std::memcpy(to + before, in + il.offset(n, b, y - top, 0), static_cast<size_t>(row) * sizeof(float));
      std::fill_n(to + before + row, whole - before - row, fill);
    }
  });
}

void repeat_image(int scale_h, int scale_w, const ImageLayout& il, const float* in, const ImageLayout& ol, float* out,
                  Parallel& parallel) {
  each_band(ol, parallel, [&](int n, int b, int y0, int y1) {
    for (int y = y0; y < y1; ++y) {
      float* to = out + ol.offset(n, b, y, 0);
      if (y > y0 && y % scale_h) {
        std::memcpy(to, to - ol.row(), static_cast<size_t>(ol.width) * kLanes * sizeof(float));
        continue;
      }
      const float* from = in + il.offset(n, b, y / scale_h, 0);
      for (int x = 0; x < ol.width; ++x)
        std::memcpy(to + x * kLanes, from + x / scale_w * kLanes, kLanes * sizeof(float));
    }
  });
}

}  // namespace aneforge::vec
