// Reductions, argmax and argmin, cumulative sums.
#include <algorithm>
#include <cmath>

#include "core/fp16.h"
#include "host/iterate.h"
#include "host/kernels.h"
#include "host/math.h"

namespace aneforge::host {
namespace {

// x with its kept and its reduced dimensions apart: two walks over one tensor. Element (k, r) lies at kept offset +
// reduced offset; both walks go in row-major order.
struct Split {
  Strided<1> kept, reduced;
};

Split split_axes(const Shape& shape, const std::vector<int64_t>& axes) {
  Split s;
  const std::vector<int64_t> strides = dense_strides(shape);
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool is_reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    (is_reduced ? s.reduced : s.kept).push(shape[d], {strides[d]});
  }
  if (s.kept.dims.empty()) s.kept.push(1, {0});
  if (s.reduced.dims.empty()) s.reduced.push(1, {0});
  return s;
}

Shape reduced_shape(const Shape& shape, const std::vector<int64_t>& axes, bool keep) {
  Shape out;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) == axes.end())
      out.push_back(shape[d]);
    else if (keep)
      out.push_back(1);
  }
  return out;
}

// Every result in turn, its elements in row-major order, one by one.
template <class Step, class End>
std::unique_ptr<Kernel> fold(Build& b, bool exact, float start, Step step, End end_of) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Shape& in = b.shape("x");
  const std::vector<int64_t> axes = b.axes("axes", in.size());
  b.expect(reduced_shape(in, axes, b.flag("keep_dims", false)));
  const Split s = split_axes(in, axes);
  const int64_t length = s.reduced.total(), row = s.kept.row();
  const Finish finish = b.finish(exact);
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    float* to = frame.out(out);
    // A row of results at a time when they lie side by side in x, in blocks that stay in cache; else one by one.
    const int64_t stride = s.kept.strides.back()[0], block = stride == 1 ? std::min<int64_t>(row, 512) : 1;
    const int64_t blocks = (row + block - 1) / block;
    chunks(*frame.parallel, s.kept.rows() * blocks, std::max<int64_t>(1, kGrain / (block * length)),
           [&](int64_t begin, int64_t end) {
             for (int64_t t = begin; t < end; ++t) {
               const int64_t first = t % blocks * block, n = std::min(block, row - first),
                             at = t / blocks * row + first;
               float* result = to + at;
               const float* base = px + s.kept.at(at)[0];
               const int64_t inner = s.reduced.strides.back()[0];
               if (n == 1) {
                 float value = start;
                 s.reduced.each_row(0, s.reduced.rows(), [&](int64_t, const std::array<int64_t, 1>& offset) {
                   const float* p = base + offset[0];
                   for (int64_t r = 0; r < s.reduced.row(); ++r) value = step(value, p[r * inner]);
                 });
                 *result = value;
               } else {
                 std::fill_n(result, n, start);
                 s.reduced.each_row(0, s.reduced.rows(), [&](int64_t, const std::array<int64_t, 1>& offset) {
                   for (int64_t r = 0; r < s.reduced.row(); ++r) {
                     const float* p = base + offset[0] + r * inner;
                     for (int64_t i = 0; i < n; ++i) result[i] = step(result[i], p[i]);
                   }
                 });
               }
               for (int64_t i = 0; i < n; ++i) result[i] = end_of(result[i]);
               finish(result, n);
             }
           });
  });
}

// Sums of term(v): lane by lane along a contiguous innermost run, otherwise one by one.
template <class Term, class End>
std::unique_ptr<Kernel> sum_of(Build& b, Term term, End end_of) {
  const Shape& in = b.shape("x");
  const std::vector<int64_t> axes = b.axes("axes", in.size());
  const Split s = split_axes(in, axes);
  if (s.reduced.strides.back()[0] != 1 || s.reduced.row() < 2)
    return fold(b, false, 0.0f, [=](float a, float v) { return a + term(v); }, end_of);
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  b.expect(reduced_shape(in, axes, b.flag("keep_dims", false)));
  const Finish finish = b.finish();
  const int64_t length = s.reduced.total();
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    float* to = frame.out(out);
    chunks(*frame.parallel, s.kept.total(), std::max<int64_t>(1, kGrain / length), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t start = s.kept.at(t)[0];
        float sum = 0;
        s.reduced.each_row(0, s.reduced.rows(), [&](int64_t, const std::array<int64_t, 1>& offset) {
          const float* p = px + start + offset[0];
          sum += math::lane_sum(s.reduced.row(), [&](int64_t i) { return term(p[i]); });
        });
        to[t] = end_of(sum);
      }
      finish(to + begin, end - begin);
    });
  });
}

int64_t reduced_count(Build& b) {
  int64_t n = 1;
  for (int64_t a : b.axes("axes", b.shape("x").size())) n *= b.shape("x")[static_cast<size_t>(a)];
  return n;
}

// Q06: the engine rounds every partial sum (and a square before it is added).
template <class Term, class End>
std::unique_ptr<Kernel> narrow_or_wide(Build& b, Term term, End end_of) {
  if (b.has(Quirk::kQ06))
    return fold(b, false, 0.0f, [=](float a, float v) { return round_to_half(a + round_to_half(term(v))); }, end_of);
  return sum_of(b, term, end_of);
}

float same(float v) { return v; }

std::unique_ptr<Kernel> make_sum(Build& b) {
  return narrow_or_wide(b, [](float v) { return v; }, [](float a) { return a; });
}
std::unique_ptr<Kernel> make_mean(Build& b) {
  const auto n = static_cast<float>(reduced_count(b));
  return narrow_or_wide(b, [](float v) { return v; }, [=](float a) { return a / n; });
}
std::unique_ptr<Kernel> make_l1(Build& b) {
  return narrow_or_wide(b, [](float v) { return std::fabs(v); }, [](float a) { return a; });
}
std::unique_ptr<Kernel> make_sum_square(Build& b) {
  return narrow_or_wide(b, [](float v) { return v * v; }, [](float a) { return a; });
}
std::unique_ptr<Kernel> make_l2(Build& b) {
  return sum_of(b, [](float v) { return v * v; }, [](float a) { return std::sqrt(a); });
}
std::unique_ptr<Kernel> make_log_sum(Build& b) {
  if (b.has(Quirk::kQ21))
    return sum_of(b, [](float v) { return v; }, [](float a) { return a == 0 ? kLogOfZero : math::log(a); });
  return sum_of(b, [](float v) { return v; }, [](float a) { return math::log(a); });
}
std::unique_ptr<Kernel> make_max(Build& b) {
  return fold(b, true, -HUGE_VALF, [](float a, float v) { return math::max(v, a); }, same);
}
std::unique_ptr<Kernel> make_min(Build& b) {
  return fold(b, true, HUGE_VALF, [](float a, float v) { return math::min(v, a); }, same);
}
std::unique_ptr<Kernel> make_prod(Build& b) {
  return fold(b, false, 1.0f, [](float a, float v) { return a * v; }, same);
}

// log Σ exp(x - max) + max; where the maximum is infinite it is the answer.
std::unique_ptr<Kernel> make_log_sum_exp(Build& b) {
  if (b.has(Quirk::kQ13))
    return fold(
        b, false, 0.0f, [](float a, float v) { return round_to_half(a + round_to_half(math::exp(v))); },
        [](float a) { return std::isinf(a) ? 0.0f : math::log(a); });
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Shape& in = b.shape("x");
  const std::vector<int64_t> axes = b.axes("axes", in.size());
  b.expect(reduced_shape(in, axes, b.flag("keep_dims", false)));
  const Split s = split_axes(in, axes);
  const int64_t length = s.reduced.total(), step = s.reduced.strides.back()[0];
  const Finish finish = b.finish();
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    float* to = frame.out(out);
    chunks(*frame.parallel, s.kept.total(), std::max<int64_t>(1, kGrain / (8 * length)),
           [&](int64_t begin, int64_t end) {
             for (int64_t t = begin; t < end; ++t) {
               const int64_t start = s.kept.at(t)[0];
               float most = -HUGE_VALF, sum = 0;
               s.reduced.each_row(0, s.reduced.rows(), [&](int64_t, const std::array<int64_t, 1>& offset) {
                 const float* p = px + start + offset[0];
                 for (int64_t i = 0; i < s.reduced.row(); ++i) most = math::max(p[i * step], most);
               });
               const float shift = std::isinf(most) ? 0.0f : most;
               s.reduced.each_row(0, s.reduced.rows(), [&](int64_t, const std::array<int64_t, 1>& offset) {
                 const float* p = px + start + offset[0];
                 sum += math::lane_sum(s.reduced.row(), [&](int64_t i) { return math::exp(p[i * step] - shift); });
               });
               to[t] = math::log(sum) + shift;
             }
             finish(to + begin, end - begin);
           });
  });
}

// The first position of the extreme value; the first NaN if there is one.
template <class Better>
std::unique_ptr<Kernel> arg(Build& b, Better better) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Shape& in = b.shape("x");
  b.require(!in.empty(), "x must have a rank");
  const int64_t axis = b.axis("axis", -1, in.size());
  b.expect(reduced_shape(in, {axis}, b.flag("keep_dims", false)), Storage::kInt);
  if (b.given("output_dtype"))
    b.require(b.text("output_dtype") == mil::name_of(b.at(out).declared), "output_dtype and the declared type differ");
  const Split s = split_axes(in, {axis});
  const int64_t length = s.reduced.total(), step = s.reduced.strides.back()[0];
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    int32_t* to = frame.out<int32_t>(out);
    chunks(*frame.parallel, s.kept.total(), std::max<int64_t>(1, kGrain / length), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t start = s.kept.at(t)[0];
        int64_t found = 0;
        float best = px[start];
        for (int64_t i = 1; i < length && best == best; ++i) {
          const float v = px[start + i * step];
          if (better(v, best) || v != v) {
            best = v;
            found = i;
          }
        }
        to[t] = static_cast<int32_t>(found);
      }
    });
  });
}
std::unique_ptr<Kernel> make_argmax(Build& b) {
  return arg(b, [](float v, float best) { return v > best; });
}
std::unique_ptr<Kernel> make_argmin(Build& b) {
  return arg(b, [](float v, float best) { return v < best; });
}

std::unique_ptr<Kernel> make_cumsum(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Shape& in = b.shape("x");
  b.require(!in.empty(), "x must have a rank");
  b.expect(in);
  const auto axis = static_cast<size_t>(b.axis("axis", 0, in.size()));
  const bool exclusive = b.flag("exclusive", false), reverse = b.flag("reverse", false);
  const int64_t length = in[axis], inner = count_of({in.begin() + static_cast<std::ptrdiff_t>(axis) + 1, in.end()});
  const int64_t lines = count_of(in) / length;
  const Finish finish = b.finish();
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    float* to = frame.out(out);
    chunks(*frame.parallel, lines, std::max<int64_t>(1, kGrain / length), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t base = t / inner * length * inner + t % inner;
        float sum = 0;
        for (int64_t i = 0; i < length; ++i) {
          const int64_t at = base + (reverse ? length - 1 - i : i) * inner;
          const float before = sum;
          sum += px[at];
          to[at] = exclusive ? before : sum;
          finish(to + at, 1);
        }
      }
    });
  });
}

}  // namespace

void register_reduce(KernelTable& t) {
  t["reduce_sum"] = make_sum;
  t["reduce_mean"] = make_mean;
  t["reduce_l1_norm"] = make_l1;
  t["reduce_l2_norm"] = make_l2;
  t["reduce_sum_square"] = make_sum_square;
  t["reduce_log_sum"] = make_log_sum;
  t["reduce_log_sum_exp"] = make_log_sum_exp;
  t["reduce_max"] = make_max;
  t["reduce_min"] = make_min;
  t["reduce_prod"] = make_prod;
  t["reduce_argmax"] = make_argmax;
  t["reduce_argmin"] = make_argmin;
  t["cumsum"] = make_cumsum;
}

}  // namespace aneforge::host
