#include "host/move.h"

#include <cmath>

namespace aneforge::host {
namespace {

template <class T>
void copy_row(const T* from, int64_t stride, T* to, int64_t n) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  } else if (stride == 0) {
    std::fill_n(to, n, *from);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  }
}

void bound_width(float* p, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (std::fabs(p[i]) > kWidthSliceBound) p[i] = std::copysign(HUGE_VALF, p[i]);
}

// A walk whose rows jump in x while another dimension runs along x: both in tiles, so that neither side misses the
// cache at every step.
struct Turn {
  Strided<1> others;              // the remaining dimensions, in x
  Strided<1> others_to;           // the same, in the result
  int64_t rows = 0, columns = 0;  // rows: consecutive in x; columns: consecutive in the result
  int64_t row_to = 0, column_from = 0;
};

bool find_turn(const Strided<1>& walk, Turn* turn) {
  const size_t last = walk.dims.size() - 1;
  if (walk.strides[last][0] == 1 || walk.dims[last] < 4) return false;
  size_t along = last;
  for (size_t d = 0; d < last; ++d)
    if (walk.strides[d][0] == 1 && walk.dims[d] >= 4) along = d;
  if (along == last) return false;
  const std::vector<int64_t> dense = dense_strides(walk.dims);
  turn->rows = walk.dims[along];
  turn->row_to = dense[along];
  turn->columns = walk.dims[last];
  turn->column_from = walk.strides[last][0];
  for (size_t d = 0; d < last; ++d) {
    if (d == along) continue;
    turn->others.dims.push_back(walk.dims[d]);
    turn->others.strides.push_back(walk.strides[d]);
    turn->others_to.dims.push_back(walk.dims[d]);
    turn->others_to.strides.push_back({dense[d]});
  }
  turn->others.dims.push_back(1);
  turn->others.strides.push_back({0});
  turn->others_to.dims.push_back(1);
  turn->others_to.strides.push_back({0});
  turn->others.base = walk.base;
  return true;
}

template <class T>
std::unique_ptr<Kernel> turned_copy(int32_t x, int32_t out, const Turn& turn) {
  return kernel([=](const Frame& frame) {
    constexpr int64_t kTile = 16;
    const T* px = frame.in<T>(x);
    T* to = frame.out<T>(out);
    const int64_t tiles = (turn.rows + kTile - 1) / kTile;
    chunks(*frame.parallel, turn.others.rows() * tiles, std::max<int64_t>(1, kGrain / (kTile * turn.columns)),
           [&](int64_t begin, int64_t end) {
             for (int64_t t = begin; t < end; ++t) {
               const int64_t outer = t / tiles, r0 = t % tiles * kTile, r1 = std::min(turn.rows, r0 + kTile);
               const int64_t from = turn.others.at(outer)[0], dest = turn.others_to.at(outer)[0];
               for (int64_t c0 = 0; c0 < turn.columns; c0 += kTile) {
                 const int64_t c1 = std::min(turn.columns, c0 + kTile);
                 for (int64_t r = r0; r < r1; ++r)
                   for (int64_t c = c0; c < c1; ++c)
                     to[dest + r * turn.row_to + c] = px[from + r + c * turn.column_from];
               }
             }
           });
  });
}

}  // namespace

void expect_same_type(Build& b, const char* name, const Shape& shape, size_t i) {
  const Value& x = b.value(name);
  b.expect(shape, x.storage, i);
  b.require(x.declared == b.at(b.result(i)).declared, "the result must have the type of the operand");
}

std::unique_ptr<Kernel> strided_copy(Build& b, int32_t x, const Strided<1>& walk, bool width_bound) {
  const int32_t out = b.result();
  if (walk.dims.size() == 1 && walk.strides[0][0] == 1 && walk.base[0] == 0 && walk.row() == b.at(x).count)
    return b.view(x);
  return with_element(b.at(x).storage, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    Turn turn;
    if (!width_bound && find_turn(walk, &turn)) return turned_copy<T>(x, out, turn);
    return kernel([=](const Frame& frame) {
      const T* px = frame.in<T>(x);
      T* to = frame.out<T>(out);
      const int64_t stride = walk.strides.back()[0];
      walk.run(
          *frame.parallel,
          [&](int64_t at, const std::array<int64_t, 1>& from, int64_t n) {
            copy_row(px + from[0], stride, to + at, n);
          },
          [&](int64_t at, int64_t n) {
            if (width_bound) bound_width(frame.out(out) + at, n);
          });
    });
  });
}

std::unique_ptr<Kernel> mapped_copy(Build& b, int32_t x, const Shape& from, std::vector<AxisMap> maps,
                                    uint32_t fill_bits) {
  const int32_t out = b.result();
  // Trailing axes that stay as they are join into one.
  Shape dims = from;
  while (maps.size() > 1 && maps.back().empty() && maps[maps.size() - 2].empty()) {
    const int64_t n = dims.back();
    dims.pop_back();
    maps.pop_back();
    dims.back() *= n;
  }
  if (maps.empty() || (maps.size() == 1 && maps[0].empty())) return b.view(x);
  const std::vector<int64_t> strides = dense_strides(dims);
  // The row: runs of consecutive positions, or of one position (or the fill) again and again.
  struct Run {
    int64_t to, n, from, step;
  };
  std::vector<Run> runs;
  const AxisMap last = maps.back();
  if (last.empty()) runs.push_back({0, dims.back(), 0, 1});
  for (size_t i = 0; i < last.size(); ++i) {
    if (!runs.empty()) {
      Run& r = runs.back();
      const int64_t step = last[i] - last[i - 1];
      if ((r.n == 1 || r.step == step) &&
          (step == 0 || (last[i] >= 0 && last[i - 1] >= 0 && (step == 1 || step == -1)))) {
        r.step = step;
        ++r.n;
        continue;
      }
    }
    runs.push_back({static_cast<int64_t>(i), 1, last[i], 0});
  }
  struct Outer {
    AxisMap map;
    int64_t size, stride;
  };
  std::vector<Outer> outer;
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < maps.size(); ++d) {
    const int64_t size = maps[d].empty() ? dims[d] : static_cast<int64_t>(maps[d].size());
    rows *= size;
    outer.push_back({std::move(maps[d]), size, strides[d]});
  }
  const int64_t n = last.empty() ? dims.back() : static_cast<int64_t>(last.size());
  return with_element(b.at(x).storage, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    const T fill = static_cast<T>(fill_bits);
    return kernel([=](const Frame& frame) {
      const T* px = frame.in<T>(x);
      T* to = frame.out<T>(out);
      chunks(*frame.parallel, rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          T* result = to + row * n;
          int64_t rest = row, at = 0;
          bool outside = false;
          for (size_t d = outer.size(); d-- > 0;) {
            const Outer& axis = outer[d];
            const int64_t position = rest % axis.size;
            const int64_t i = axis.map.empty() ? position : axis.map[static_cast<size_t>(position)];
            rest /= axis.size;
            outside |= i < 0;
            at += i * axis.stride;
          }
          if (outside) {
            std::fill_n(result, n, fill);
            continue;
          }
          for (const Run& r : runs) {
            if (r.from < 0) {
              std::fill_n(result + r.to, r.n, fill);
            } else if (r.n == 1) {
              result[r.to] = px[at + r.from];
            } else {
              copy_row(px + at + r.from, r.step, result + r.to, r.n);
            }
          }
        }
      });
    });
  });
}

}  // namespace aneforge::host
