// Walking tensors: chunks for threads, and rows of broadcast or strided operands.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/parallel.h"
#include "host/program.h"

namespace aneforge::host {

inline constexpr int64_t kGrain = 16384;                // elements of simple work that are worth a task
inline constexpr size_t kMostDims = 2 * mil::kMaxRank;  // of a walk: tile doubles the rank
inline constexpr int64_t kBlock = 4096;  // elements between compute and finish, so that both find them in cache

// A dense result of which operands are read with any strides (0 where they are broadcast), neighbouring dimensions
// joined where all operands allow it. The last dimension is the row.
template <size_t N>
struct Strided {
  std::vector<int64_t> dims;                    // at least one
  std::vector<std::array<int64_t, N>> strides;  // by dimension
  std::array<int64_t, N> base{};                // offset of the first element

  int64_t row() const { return dims.back(); }
  int64_t rows() const {
    int64_t n = 1;
    for (size_t i = 0; i + 1 < dims.size(); ++i) n *= dims[i];
    return n;
  }
  int64_t total() const { return rows() * row(); }

  // Adds an inner dimension.
  void push(int64_t dim, const std::array<int64_t, N>& stride) {
    if (dim == 1 && !dims.empty()) return;
    if (!dims.empty()) {
      bool joins = true;
      for (size_t k = 0; k < N; ++k) joins &= strides.back()[k] == stride[k] * dim;
      if (joins || dims.back() == 1) {
        dims.back() *= dim;
        strides.back() = stride;
        return;
      }
    }
    dims.push_back(dim);
    strides.push_back(stride);
  }

  // Operand offsets of one element of the result.
  std::array<int64_t, N> at(int64_t position) const {
    std::array<int64_t, N> offset = base;
    for (size_t d = dims.size(); d-- > 0;) {
      for (size_t k = 0; k < N; ++k) offset[k] += position % dims[d] * strides[d][k];
      position /= dims[d];
    }
    return offset;
  }

  // f(result offset, operand offsets) for rows [begin, end).
  template <class F>
  void each_row(int64_t begin, int64_t end, F&& f) const {
    const size_t outer = std::min(dims.size() - 1, kMostDims);
    std::array<int64_t, N> at = base;
    std::array<int64_t, kMostDims> index{};
    int64_t rest = begin;
    for (size_t d = outer; d-- > 0;) {
      index[d] = rest % dims[d];
      rest /= dims[d];
      for (size_t k = 0; k < N; ++k) at[k] += index[d] * strides[d][k];
    }
    for (int64_t r = begin; r < end; ++r) {
      f(r * row(), at);
      for (size_t d = outer; d-- > 0;) {
        for (size_t k = 0; k < N; ++k) at[k] += strides[d][k];
        if (++index[d] < dims[d]) break;
        index[d] = 0;
        for (size_t k = 0; k < N; ++k) at[k] -= dims[d] * strides[d][k];
      }
    }
  }

  // The whole walk in parallel. row(result offset, operand offsets, n), then done(result begin, n) over what was
  // computed.
  template <class Row, class Done>
  void run(Parallel& parallel, Row&& row_of, Done&& done) const {
    const int64_t n = row(), count = rows();
    if (count == 1) {
      chunks(parallel, n, kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i += kBlock) {
          std::array<int64_t, N> at = base;
          for (size_t k = 0; k < N; ++k) at[k] += i * strides.back()[k];
          const int64_t m = std::min(kBlock, end - i);
          row_of(i, at, m);
          done(i, m);
        }
      });
      return;
    }
    const int64_t per_block = std::max<int64_t>(1, kBlock / n);
    chunks(parallel, count, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r += per_block) {
        const int64_t stop = std::min(end, r + per_block);
        each_row(r, stop, [&](int64_t to, const std::array<int64_t, N>& at) { row_of(to, at, n); });
        done(r * n, (stop - r) * n);
      }
    });
  }
};

// Row-major strides.
inline std::vector<int64_t> dense_strides(const Shape& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}

// NumPy's rule; false when the shapes do not go together.
inline bool broadcast_shape(const Shape& a, const Shape& b, Shape* out) {
  const size_t rank = std::max(a.size(), b.size());
  out->assign(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i < rank - a.size() ? 1 : a[i - (rank - a.size())];
    const int64_t y = i < rank - b.size() ? 1 : b[i - (rank - b.size())];
    if (x != y && x != 1 && y != 1) return false;
    (*out)[i] = x == 1 ? y : x;
  }
  return true;
}

template <size_t N>
Strided<N> broadcast(const Shape& result, const std::array<Shape, N>& operands) {
  Strided<N> s;
  std::array<std::vector<int64_t>, N> dense;
  for (size_t k = 0; k < N; ++k) dense[k] = dense_strides(operands[k]);
  for (size_t d = 0; d < result.size(); ++d) {
    std::array<int64_t, N> stride{};
    for (size_t k = 0; k < N; ++k) {
      const size_t missing = result.size() - operands[k].size();
      if (d >= missing && operands[k][d - missing] != 1) stride[k] = dense[k][d - missing];
    }
    s.push(result[d], stride);
  }
  if (s.dims.empty()) s.push(1, {});
  return s;
}

}  // namespace aneforge::host
