// Operations on plain, row-major values: chains of elementwise operations, softmax, layer norm, reductions along one
// axis.
#pragma once
#include <cstdint>

#include "core/parallel.h"
#include "host/vector/epilogue.h"

namespace aneforge::vec {

// to = the chain applied to from, both [rows][columns]. Tensor operands have the steps {0, 16, 0, columns, 0}.
void map_rows(const Epilogue& chain, const float* from, float* to, int64_t rows, int64_t columns,
              const float* const* operands, Parallel& parallel);

void softmax_rows(const float* from, float* to, int64_t rows, int64_t columns, Rounding rounding, Parallel& parallel);
// Along the middle of [outer][length][inner].
void softmax_axis(const float* from, float* to, int64_t outer, int64_t length, int64_t inner, Rounding rounding,
                  Parallel& parallel);
void layer_norm_rows(const float* from, const float* gamma, const float* beta, float* to, int64_t rows, int64_t columns,
                     float epsilon, Rounding rounding, Parallel& parallel);

// [outer][rows][columns] -> [outer][columns][rows].
void transpose_matrices(const float* from, float* to, int64_t outer, int64_t rows, int64_t columns, Parallel& parallel);

// [outer][length][inner] -> [outer][inner].
struct ReduceShape {
  int64_t outer = 1, length = 1, inner = 1;
  bool narrow = false;  // a rounding after every addition, in index order (quirk Q06)
};
// Whether reduce_axis has a form for it.
bool reduces(const ReduceShape& shape);
void reduce_axis(Reduce op, const ReduceShape& shape, const float* from, float* to, Rounding rounding,
                 Parallel& parallel);

}  // namespace aneforge::vec
