// Where the values of an image tensor lie: blocked NCHWc with c = 16, and the planar form of images with few channels.
//
//   blocked   [N][ceil(C / 16)][H + 2 halo_h][W + 2 halo_w][16]
//   planar    [N][C][H + 2 halo_h][W + 2 halo_w]
//
// The halo holds zeros, as wide as the widest padding of any consumer, so that convolutions have no border cases. Lanes past
// the last channel hold anything: no kernel lets them reach a valid lane.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/parallel.h"
#include "host/vector/kernels.h"

namespace aneforge::vec {

struct ImageLayout {
  int batch = 1, channels = 0, height = 1, width = 1;
  int halo_h = 0, halo_w = 0;
  bool planar = false;

  int blocks() const { return planar ? channels : (channels + kLanes - 1) / kLanes; }
  // Steps in floats.
  ptrdiff_t pixel() const { return planar ? 1 : kLanes; }
  ptrdiff_t row() const { return static_cast<ptrdiff_t>(width + 2 * halo_w) * pixel(); }
  ptrdiff_t block() const { return static_cast<ptrdiff_t>(height + 2 * halo_h) * row(); }
  ptrdiff_t image() const { return block() * blocks(); }
  size_t floats() const { return static_cast<size_t>(image()) * batch; }
  // Of pixel (y, x); negative and large coordinates reach into the halo.
  ptrdiff_t offset(int n, int b, int y, int x) const {
    return n * image() + b * block() + static_cast<ptrdiff_t>(y + halo_h) * row() + static_cast<ptrdiff_t>(x + halo_w) * pixel();
  }
  bool has_halo() const { return halo_h > 0 || halo_w > 0; }
};

// Zeros into the halo; the interior is left alone.
void clear_halo(const ImageLayout& layout, float* data, Parallel& parallel);

// Dense NCHW -> layout, halo cleared, each value rounded. `from` is [N][C][H][W].
void to_image(const float* from, const ImageLayout& layout, float* to, Rounding rounding, Parallel& parallel);
// Layout -> dense NCHW.
void from_image(const ImageLayout& layout, const float* from, float* to, Parallel& parallel);
// Between two blocked layouts of one tensor, and into a channel range of a wider one: first_block is where the blocks of
// `from` begin in `to` (concatenation along channels that are multiples of 16).
void copy_image(const ImageLayout& from_layout, const float* from, const ImageLayout& to_layout, float* to, int first_block,
                Parallel& parallel);

// body(n, block, first row, last row + 1) over all of an image, in tasks enough for the threads that there are.
template <class F>
void each_band(const ImageLayout& l, Parallel& parallel, F&& body) {
  const int planes = l.batch * l.blocks();
  const int wanted = parallel.width() > 1 ? static_cast<int>(4 * parallel.width()) : 1;
  const int bands = std::clamp((wanted + planes - 1) / planes, 1, l.height);
  const int tasks = std::min(wanted, planes * bands);
  const auto cut = [](int total, int part, int parts) { return static_cast<int>(static_cast<int64_t>(total) * part / parts); };
  parallel.each(static_cast<size_t>(tasks), [&](size_t task) {
    for (int i = cut(planes * bands, static_cast<int>(task), tasks); i < cut(planes * bands, static_cast<int>(task) + 1, tasks); ++i) {
      const int plane = i / bands, band = i % bands;
      body(plane / l.blocks(), plane % l.blocks(), cut(l.height, band, bands), cut(l.height, band + 1, bands));
    }
  });
}

// Dense [rows][columns] -> [columns][rows]; steps in floats.
void transpose(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row, size_t rows, size_t columns);

}  // namespace aneforge::vec
