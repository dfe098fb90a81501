// Where the values of an image tensor lie: blocked NCHWc with c = 16, and the planar form of images with few channels.
//
//   blocked   [N][ceil(C / 16)][H + 2 halo_h][W + 2 halo_w][16]
//   planar    [N][C][H + 2 halo_h][W + 2 halo_w]
//
// The halo holds zeros, as wide as the widest padding of any consumer, so that convolutions have no border cases. Lanes
// past the last channel hold anything: no kernel lets them reach a valid lane.
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
    return n * image() + b * block() + static_cast<ptrdiff_t>(y + halo_h) * row() +
           static_cast<ptrdiff_t>(x + halo_w) * pixel();
  }
  bool has_halo() const { return halo_h > 0 || halo_w > 0; }
};

// Zeros into the halo; the interior is left alone.
void clear_halo(const ImageLayout& layout, float* data, Parallel& parallel);

// Dense NCHW -> layout, halo cleared, each value rounded. `from` is [N][C][H][W].
void to_image(const float* from, const ImageLayout& layout, float* to, Rounding rounding, Parallel& parallel);
// Layout -> dense NCHW.
void from_image(const ImageLayout& layout, const float* from, float* to, Parallel& parallel);
// Between two blocked layouts of one tensor, and into a channel range of a wider one: first_block is where the blocks
// of `from` begin in `to` (concatenation along channels that are multiples of 16).
void copy_image(const ImageLayout& from_layout, const float* from, const ImageLayout& to_layout, float* to,
                int first_block, Parallel& parallel);

// How many tasks: one a thread, unless they would be smaller than a task is worth (some microseconds).
inline int task_count(const Parallel& parallel, double work, double work_of_a_task) {
  if (parallel.width() <= 1) return 1;
  // One task a thread, cut the same way in every layer: a thread then reads what it wrote itself. Four tasks a thread,
  // shared as they come, send activations from core to core: MobileNetV2 at two threads 4.0 ms instead of 2.2,
  // ResNet-18 the same.
  return static_cast<int>(std::min(static_cast<double>(parallel.width()), 1 + work / work_of_a_task));
}
constexpr double kProductsOfATask = 5e5;  // multiply-adds in a tile
constexpr double kFloatsOfATask = 16384;  // values that are moved, or go through simple arithmetic

// body(i) for i in [0, total), neighbours together, in at most `tasks` tasks.
template <class F>
void each_of(int64_t total, int tasks, Parallel& parallel, F&& body) {
  const int64_t parts = std::min<int64_t>(tasks, total);
  parallel.each(static_cast<size_t>(parts), [&](size_t task) {
    const int64_t t = static_cast<int64_t>(task);
    for (int64_t i = total * t / parts; i < total * (t + 1) / parts; ++i) body(i);
  });
}

// body(n, block, first row, last row + 1) over all of an image.
template <class F>
void each_band(const ImageLayout& l, Parallel& parallel, F&& body) {
  const int planes = l.batch * l.blocks();
  const int wanted = task_count(parallel, static_cast<double>(l.floats()), kFloatsOfATask);
  const int bands = std::clamp((wanted + planes - 1) / planes, 1, l.height);
  each_of(static_cast<int64_t>(planes) * bands, wanted, parallel, [&](int64_t i) {
    const int plane = static_cast<int>(i / bands), band = static_cast<int>(i % bands);
    body(plane / l.blocks(), plane % l.blocks(), l.height * band / bands, l.height * (band + 1) / bands);
  });
}

// Dense [rows][columns] -> [columns][rows]; steps in floats.
void transpose(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row, size_t rows, size_t columns);

}  // namespace aneforge::vec
