#include "host/vector/winograd.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "host/vector/scratch.h"

namespace aneforge::vec {
namespace {

// Transformed inputs of a chunk of tiles stay in half of a small second-level cache.
constexpr size_t kChunkBytes = 256 << 10;

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Rows of G: a 3×3 kernel g becomes G g Gᵀ.
constexpr double kG2[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
constexpr double kG4[6][3] = {{1 / 4., 0, 0},
                              {-1 / 6., -1 / 6., -1 / 6.},
                              {-1 / 6., 1 / 6., -1 / 6.},
                              {1 / 24., 1 / 12., 1 / 6.},
                              {1 / 24., -1 / 12., 1 / 6.},
                              {0, 0, 1}};

}  // namespace

bool WinogradPlan::supports(const ConvParams& p, const ImageLayout& in) {
  return p.kernel_h == 3 && p.kernel_w == 3 && p.stride_h == 1 && p.stride_w == 1 && p.dilation_h == 1 &&
         p.dilation_w == 1 && p.groups == 1 && !in.planar;
}

int WinogradPlan::best_tile(const ConvParams& p, const ImageLayout& in, const ImageLayout& out, bool large) {
  // Fewer channels do not pay for the transforms.
  if (in.channels < 32 || p.out_channels < 32) return 0;
  // Multiplications for each pair of an input and an output channel. Transformed weights are several times as many as
  // the kernel's, and a few tiles do not hide the time to read them: reading one costs as much as some 48 products
  // (measured). Below 0.8 of the direct number, transforms included, there is a gain.
  constexpr double kProductsOfARead = 48, kTransforms = 1.15;
  double best = 0.8 * 9 * out.height * out.width * out.batch;
  int tile = 0;
  for (int candidate : {2, 4}) {
    if (candidate == 4 && !large) continue;
    const double tiles =
        static_cast<double>(ceil_div(out.height, candidate)) * ceil_div(out.width, candidate) * out.batch;
    const double cost = kTransforms * (candidate + 2) * (candidate + 2) * std::max(tiles, kProductsOfARead);
    if (cost >= best) continue;
    best = cost;
    tile = candidate;
  }
  return tile;
}

WinogradPlan::WinogradPlan(const ConvParams& p, const ImageLayout& in, const ImageLayout& out, const float* weights,
                           const Epilogue& epilogue, int tile, bool halves)
    : params_(p),
      in_(in),
      out_(out),
      epilogue_(epilogue),
      kernels_(kernels()),
      direct_(p, in, out, weights, epilogue, halves ? ConvPlan::Keep::kHalves : ConvPlan::Keep::kFloats),
      tile_(tile),
      size_(tile + 2),
      points_(size_ * size_) {
  tiles_h_ = ceil_div(out.height, tile);
  tiles_w_ = ceil_div(out.width, tile);
  tiles_ = out.batch * tiles_h_ * tiles_w_;
  const int per_tile = kernels_.tile_pixels;
  const int fit = static_cast<int>(kChunkBytes / (transformed_floats(1) * sizeof(float)));
  chunk_ = std::max(per_tile, fit / per_tile * per_tile);
  last_channels_ = in.channels - (in.blocks() - 1) * kLanes;

  const int blocks = ceil_div(p.out_channels, kLanes);
  groups_ = ceil_div(blocks, kernels_.tile_blocks);
  weights_ = Aligned<float>(static_cast<size_t>(points_) * in.channels * blocks * kLanes);
  const size_t point = static_cast<size_t>(in.channels);
  for (int o = 0; o < p.out_channels; ++o) {
    const int block = o / kLanes, group = block / kernels_.tile_blocks;
    const int first = group * kernels_.tile_blocks, width = std::min(kernels_.tile_blocks, blocks - first) * kLanes;
    float* base =
        weights_.data() + static_cast<size_t>(first) * kLanes * point * points_ + (block - first) * kLanes + o % kLanes;
    for (int i = 0; i < in.channels; ++i) {
      const float* g = weights + (static_cast<size_t>(o) * in.channels + i) * 9;
      for (int a = 0; a < size_; ++a)
        for (int b = 0; b < size_; ++b) {
          const double* row = tile == 2 ? kG2[a] : kG4[a];
          const double* column = tile == 2 ? kG2[b] : kG4[b];
          double sum = 0;
          for (int y = 0; y < 3; ++y)
            for (int x = 0; x < 3; ++x) sum += row[y] * static_cast<double>(g[y * 3 + x]) * column[x];
          base[((a * size_ + b) * point + static_cast<size_t>(i)) * static_cast<size_t>(width)] =
              static_cast<float>(sum);
        }
    }
  }
}

size_t WinogradPlan::scratch_floats() const {
  // Used when there are few tiles: then all of them at once.
  return tiles_ <= 16 * kMaxTilePixels
             ? transformed_floats(tiles_) + static_cast<size_t>(tiles_) / sizeof(float) + kLanes
             : 0;
}

WinogradPlan::Position WinogradPlan::position(int tile) const {
  const int per_image = tiles_h_ * tiles_w_;
  return {tile / per_image, tile % per_image / tiles_w_ * tile_, tile % tiles_w_ * tile_};
}

void WinogradPlan::run(const float* in, float* out, const float* const* operands, float* scratch,
                       Parallel& parallel) const {
  const int width = static_cast<int>(parallel.width());
  const int chunks = ceil_div(tiles_, chunk_);
  if (width > 1 && scratch_floats() && chunks < 2 * width) {
    // Few tiles: all are transformed first, then the groups of output channels are the tasks.
    float* transformed = scratch;
    uint8_t* spoiled = reinterpret_cast<uint8_t*>(scratch + transformed_floats(tiles_));
    const Range all{0, tiles_};
    std::vector<std::vector<uint8_t>> marks(static_cast<size_t>(groups_));
    each_of(in_.blocks(), task_count(parallel, static_cast<double>(transformed_floats(tiles_)), 2 * kFloatsOfATask),
            parallel,
            [&](int64_t b) { transform(in, all, static_cast<int>(b), static_cast<int>(b) + 1, transformed); });
    each_of(groups_, 4 * width, parallel, [&](int64_t g) {
      std::vector<uint8_t>& mine = marks[static_cast<size_t>(g)];
      mine.assign(static_cast<size_t>(tiles_), 0);
      multiply(transformed, all, static_cast<int>(g), static_cast<int>(g) + 1, out, operands,
               thread_scratch(sums_floats(tiles_)), mine.data());
    });
    std::memset(spoiled, 0, static_cast<size_t>(tiles_));
    for (const std::vector<uint8_t>& m : marks)
      for (int i = 0; i < tiles_; ++i) spoiled[i] |= m[static_cast<size_t>(i)];
    redo(in, out, operands, all, spoiled);
    return;
  }
  // Each task takes chunks of tiles through all channels.
  const int tasks = width > 1 ? std::min(chunks * chunk_ / kernels_.tile_pixels, 4 * width) : 1;
  each_of(tasks, tasks, parallel, [&](int64_t task) {
    const int64_t t = task;
    const int first = static_cast<int>(tiles_ * t / tasks), last = static_cast<int>(tiles_ * (t + 1) / tasks);
    for (int at = first; at < last; at += chunk_) {
      const Range range{at, std::min(chunk_, last - at)};
      const size_t floats = transformed_floats(range.count);
      float* transformed = thread_scratch(floats + sums_floats(range.count) + static_cast<size_t>(range.count));
      float* sums = transformed + floats;
      uint8_t* spoiled = reinterpret_cast<uint8_t*>(sums + sums_floats(range.count));
      std::memset(spoiled, 0, static_cast<size_t>(range.count));
      transform(in, range, 0, in_.blocks(), transformed);
      multiply(transformed, range, 0, groups_, out, operands, sums, spoiled);
      redo(in, out, operands, range, spoiled);
    }
  });
}

void WinogradPlan::transform(const float* in, Range tiles, int b0, int b1, float* to) const {
  const ptrdiff_t step = static_cast<ptrdiff_t>(in_.blocks()) * tiles.count * kLanes;
  const auto kernel = tile_ == 2 ? kernels_.winograd_input2 : kernels_.winograd_input4;
  float edge[6 * 6 * kLanes];
  for (int b = b0; b < b1; ++b)
    for (int i = 0; i < tiles.count; ++i) {
      const Position p = position(tiles.first + i);
      const int y = p.y - params_.pad_top, x = p.x - params_.pad_left;
      const float* from = in + in_.offset(p.n, b, y, x);
      ptrdiff_t row = in_.row();
      // Rows and columns that exist, the halo included.
      const int rows = std::min(size_, in_.height + in_.halo_h - y),
                columns = std::min(size_, in_.width + in_.halo_w - x);
      if (rows < size_ || columns < size_) {
        std::memset(edge, 0, sizeof edge);
        for (int r = 0; r < rows; ++r)
          std::memcpy(edge + r * size_ * kLanes, from + r * row, static_cast<size_t>(columns) * kLanes * sizeof(float));
        from = edge;
        row = size_ * kLanes;
      }
      kernel(from, row, to + (static_cast<ptrdiff_t>(b) * tiles.count + i) * kLanes, step);
    }
}

void WinogradPlan::multiply(const float* transformed, Range tiles, int g0, int g1, float* out,
                            const float* const* operands, float* sums, uint8_t* spoiled) const {
  const int blocks = ceil_div(params_.out_channels, kLanes);
  const ptrdiff_t in_step = static_cast<ptrdiff_t>(in_.blocks()) * tiles.count * kLanes;
  const int calls = ceil_div(tiles.count, kernels_.tile_pixels);
  for (int g = g0; g < g1; ++g) {
    const int first = g * kernels_.tile_blocks, width = std::min(kernels_.tile_blocks, blocks - first);
    const ptrdiff_t sums_step = static_cast<ptrdiff_t>(width) * tiles.count * kLanes;
    const float* weights = weights_.data() + static_cast<size_t>(first) * kLanes * in_.channels * points_;
    for (int point = 0; point < points_; ++point) {
      Tile t;
      t.in = transformed + point * in_step;
      t.weights = weights + static_cast<size_t>(point) * in_.channels * width * kLanes;
      t.out = sums + point * sums_step;
      t.in_block = t.out_block = static_cast<ptrdiff_t>(tiles.count) * kLanes;
      t.out_pixel = kLanes;
      t.blocks = in_.blocks();
      t.last_channels = last_channels_;
      for (int done = 0, call = 0; call < calls; ++call) {
        const int count = ceil_div(tiles.count - done, calls - call);
        kernels_.tile[kStep16][width][count](t);
        t.in += count * kLanes;
        t.out += count * kLanes;
        done += count;
      }
    }
    for (int b = 0; b < width; ++b)
      for (int i = 0; i < tiles.count; ++i) {
        const Position p = position(tiles.first + i);
        const Finish finish = epilogue_.finish(operands, p.n, first + b, p.y, p.x);
        WinogradOutput w;
        w.sums = sums + (static_cast<ptrdiff_t>(b) * tiles.count + i) * kLanes;
        w.sums_step = sums_step;
        w.out = out + out_.offset(p.n, first + b, p.y, p.x);
        w.out_row = out_.row();
        w.tensor_row = epilogue_.tensor_row();
        w.rows = std::min(tile_, out_.height - p.y);
        w.columns = std::min(tile_, out_.width - p.x);
        w.channels = std::min(kLanes, params_.out_channels - (first + b) * kLanes);
        w.finish = &finish;
        if (!(tile_ == 2 ? kernels_.winograd_output2 : kernels_.winograd_output4)(w)) {
          spoiled[i] = 1;
        } else if (epilogue_.has_rest()) {
          for (int y = 0; y < w.rows; ++y)
            epilogue_.rest(operands, p.n, first + b, p.y + y, p.x, w.out + y * w.out_row, w.out + y * w.out_row,
                           w.columns);
        }
      }
  }
}

void WinogradPlan::redo(const float* in, float* out, const float* const* operands, Range tiles,
                        const uint8_t* spoiled) const {
  if (std::none_of(spoiled, spoiled + tiles.count, [](uint8_t s) { return s != 0; })) return;
  std::vector<ConvPlan::Run> runs;
  for (int row = 0; row < tile_; ++row)
    for (int i = 0; i < tiles.count; ++i) {
      const Position p = position(tiles.first + i);
      const int y = p.y + row, columns = std::min(tile_, out_.width - p.x);
      if (!spoiled[i] || y >= out_.height) continue;
      // Neighbouring tiles share a run.
      if (!runs.empty() && runs.back().n == p.n && runs.back().y == y && runs.back().x + runs.back().pixels == p.x)
        runs.back().pixels += columns;
      else
        runs.push_back({p.n, y, p.x, columns});
    }
  direct_.run_some(in, out, operands, runs);
}

}  // namespace aneforge::vec
