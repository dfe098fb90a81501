#include "host/vector/rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "host/vector/layout.h"

namespace aneforge::vec {
namespace {

constexpr int64_t kGrain = 16384;  // floats of simple work that are worth a task
constexpr int64_t kBlock = 2048;   // floats that a chain takes through all its operations at once: they stay in cache

// body(begin, end) over [0, total), cut into tasks of at least `grain` and at multiples of `unit`.
template <class F>
void ranges(Parallel& parallel, int64_t total, int64_t grain, int64_t unit, F&& body) {
  const int64_t width = static_cast<int64_t>(parallel.width());
  const int64_t units = (total + unit - 1) / unit;
  const int64_t tasks =
      width > 1 ? std::clamp<int64_t>(total / std::max<int64_t>(grain, 1), 1, std::min(units, 4 * width)) : 1;
  parallel.each(static_cast<size_t>(tasks), [&](size_t task) {
    const int64_t t = static_cast<int64_t>(task);
    const int64_t begin = units * t / tasks * unit, end = std::min(total, units * (t + 1) / tasks * unit);
    if (begin < end) body(begin, end);
  });
}

}  // namespace

void map_rows(const Epilogue& chain, const float* from, float* to, int64_t rows, int64_t columns,
              const float* const* operands, Parallel& parallel) {
  if (rows == 1) {
    ranges(parallel, columns, kGrain, kBlock, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kBlock)
        chain.rest_across(operands, 0, 0, static_cast<int>(i / kLanes), from + i, to + i,
                          static_cast<size_t>(std::min(kBlock, end - i)));
    });
    return;
  }
  ranges(parallel, rows, std::max<int64_t>(1, kGrain / columns), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t i = 0; i < columns; i += kBlock)
        chain.rest_across(operands, 0, static_cast<int>(r), static_cast<int>(i / kLanes), from + r * columns + i,
                          to + r * columns + i, static_cast<size_t>(std::min(kBlock, columns - i)));
  });
}

namespace {

// Sixteen short rows side by side.
void softmax_short_rows(const Kernels& k, const float* from, float* to, int64_t rows, int64_t columns,
                        Rounding rounding) {
  float turned[kLanes * kLanes] = {};
  transpose(from, columns, turned, kLanes, static_cast<size_t>(rows), static_cast<size_t>(columns));
  k.softmax_columns(turned, kLanes, turned, kLanes, static_cast<size_t>(columns), rounding);
  transpose(turned, kLanes, to, columns, static_cast<size_t>(columns), static_cast<size_t>(rows));
}

}  // namespace

void softmax_rows(const float* from, float* to, int64_t rows, int64_t columns, Rounding rounding, Parallel& parallel) {
  const Kernels& k = kernels();
  if (columns <= kLanes) {
    ranges(parallel, rows, std::max<int64_t>(1, kGrain / (2 * columns)), kLanes, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r += kLanes)
        softmax_short_rows(k, from + r * columns, to + r * columns, std::min<int64_t>(kLanes, end - r), columns,
                           rounding);
    });
    return;
  }
  ranges(parallel, rows, std::max<int64_t>(1, kGrain / (2 * columns)), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      k.softmax(from + r * columns, to + r * columns, static_cast<size_t>(columns), rounding);
  });
}

void softmax_axis(const float* from, float* to, int64_t outer, int64_t length, int64_t inner, Rounding rounding,
                  Parallel& parallel) {
  const Kernels& k = kernels();
  const int64_t parts = (inner + kLanes - 1) / kLanes;
  ranges(parallel, outer * parts, std::max<int64_t>(1, kGrain / (2 * kLanes * length)), 1,
         [&](int64_t begin, int64_t end) {
           for (int64_t t = begin; t < end; ++t) {
             const int64_t first = t % parts * kLanes, n = std::min<int64_t>(kLanes, inner - first);
             const float* x = from + t / parts * length * inner + first;
             float* y = to + t / parts * length * inner + first;
             if (n == kLanes) {
               k.softmax_columns(x, inner, y, inner, static_cast<size_t>(length), rounding);
               continue;
             }
             // The last columns, through whole vectors.
             std::vector<float> staged(static_cast<size_t>(length) * kLanes, 0.0f);
             for (int64_t i = 0; i < length; ++i)
               std::memcpy(&staged[i * kLanes], x + i * inner, static_cast<size_t>(n) * sizeof(float));
             k.softmax_columns(staged.data(), kLanes, staged.data(), kLanes, static_cast<size_t>(length), rounding);
             for (int64_t i = 0; i < length; ++i)
               std::memcpy(y + i * inner, &staged[i * kLanes], static_cast<size_t>(n) * sizeof(float));
           }
         });
}

void layer_norm_rows(const float* from, const float* gamma, const float* beta, float* to, int64_t rows, int64_t columns,
                     float epsilon, Rounding rounding, Parallel& parallel) {
  const Kernels& k = kernels();
  ranges(parallel, rows, std::max<int64_t>(1, kGrain / (2 * columns)), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      k.layer_norm(from + r * columns, gamma, beta, to + r * columns, static_cast<size_t>(columns), epsilon, rounding);
  });
}

void transpose_matrices(const float* from, float* to, int64_t outer, int64_t rows, int64_t columns,
                        Parallel& parallel) {
  // Tasks take bands of columns, so that what they write lies together.
  const int64_t bands = (columns + kLanes - 1) / kLanes;
  ranges(parallel, outer * bands, std::max<int64_t>(1, kGrain / (kLanes * rows)), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t o = t / bands, first = t % bands * kLanes, n = std::min<int64_t>(kLanes, columns - first);
      transpose(from + o * rows * columns + first, columns, to + (o * columns + first) * rows, rows,
                static_cast<size_t>(rows), static_cast<size_t>(n));
    }
  });
}

bool reduces(const ReduceShape& s) { return s.inner == 1 || s.inner >= kLanes; }

namespace {

// Sixteen rows side by side: their elements meet the sums in index order, as one row's would.
void narrow_rows(const Kernels& k, Reduce op, const float* from, int64_t rows, int64_t length, float* to) {
  float square[kLanes * kLanes], turned[kLanes * kLanes], sums[kLanes] = {};
  for (int64_t c = 0; c < length; c += kLanes) {
    const int64_t n = std::min<int64_t>(kLanes, length - c);
    if (rows == kLanes && n == kLanes) {
      k.transpose16(from + c, length, turned, kLanes);
    } else {
      std::memset(square, 0, sizeof square);
      for (int64_t r = 0; r < rows; ++r)
        std::memcpy(square + r * kLanes, from + r * length + c, static_cast<size_t>(n) * sizeof(float));
      k.transpose16(square, kLanes, turned, kLanes);
    }
    k.narrow_sum_columns(op, turned, static_cast<size_t>(n), kLanes, sums, 1);
  }
  std::memcpy(to, sums, static_cast<size_t>(rows) * sizeof(float));
}

}  // namespace

void reduce_axis(Reduce op, const ReduceShape& s, const float* from, float* to, Rounding rounding, Parallel& parallel) {
  const Kernels& k = kernels();
  const Reduce sum = op == Reduce::kMean ? Reduce::kSum : op;
  const auto finish = [&](float* p, int64_t n) {
    if (op == Reduce::kMean)
      for (int64_t i = 0; i < n; ++i) p[i] /= static_cast<float>(s.length);
    k.round(p, p, static_cast<size_t>(n), rounding);
  };
  if (s.inner == 1) {
    ranges(parallel, s.outer, std::max<int64_t>(1, kGrain / s.length), kLanes, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r += kLanes) {
        const int64_t rows = std::min<int64_t>(kLanes, end - r);
        if (s.narrow) {
          narrow_rows(k, sum, from + r * s.length, rows, s.length, to + r);
        } else {
          for (int64_t i = r; i < r + rows; ++i)
            to[i] = k.reduce(sum, from + i * s.length, static_cast<size_t>(s.length));
        }
      }
      finish(to + begin, end - begin);
    });
    return;
  }
  // Columns, some vectors at a time.
  constexpr int64_t kColumns = 16 * kLanes;
  const int64_t parts = (s.inner + kColumns - 1) / kColumns;
  ranges(parallel, s.outer * parts, std::max<int64_t>(1, kGrain / (s.length * std::min(s.inner, kColumns))), 1,
         [&](int64_t begin, int64_t end) {
           for (int64_t t = begin; t < end; ++t) {
             const int64_t o = t / parts, first = t % parts * kColumns, n = std::min(kColumns, s.inner - first);
             const float* x = from + o * s.length * s.inner + first;
             float sums[kColumns + kLanes] = {};
             const auto columns = [&](int64_t at, int64_t vectors) {
               if (s.narrow)
                 k.narrow_sum_columns(sum, x + at, static_cast<size_t>(s.length), s.inner, sums + at,
                                      static_cast<size_t>(vectors));
               else
                 k.reduce_columns(sum, x + at, static_cast<size_t>(s.length), s.inner, sums + at,
                                  static_cast<size_t>(vectors));
             };
             const int64_t whole = n / kLanes;
             columns(0, whole);
             if (n % kLanes) {
               // The last columns once more in a vector that ends with the row: it may begin in front of this part.
               float last[kLanes] = {};
               const int64_t at = n - kLanes;
               if (s.narrow)
                 k.narrow_sum_columns(sum, x + at, static_cast<size_t>(s.length), s.inner, last, 1);
               else
                 k.reduce_columns(sum, x + at, static_cast<size_t>(s.length), s.inner, last, 1);
               std::memcpy(sums + whole * kLanes, last + kLanes - n % kLanes,
                           static_cast<size_t>(n % kLanes) * sizeof(float));
             }
             finish(sums, n);
             std::memcpy(to + o * s.inner + first, sums, static_cast<size_t>(n) * sizeof(float));
           }
         });
}

}  // namespace aneforge::vec
