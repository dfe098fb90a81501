#include "host/vector/layout.h"

#include <algorithm>
#include <cstring>

namespace aneforge::vec {
namespace {

// Rows [from, from + n) of a plane to one vector of channels each: 16 planes side by side. `planes` of them exist, the
// other lanes become zero.
void gather_channels(const Kernels& k, const float* from, ptrdiff_t plane, int planes, float* to, int pixels) {
  int x = 0;
  if (planes == kLanes)
    for (; x + kLanes <= pixels; x += kLanes)
      k.transpose16(from + x, plane, to + static_cast<ptrdiff_t>(x) * kLanes, kLanes);
  if (x == pixels) return;
  float staged[kLanes * kLanes] = {};
  for (; x < pixels; x += kLanes) {
    const int n = std::min(kLanes, pixels - x);
    for (int c = 0; c < planes; ++c)
      std::memcpy(staged + c * kLanes, from + c * plane + x, static_cast<size_t>(n) * sizeof(float));
    if (n == kLanes) {
      k.transpose16(staged, kLanes, to + static_cast<ptrdiff_t>(x) * kLanes, kLanes);
    } else {
      for (int i = 0; i < n; ++i)
        for (int c = 0; c < kLanes; ++c) to[static_cast<ptrdiff_t>(x + i) * kLanes + c] = staged[c * kLanes + i];
    }
  }
}

void scatter_channels(const Kernels& k, const float* from, float* to, ptrdiff_t plane, int planes, int pixels) {
  int x = 0;
  if (planes == kLanes)
    for (; x + kLanes <= pixels; x += kLanes)
      k.transpose16(from + static_cast<ptrdiff_t>(x) * kLanes, kLanes, to + x, plane);
  float staged[kLanes * kLanes];
  for (; x + kLanes <= pixels; x += kLanes) {
    k.transpose16(from + static_cast<ptrdiff_t>(x) * kLanes, kLanes, staged, kLanes);
    for (int c = 0; c < planes; ++c) std::memcpy(to + c * plane + x, staged + c * kLanes, sizeof(float) * kLanes);
  }
  for (; x < pixels; ++x)
    for (int c = 0; c < planes; ++c) to[c * plane + x] = from[static_cast<ptrdiff_t>(x) * kLanes + c];
}

void clear_plane(const ImageLayout& l, float* plane) {
  const size_t row = static_cast<size_t>(l.row()), side = static_cast<size_t>(l.halo_w * l.pixel());
  std::memset(plane, 0, row * l.halo_h * sizeof(float));
  std::memset(plane + row * (l.halo_h + l.height), 0, row * l.halo_h * sizeof(float));
  if (!side) return;
  for (int y = 0; y < l.height; ++y) {
    float* p = plane + row * (l.halo_h + y);
    std::memset(p, 0, side * sizeof(float));
    std::memset(p + row - side, 0, side * sizeof(float));
  }
}

}  // namespace

void clear_halo(const ImageLayout& l, float* data, Parallel& parallel) {
  if (!l.has_halo()) return;
  const size_t planes = static_cast<size_t>(l.batch) * l.blocks();
  const size_t tasks =
      parallel.width() > 1 && l.floats() > (size_t{1} << 18) ? std::min(planes, 2 * parallel.width()) : 1;
  parallel.each(tasks, [&](size_t t) {
    for (size_t p = planes * t / tasks; p < planes * (t + 1) / tasks; ++p)
      clear_plane(l, data + l.block() * static_cast<ptrdiff_t>(p));
  });
}

void to_image(const float* from, const ImageLayout& l, float* to, Rounding rounding, Parallel& parallel) {
  const Kernels& k = kernels();
  const ptrdiff_t plane = static_cast<ptrdiff_t>(l.height) * l.width;
  clear_halo(l, to, parallel);
  const bool dense = !l.has_halo();
  each_band(l, parallel, [&](int n, int b, int y0, int y1) {
    const int first = l.planar ? b : b * kLanes, planes = l.planar ? 1 : std::min(kLanes, l.channels - first);
    const float* source = from + (static_cast<ptrdiff_t>(n) * l.channels + first) * plane;
    const int step = dense ? y1 - y0 : 1;  // without a halo the rows join into one
    for (int y = y0; y < y1; y += step) {
      float* target = to + l.offset(n, b, y, 0);
      const int pixels = l.width * step;
      if (l.planar) {
        k.round(source + static_cast<ptrdiff_t>(y) * l.width, target, static_cast<size_t>(pixels), rounding);
        continue;
      }
      gather_channels(k, source + static_cast<ptrdiff_t>(y) * l.width, plane, planes, target, pixels);
      if (rounding != Rounding::kNone) k.round(target, target, static_cast<size_t>(pixels) * kLanes, rounding);
    }
  });
}

void from_image(const ImageLayout& l, const float* from, float* to, Parallel& parallel) {
  const Kernels& k = kernels();
  const ptrdiff_t plane = static_cast<ptrdiff_t>(l.height) * l.width;
  const bool dense = !l.has_halo();
  each_band(l, parallel, [&](int n, int b, int y0, int y1) {
    const int first = l.planar ? b : b * kLanes, planes = l.planar ? 1 : std::min(kLanes, l.channels - first);
    float* target = to + (static_cast<ptrdiff_t>(n) * l.channels + first) * plane;
    const int step = dense ? y1 - y0 : 1;
    for (int y = y0; y < y1; y += step) {
      const float* source = from + l.offset(n, b, y, 0);
      float* t = target + static_cast<ptrdiff_t>(y) * l.width;
      if (l.planar)
        std::memcpy(t, source, static_cast<size_t>(l.width) * step * sizeof(float));
      else
        scatter_channels(k, source, t, plane, planes, l.width * step);
    }
  });
}

void copy_image(const ImageLayout& fl, const float* from, const ImageLayout& tl, float* to, int first_block,
                Parallel& parallel) {
  each_band(fl, parallel, [&](int n, int b, int y0, int y1) {
    for (int y = y0; y < y1; ++y)
      std::memcpy(to + tl.offset(n, b + first_block, y, 0), from + fl.offset(n, b, y, 0),
                  static_cast<size_t>(fl.width) * fl.pixel() * sizeof(float));
  });
}

void transpose(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row, size_t rows, size_t columns) {
  const Kernels& k = kernels();
  // Square by square, so that both sides touch few cache lines at a time.
  for (size_t r = 0; r < rows; r += kLanes)
    for (size_t c = 0; c < columns; c += kLanes) {
      const float* f = from + static_cast<ptrdiff_t>(r) * from_row + c;
      float* t = to + static_cast<ptrdiff_t>(c) * to_row + r;
      const size_t nr = std::min<size_t>(kLanes, rows - r), nc = std::min<size_t>(kLanes, columns - c);
      if (nr == kLanes && nc == kLanes) {
        k.transpose16(f, from_row, t, to_row);
      } else if (nr * nc >= 64) {  // through a whole square
        float square[kLanes * kLanes] = {}, turned[kLanes * kLanes];
        for (size_t i = 0; i < nr; ++i)
          std::memcpy(square + i * kLanes, f + static_cast<ptrdiff_t>(i) * from_row, nc * sizeof(float));
        k.transpose16(square, kLanes, turned, kLanes);
        for (size_t j = 0; j < nc; ++j)
          std::memcpy(t + static_cast<ptrdiff_t>(j) * to_row, turned + j * kLanes, nr * sizeof(float));
      } else {
        for (size_t j = 0; j < nc; ++j)
          for (size_t i = 0; i < nr; ++i)
            t[static_cast<ptrdiff_t>(j) * to_row + i] = f[static_cast<ptrdiff_t>(i) * from_row + j];
      }
    }
}

}  // namespace aneforge::vec
