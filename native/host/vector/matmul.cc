#include "host/vector/matmul.h"

#include <algorithm>
#include <cstring>

#include "core/fp16.h"
#include "host/vector/layout.h"

namespace aneforge::vec {
namespace {

constexpr int64_t kSlab = 1024;    // products summed before they are added to the result; constant: it decides results
constexpr int64_t kBandTiles = 8;  // row tiles that share a slab of columns while it is in cache
constexpr int64_t kFewRows = 3, kFewColumns = 4;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool all_halves(const float* x, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (float_bits(round_to_half(x[i])) != float_bits(x[i])) return false;
  return true;
}

}  // namespace

MatmulPlan::MatmulPlan(const MatmulParams& params, const float* y, Epilogue epilogue)
    : p_(params), epilogue_(std::move(epilogue)), kernels_(kernels()) {
  blocks_ = ceil_div(p_.n, kLanes);
  groups_ = ceil_div(blocks_, kernels_.tile_blocks);
  row_tiles_ = ceil_div(p_.m, kernels_.tile_pixels);
  slabs_ = ceil_div(p_.k, kSlab);
  slab_ = ceil_div(p_.k, slabs_);
  slabs_ = ceil_div(p_.k, slab_);
  if (p_.n <= kFewColumns && !p_.transpose_x) {
    form_ = Form::kDots;
    panel_floats_ = static_cast<size_t>(p_.n * p_.k);
  } else if (y && p_.m <= kFewRows && p_.pairs.size() == 1 && !(p_.transpose_x && p_.m > 1)) {
    form_ = Form::kGemv;
    panel_floats_ = static_cast<size_t>(ceil_div(p_.n, 32) * 32 * p_.k);
  } else {
    panel_floats_ = static_cast<size_t>(blocks_ * kLanes * p_.k);
    // Rows whose distance is a multiple of the page size fall into few cache sets: packed too, where the work pays for
    // it.
    if (p_.transpose_x || (p_.k % 2048 == 0 && p_.m >= 64 && p_.n >= 256)) {
      int64_t matrices = 0;
      for (const auto& pair : p_.pairs) matrices = std::max(matrices, pair.first + 1);
      scratch_x_ = static_cast<size_t>(matrices * row_tiles_ * p_.k * kLanes);
    }
  }
  const size_t total = panel_floats_ * static_cast<size_t>(p_.y_matrices);
  if (!y) {
    if (!(form_ == Form::kDots && (p_.transpose_y || p_.n == 1))) scratch_y_ = (total + kLanes - 1) / kLanes * kLanes;
    return;
  }
  packed_ = true;
  Serial serial;
  weights_ = Aligned<float>(total);
  pack_columns(y, weights_.data(), serial);
  if (form_ == Form::kGemv && epilogue_.numerics().rounding != Rounding::kNone && all_halves(weights_.data(), total)) {
    half_weights_ = Aligned<uint16_t>(total);
    kernels_.float_to_half(weights_.data(), half_weights_.data(), total);
    weights_ = Aligned<float>();
  }
}

const char* MatmulPlan::form() const {
  return form_ == Form::kTiles  ? "tiles"
         : form_ == Form::kDots ? "dots"
         : half_weights_.size() ? "gemv, half weights"
                                : "gemv";
}

void MatmulPlan::pack_columns(const float* y, float* to, Parallel& parallel) const {
  const size_t matrix = static_cast<size_t>(p_.k * p_.n);
  if (form_ == Form::kDots) {  // [n][k]
    for (int64_t i = 0; i < p_.y_matrices; ++i) {
      if (p_.transpose_y)
        std::copy_n(y + matrix * i, matrix, to + panel_floats_ * i);
      else
        transpose(y + matrix * i, p_.n, to + panel_floats_ * i, p_.k, static_cast<size_t>(p_.k),
                  static_cast<size_t>(p_.n));
    }
    return;
  }
  const int64_t per_group = form_ == Form::kGemv ? 2 : kernels_.tile_blocks;
  const int64_t groups = ceil_div(blocks_, per_group);
  const int tasks =
      task_count(parallel, static_cast<double>(panel_floats_) * static_cast<double>(p_.y_matrices), kFloatsOfATask);
  each_of(p_.y_matrices * groups, tasks, parallel, [&](int64_t at) {
    const int64_t i = at / groups, g = at % groups;
    const int64_t width = (form_ == Form::kGemv ? 2 : std::min(per_group, blocks_ - g * per_group)) * kLanes;
    const int64_t first = g * per_group * kLanes, valid = std::min(width, p_.n - first);
    const float* from = y + matrix * i;
    float* panel_start = to + panel_floats_ * i + panel(g * per_group);
    if (p_.transpose_y) {
      transpose(from + first * p_.k, p_.k, panel_start, width, static_cast<size_t>(valid), static_cast<size_t>(p_.k));
    } else {
      for (int64_t k = 0; k < p_.k; ++k)
        std::memcpy(panel_start + k * width, from + k * p_.n + first, static_cast<size_t>(valid) * sizeof(float));
    }
    if (valid < width)
      for (int64_t k = 0; k < p_.k; ++k)
        std::fill(panel_start + k * width + valid, panel_start + (k + 1) * width, 0.0f);
  });
}

// x -> for each row tile [k][16], the form of kPanel.
void MatmulPlan::pack_rows(const float* x, float* to, Parallel& parallel) const {
  const int64_t matrices = static_cast<int64_t>(scratch_x_) / (row_tiles_ * p_.k * kLanes);
  const int tasks = task_count(parallel, static_cast<double>(scratch_x_), kFloatsOfATask);
  each_of(matrices * row_tiles_, tasks, parallel, [&](int64_t at) {
    const int64_t i = at / row_tiles_, t = at % row_tiles_;
    const int64_t first = first_row(t), count = first_row(t + 1) - first;
    float* panel_start = to + at * p_.k * kLanes;
    if (!p_.transpose_x) {
      transpose(x + (i * p_.m + first) * p_.k, p_.k, panel_start, kLanes, static_cast<size_t>(count),
                static_cast<size_t>(p_.k));
      return;
    }
    const float* from = x + i * p_.k * p_.m + first;
    for (int64_t k = 0; k < p_.k; ++k)
      std::memcpy(panel_start + k * kLanes, from + k * p_.m, static_cast<size_t>(count) * sizeof(float));
  });
}

void MatmulPlan::run(const float* x, const float* y, float* out, const float* const* operands, float* scratch,
                     Parallel& parallel) const {
  const float* panels = weights_.data();
  if (!packed_) {
    panels = y;
    if (scratch_y_) {
      pack_columns(y, scratch, parallel);
      panels = scratch;
    }
  }
  if (form_ == Form::kDots) return run_dots(x, panels, out, operands, parallel);
  if (form_ == Form::kGemv) return run_gemv(x, out, operands, parallel);
  float* x_panels = nullptr;
  if (scratch_x_) {
    x_panels = scratch + scratch_y_;
    pack_rows(x, x_panels, parallel);
  }
  run_tiles(x, panels, out, operands, x_panels, parallel);
}

void MatmulPlan::run_tiles(const float* x, const float* panels, float* out, const float* const* operands,
                           const float* x_panels, Parallel& parallel) const {
  const int64_t pairs = static_cast<int64_t>(p_.pairs.size());
  int64_t row_parts = 1, column_parts = 1;
  const double products =
      static_cast<double>(p_.m) * static_cast<double>(p_.n) * static_cast<double>(p_.k) * static_cast<double>(pairs);
  const int wanted = task_count(parallel, products, kProductsOfATask);
  if (wanted > 1) {
    row_parts = std::clamp<int64_t>(ceil_div(wanted, pairs), 1, row_tiles_);
    column_parts = std::clamp<int64_t>(ceil_div(wanted, pairs * row_parts), 1, groups_);
  }
  each_of(pairs * row_parts * column_parts, wanted, parallel, [&](int64_t at) {
    const int64_t pair = at / (row_parts * column_parts), rp = at / column_parts % row_parts, cp = at % column_parts;
    const int64_t t0 = row_tiles_ * rp / row_parts, t1 = row_tiles_ * (rp + 1) / row_parts;
    const int64_t g0 = groups_ * cp / column_parts, g1 = groups_ * (cp + 1) / column_parts;
    for (int64_t band = t0; band < t1; band += kBandTiles) {
      const int64_t band_end = std::min(t1, band + kBandTiles);
      for (int64_t slab = 0; slab < slabs_; ++slab)
        for (int64_t g = g0; g < g1; ++g)
          for (int64_t t = band; t < band_end; ++t) tile_block(pair, t, g, slab, x, panels, out, operands, x_panels);
      if (!epilogue_.has_rest()) continue;
      const int64_t first = g0 * kernels_.tile_blocks * kLanes,
                    last = std::min(p_.n, g1 * kernels_.tile_blocks * kLanes);
      for (int64_t row = first_row(band); row < first_row(band_end); ++row)
        rest_of_row(operands, pair, row, first, last - first, out + (pair * p_.m + row) * p_.n + first);
    }
  });
}

void MatmulPlan::tile_block(int64_t pair, int64_t tile, int64_t group, int64_t slab, const float* x,
                            const float* panels, float* out, const float* const* operands,
                            const float* x_panels) const {
  const int64_t row = first_row(tile), rows = first_row(tile + 1) - row;
  const int64_t block = group * kernels_.tile_blocks, blocks = std::min<int64_t>(kernels_.tile_blocks, blocks_ - block);
  const int64_t k0 = slab * slab_, count = std::min(slab_, p_.k - k0);
  Tile t;
  TileKind kind = kAnyStep;
  if (x_panels) {
    kind = kPanel;
    t.in = x_panels + ((p_.pairs[pair].first * row_tiles_ + tile) * p_.k + k0) * kLanes;
  } else {
    t.in = x + (p_.pairs[pair].first * p_.m + row) * p_.k + k0;
    t.in_pixel = p_.k;
  }
  t.weights = panels + panel_floats_ * static_cast<size_t>(p_.pairs[pair].second) + panel(block) + k0 * blocks * kLanes;
  t.channels = t.last_channels = static_cast<int>(count);
  t.accumulate = slab > 0;
  Finish finish;
  if (slab + 1 == slabs_) {
    finish = epilogue_.finish(operands, static_cast<int>(pair), static_cast<int>(block), 0, static_cast<int>(row));
    t.finish = &finish;
  }
  float* to = out + (pair * p_.m + row) * p_.n + block * kLanes;
  const int64_t valid = std::min(blocks * kLanes, p_.n - block * kLanes);
  if (valid == blocks * kLanes) {
    t.out = to;
    t.out_block = kLanes;
    t.out_pixel = p_.n;
    kernels_.tile[kind][blocks][rows](t);
    return;
  }
  // The last block is not whole: through buffers of whole blocks.
  float sums[kMaxTilePixels * kMaxTileBlocks * kLanes], addend[kMaxTilePixels * kMaxTileBlocks * kLanes];
  const ptrdiff_t width = blocks * kLanes;
  t.out = sums;
  t.out_block = kLanes;
  t.out_pixel = width;
  const size_t bytes = static_cast<size_t>(valid) * sizeof(float);
  if (t.accumulate) {
    std::memset(sums, 0, sizeof sums);
    for (int64_t r = 0; r < rows; ++r) std::memcpy(sums + r * width, to + r * p_.n, bytes);
  }
  if (t.finish && finish.add_tensor) {
    std::memset(addend, 0, sizeof addend);
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(addend + r * width, finish.add_tensor + r * finish.tensor_pixel, bytes);
    finish.add_tensor = addend;
    finish.tensor_block = kLanes;
    finish.tensor_pixel = width;
  }
  kernels_.tile[kind][blocks][rows](t);
  for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * p_.n, sums + r * width, bytes);
}

void MatmulPlan::finish_row(const float* const* operands, int64_t pair, int64_t row, int64_t first, int64_t count,
                            float* sums, float* out) const {
  const int blocks = static_cast<int>(ceil_div(count, kLanes));
  Finish finish =
      epilogue_.finish(operands, static_cast<int>(pair), static_cast<int>(first / kLanes), 0, static_cast<int>(row));
  float addend[4 * kLanes];
  if (finish.add_tensor) {
    std::memset(addend, 0, sizeof addend);
    std::memcpy(addend, finish.add_tensor, static_cast<size_t>(count) * sizeof(float));
    finish.add_tensor = addend;
    finish.tensor_block = kLanes;
  }
  kernels_.finish(finish, sums, blocks);
  std::memcpy(out, sums, static_cast<size_t>(count) * sizeof(float));
  if (epilogue_.has_rest()) rest_of_row(operands, pair, row, first, count, out);
}

void MatmulPlan::rest_of_row(const float* const* operands, int64_t pair, int64_t row, int64_t first, int64_t count,
                             float* out) const {
  epilogue_.rest_across(operands, static_cast<int>(pair), static_cast<int>(row), static_cast<int>(first / kLanes), out,
                        out, static_cast<size_t>(count));
}

void MatmulPlan::run_dots(const float* x, const float* columns, float* out, const float* const* operands,
                          Parallel& parallel) const {
  const int64_t rows = static_cast<int64_t>(p_.pairs.size()) * p_.m;
  const int tasks = task_count(parallel, static_cast<double>(rows * p_.k * p_.n), kFloatsOfATask);
  each_of(rows, tasks, parallel, [&](int64_t r) {
    const int64_t pair = r / p_.m, row = r % p_.m;
    const float* from = x + (p_.pairs[pair].first * p_.m + row) * p_.k;
    const float* y = columns + panel_floats_ * static_cast<size_t>(p_.pairs[pair].second);
    float sums[kLanes] = {};
    for (int64_t j = 0; j < p_.n; ++j) sums[j] = kernels_.dot(from, y + j * p_.k, static_cast<size_t>(p_.k));
    finish_row(operands, pair, row, 0, p_.n, sums, out + r * p_.n);
  });
}

void MatmulPlan::run_gemv(const float* x, float* out, const float* const* operands, Parallel& parallel) const {
  const int64_t groups = ceil_div(p_.n, 32);
  // Memory bound: a task should read some 64 KB.
  const int tasks = task_count(parallel, static_cast<double>(groups * 32 * p_.k), 2 * kFloatsOfATask);
  each_of(groups, tasks, parallel, [&](int64_t g) {
    float sums[kFewRows * 32];
    const size_t start = static_cast<size_t>(g * 32 * p_.k);
    if (half_weights_.size())
      kernels_.gemv_half(x, p_.k, static_cast<int>(p_.m), half_weights_.data() + start, static_cast<size_t>(p_.k), 1,
                         sums, 32);
    else
      kernels_.gemv(x, p_.k, static_cast<int>(p_.m), weights_.data() + start, static_cast<size_t>(p_.k), 1, sums, 32);
    const int64_t first = g * 32, count = std::min<int64_t>(32, p_.n - first);
    for (int64_t row = 0; row < p_.m; ++row)
      finish_row(operands, 0, row, first, count, sums + row * 32, out + row * p_.n + first);
  });
}

}  // namespace aneforge::vec
