// Matrix products of row-major operands: out[i] = x[i] · y[j], y packed once when it is known, at each run otherwise.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "host/vector/aligned.h"
#include "host/vector/epilogue.h"

namespace aneforge::vec {

struct MatmulParams {
  int64_t m = 1, k = 1, n = 1;
  bool transpose_x = false;  // x lies as [k][m]
  bool transpose_y = false;  // y lies as [n][k]
  // For each matrix of the result, which matrix of x and which of y.
  std::vector<std::pair<int64_t, int64_t>> pairs = {{0, 0}};
  int64_t y_matrices = 1;
};

class MatmulPlan {
 public:
  // y: all its matrices, or null when it is given at run time. The epilogue's channels are the n columns; its tensor
  // operands have the steps of `steps()`.
  MatmulPlan(const MatmulParams& params, const float* y, Epilogue epilogue);
  static Steps steps(const MatmulParams& p) { return {p.m * p.n, kLanes, 0, p.n, 0}; }

  size_t scratch_floats() const { return scratch_x_ + scratch_y_; }
  // y is ignored when it was packed before. scratch: scratch_floats(), aligned to 64 bytes.
  void run(const float* x, const float* y, float* out, const float* const* operands, float* scratch,
           Parallel& parallel) const;
  const char* form() const;  // for reports

 private:
  enum class Form {
    kTiles,  // register tiles over packed columns
    kDots,   // few columns: a dot product each
    kGemv,   // few rows, known y: y is read once, as halves where it holds halves
  };
  void pack_columns(const float* y, float* to, Parallel& parallel) const;
  void pack_rows(const float* x, float* to, Parallel& parallel) const;
  void run_tiles(const float* x, const float* panels, float* out, const float* const* operands, const float* x_panels,
                 Parallel& parallel) const;
  void run_dots(const float* x, const float* columns, float* out, const float* const* operands,
                Parallel& parallel) const;
  void run_gemv(const float* x, float* out, const float* const* operands, Parallel& parallel) const;
  void tile_block(int64_t pair, int64_t tile, int64_t group, int64_t slab, const float* x, const float* panels,
                  float* out, const float* const* operands, const float* x_panels) const;
  // Finishes `count` sums at columns [first, …) of one row, whole blocks at `sums`, and stores the valid ones.
  void finish_row(const float* const* operands, int64_t pair, int64_t row, int64_t first, int64_t count, float* sums,
                  float* out) const;
  void rest_of_row(const float* const* operands, int64_t pair, int64_t row, int64_t first, int64_t count,
                   float* out) const;

  int64_t first_row(int64_t tile) const { return p_.m * tile / row_tiles_; }
  // Where the panel of `blocks` blocks that begins at column 16 * block lies within a packed y.
  size_t panel(int64_t block) const { return static_cast<size_t>(block * kLanes * p_.k); }

  MatmulParams p_;
  Epilogue epilogue_;
  const Kernels& kernels_;
  Form form_ = Form::kTiles;
  int64_t blocks_ = 0, groups_ = 0, row_tiles_ = 0, slab_ = 0, slabs_ = 0;
  size_t panel_floats_ = 0;  // of one packed y
  size_t scratch_x_ = 0, scratch_y_ = 0;
  bool packed_ = false;
  Aligned<float> weights_;
  Aligned<uint16_t> half_weights_;
};

}  // namespace aneforge::vec
