// Reductions along rows and down columns, softmax, dot products, products with few rows.
//
// A row sum keeps 4 × 16 partial sums (vector i goes to chain i mod 4) and adds them in a fixed tree, so its order
// depends on nothing but the length. What is past the end counts as the neutral element.
#pragma once
#include "host/vector/math.inl"
#include "host/vector/tile.inl"

namespace aneforge::vec::ANEFORGE_V16_NS {

V16_INLINE V load_tail(const float* x, size_t n, float fill) {
  float t[kLanes];
  for (size_t i = 0; i < kLanes; ++i) t[i] = i < n ? x[i] : fill;
  return load(t);
}

template <class F>
V16_INLINE float sum_row(const float* x, size_t n, F f) {
  V s[4] = {splat(0.0f), splat(0.0f), splat(0.0f), splat(0.0f)};
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    V16_UNROLL(4)
    for (int j = 0; j < 4; ++j) s[j] = add(s[j], f(load(x + i + j * kLanes)));
  }
  for (int j = 0; i < n; i += kLanes, ++j)
    s[j] = add(s[j], f(i + kLanes <= n ? load(x + i) : load_tail(x + i, n - i, 0.0f)));
  return sum_lanes(add(add(s[0], s[2]), add(s[1], s[3])));
}

template <class F>
V16_INLINE V extreme_row(const float* x, size_t n, float start, F f) {
  V m = splat(start);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) m = f(m, load(x + i));
  if (i < n) m = f(m, load_tail(x + i, n - i, start));
  return m;
}

inline float reduce_row(Reduce op, const float* x, size_t n) {
  switch (op) {
    case Reduce::kSum:
      return sum_row(x, n, [](V v) V16_LAMBDA { return v; });
    case Reduce::kMean:
      return sum_row(x, n, [](V v) V16_LAMBDA { return v; }) / static_cast<float>(n);
    case Reduce::kSumOfSquares:
      return sum_row(x, n, [](V v) V16_LAMBDA { return mul(v, v); });
    case Reduce::kSumOfMagnitudes:
      return sum_row(x, n, [](V v) V16_LAMBDA { return absolute(v); });
    case Reduce::kMax:
      return max_lanes(extreme_row(x, n, -INFINITY, [](V m, V v) V16_LAMBDA { return max_keeping_nan(m, v); }));
    case Reduce::kMin:
      return min_lanes(extreme_row(x, n, INFINITY, [](V m, V v) V16_LAMBDA { return min_keeping_nan(m, v); }));
  }
  return 0;
}

inline float dot_row(const float* x, const float* y, size_t n) {
  V s[4] = {splat(0.0f), splat(0.0f), splat(0.0f), splat(0.0f)};
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    V16_UNROLL(4)
    for (int j = 0; j < 4; ++j) s[j] = fma(load(x + i + j * kLanes), load(y + i + j * kLanes), s[j]);
  }
  for (int j = 0; i < n; i += kLanes, ++j) {
    const bool whole = i + kLanes <= n;
    s[j] = fma(whole ? load(x + i) : load_tail(x + i, n - i, 0.0f), whole ? load(y + i) : load_tail(y + i, n - i, 0.0f),
               s[j]);
  }
  return sum_lanes(add(add(s[0], s[2]), add(s[1], s[3])));
}

inline void softmax_row(const float* from, float* to, size_t n, Rounding rounding) {
  const V largest = splat(reduce_row(Reduce::kMax, from, n));
  V s[4] = {splat(0.0f), splat(0.0f), splat(0.0f), splat(0.0f)};
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    V16_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const V e = exp(sub(load(from + i + j * kLanes), largest));
      store(to + i + j * kLanes, e);
      s[j] = add(s[j], e);
    }
  }
  float tail[kLanes];
  for (int j = 0; i < n; i += kLanes, ++j) {
    if (i + kLanes <= n) {
      const V e = exp(sub(load(from + i), largest));
      store(to + i, e);
      s[j] = add(s[j], e);
    } else {
      store(tail, exp(sub(load_tail(from + i, n - i, 0.0f), largest)));
      for (size_t l = n - i; l < kLanes; ++l) tail[l] = 0.0f;
      std::memcpy(to + i, tail, (n - i) * sizeof(float));
      s[j] = add(s[j], load(tail));
    }
  }
  const V total = splat(sum_lanes(add(add(s[0], s[2]), add(s[1], s[3]))));
  for (i = 0; i + kLanes <= n; i += kLanes) store(to + i, settle(div(load(to + i), total), rounding));
  if (i < n) {
    store(tail, settle(div(load_tail(to + i, n - i, 0.0f), total), rounding));
    std::memcpy(to + i, tail, (n - i) * sizeof(float));
  }
}

inline void softmax_columns(const float* from, ptrdiff_t step, float* to, ptrdiff_t to_step, size_t n,
                            Rounding rounding) {
  V largest = load(from), total = splat(0.0f);
  for (size_t i = 1; i < n; ++i) largest = max_keeping_nan(largest, load(from + static_cast<ptrdiff_t>(i) * step));
  for (size_t i = 0; i < n; ++i) {
    const V e = exp(sub(load(from + static_cast<ptrdiff_t>(i) * step), largest));
    store(to + static_cast<ptrdiff_t>(i) * to_step, e);
    total = add(total, e);
  }
  for (size_t i = 0; i < n; ++i) {
    float* p = to + static_cast<ptrdiff_t>(i) * to_step;
    store(p, settle(div(load(p), total), rounding));
  }
}

inline void layer_norm_row(const float* x, const float* gamma, const float* beta, float* to, size_t n, float epsilon,
                           Rounding rounding) {
  const float count = static_cast<float>(n);
  const V mean = splat(reduce_row(Reduce::kMean, x, n));
  // What is past the end is the mean, which adds nothing.
  V s[4] = {splat(0.0f), splat(0.0f), splat(0.0f), splat(0.0f)};
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    V16_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      const V d = sub(load(x + i + j * kLanes), mean);
      s[j] = add(s[j], mul(d, d));
    }
  }
  float first[kLanes];
  store(first, mean);
  for (int j = 0; i < n; i += kLanes, ++j) {
    const V d = sub(i + kLanes <= n ? load(x + i) : load_tail(x + i, n - i, first[0]), mean);
    s[j] = add(s[j], mul(d, d));
  }
  const V inverse = splat(1.0f / std::sqrt(sum_lanes(add(add(s[0], s[2]), add(s[1], s[3]))) / count + epsilon));
  const auto scaled = [&](V v, V g, V b)
                          V16_LAMBDA { return settle(add(mul(mul(sub(v, mean), inverse), g), b), rounding); };
  for (i = 0; i + kLanes <= n; i += kLanes)
    store(to + i, scaled(load(x + i), gamma ? load(gamma + i) : splat(1.0f), beta ? load(beta + i) : splat(0.0f)));
  if (i < n) {
    float tail[kLanes];
    store(tail, scaled(load_tail(x + i, n - i, 0.0f), gamma ? load_tail(gamma + i, n - i, 0.0f) : splat(1.0f),
                       beta ? load_tail(beta + i, n - i, 0.0f) : splat(0.0f)));
    std::memcpy(to + i, tail, (n - i) * sizeof(float));
  }
}

template <class F>
V16_INLINE void down_columns(const float* x, size_t count, ptrdiff_t step, float* out, size_t vectors, float start,
                             F f) {
  size_t v = 0;
  for (; v + 4 <= vectors; v += 4) {  // four columns of vectors at a time, to hide the latency of the chain
    V acc[4] = {splat(start), splat(start), splat(start), splat(start)};
    const float* p = x + v * kLanes;
    for (size_t i = 0; i < count; ++i, p += step) {
      V16_UNROLL(4)
      for (int j = 0; j < 4; ++j) acc[j] = f(acc[j], load(p + j * kLanes));
    }
    V16_UNROLL(4)
    for (int j = 0; j < 4; ++j) store(out + (v + j) * kLanes, acc[j]);
  }
  for (; v < vectors; ++v) {
    V acc = splat(start);
    const float* p = x + v * kLanes;
    for (size_t i = 0; i < count; ++i, p += step) acc = f(acc, load(p));
    store(out + v * kLanes, acc);
  }
}

inline void reduce_columns(Reduce op, const float* x, size_t count, ptrdiff_t step, float* out, size_t vectors) {
  switch (op) {
    case Reduce::kSum:
      return down_columns(x, count, step, out, vectors, 0.0f, [](V a, V v) V16_LAMBDA { return add(a, v); });
    case Reduce::kMean:
      down_columns(x, count, step, out, vectors, 0.0f, [](V a, V v) V16_LAMBDA { return add(a, v); });
      for (size_t v = 0; v < vectors; ++v)
        store(out + v * kLanes, div(load(out + v * kLanes), splat(static_cast<float>(count))));
      return;
    case Reduce::kSumOfSquares:
      return down_columns(x, count, step, out, vectors, 0.0f, [](V a, V v) V16_LAMBDA { return add(a, mul(v, v)); });
    case Reduce::kSumOfMagnitudes:
      return down_columns(x, count, step, out, vectors, 0.0f, [](V a, V v) V16_LAMBDA { return add(a, absolute(v)); });
    case Reduce::kMax:
      return down_columns(x, count, step, out, vectors, -INFINITY,
                          [](V a, V v) V16_LAMBDA { return max_keeping_nan(a, v); });
    case Reduce::kMin:
      return down_columns(x, count, step, out, vectors, INFINITY,
                          [](V a, V v) V16_LAMBDA { return min_keeping_nan(a, v); });
  }
}

template <class F>
V16_INLINE void down_columns_from(const float* x, size_t count, ptrdiff_t step, float* sums, size_t vectors, F f) {
  for (size_t v = 0; v < vectors; ++v) {
    V acc = load(sums + v * kLanes);
    const float* p = x + v * kLanes;
    for (size_t i = 0; i < count; ++i, p += step) acc = to_half_and_back(add(acc, f(load(p))));
    store(sums + v * kLanes, acc);
  }
}

inline void narrow_sum_columns(Reduce op, const float* x, size_t count, ptrdiff_t step, float* sums, size_t vectors) {
  if (op == Reduce::kSumOfSquares)
    down_columns_from(x, count, step, sums, vectors, [](V v) V16_LAMBDA { return to_half_and_back(mul(v, v)); });
  else if (op == Reduce::kSumOfMagnitudes)
    down_columns_from(x, count, step, sums, vectors, [](V v) V16_LAMBDA { return absolute(v); });
  else
    down_columns_from(x, count, step, sums, vectors, [](V v) V16_LAMBDA { return v; });
}

V16_INLINE V load_weight(const float* p) { return load(p); }
V16_INLINE V load_weight(const uint16_t* p) { return load_half(p); }

// Chain k mod 4 of each sum; four chains hide the latency of the multiply-add when there are few rows.
template <int Rows, int Blocks, class Weight>
V16_INLINE void gemv_block(const float* x, ptrdiff_t x_row, const Weight* w, size_t k, float* y, ptrdiff_t y_row) {
  V acc[4][Rows][Blocks];
  V16_UNROLL(4)
  for (int c = 0; c < 4; ++c) {
    V16_UNROLL(4)
    for (int r = 0; r < Rows; ++r) {
      V16_UNROLL(2)
      for (int b = 0; b < Blocks; ++b) acc[c][r][b] = splat(0.0f);
    }
  }
  const auto step = [&](int c, size_t i) V16_LAMBDA {
    V16_UNROLL(2)
    for (int b = 0; b < Blocks; ++b) {
      const V weight = load_weight(w + i * 32 + b * kLanes);
      V16_UNROLL(4)
      for (int r = 0; r < Rows; ++r)
        acc[c][r][b] = fma(splat(x[r * x_row + static_cast<ptrdiff_t>(i)]), weight, acc[c][r][b]);
    }
  };
  size_t i = 0;
  for (; i + 4 <= k; i += 4) {
    step(0, i);
    step(1, i + 1);
    step(2, i + 2);
    step(3, i + 3);
  }
  if (i < k) step(0, i);
  if (i + 1 < k) step(1, i + 1);
  if (i + 2 < k) step(2, i + 2);
  V16_UNROLL(4)
  for (int r = 0; r < Rows; ++r) {
    V16_UNROLL(2)
    for (int b = 0; b < Blocks; ++b)
      store(y + r * y_row + b * kLanes, add(add(acc[0][r][b], acc[2][r][b]), add(acc[1][r][b], acc[3][r][b])));
  }
}

template <class Weight>
V16_INLINE void gemv_any(const float* x, ptrdiff_t x_row, int rows, const Weight* w, size_t k, size_t blocks, float* y,
                         ptrdiff_t y_row) {
#if defined(ANEFORGE_V16_AVX512)
  for (size_t b = 0; b < blocks; ++b, w += k * 32, y += 32) {
    if (rows == 3)
      gemv_block<3, 2>(x, x_row, w, k, y, y_row);
    else if (rows == 2)
      gemv_block<2, 2>(x, x_row, w, k, y, y_row);
    else
      gemv_block<1, 2>(x, x_row, w, k, y, y_row);
  }
#else
  for (size_t b = 0; b < 2 * blocks; ++b) {
    for (int r = 0; r < rows; ++r)
      gemv_block<1, 1>(x + r * x_row, x_row, w + (b / 2) * k * 32 + (b % 2) * kLanes, k, y + r * y_row + b * kLanes,
                       y_row);
  }
#endif
}

inline void gemv(const float* x, ptrdiff_t x_row, int rows, const float* w, size_t k, size_t blocks, float* y,
                 ptrdiff_t y_row) {
  gemv_any(x, x_row, rows, w, k, blocks, y, y_row);
}
inline void gemv_half(const float* x, ptrdiff_t x_row, int rows, const uint16_t* w, size_t k, size_t blocks, float* y,
                      ptrdiff_t y_row) {
  gemv_any(x, x_row, rows, w, k, blocks, y, y_row);
}

}  // namespace aneforge::vec::ANEFORGE_V16_NS
