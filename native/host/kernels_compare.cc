// Comparisons, logic, selection, casts.
#include <cmath>
#include <limits>

#include "host/iterate.h"
#include "host/kernels.h"

namespace aneforge::host {
namespace {

template <class T, class F>
std::unique_ptr<Kernel> to_bool(Build& b, Storage storage, F f) {
  b.expect_results(1);
  const int32_t x = b.read("x", storage), y = b.read("y", storage), out = b.result();
  Shape shape;
  b.require(broadcast_shape(b.shape("x"), b.shape("y"), &shape), "operands do not broadcast");
  b.expect(shape, Storage::kBool);
  const Strided<2> walk = broadcast<2>(shape, {b.shape("x"), b.shape("y")});
  const int64_t dx = walk.strides.back()[0], dy = walk.strides.back()[1];
  return kernel([=](const Frame& frame) {
    const T *px = frame.in<T>(x), *py = frame.in<T>(y);
    uint8_t* to = frame.out<uint8_t>(out);
    walk.run(
        *frame.parallel,
        [&](int64_t at, const std::array<int64_t, 2>& from, int64_t n) {
          const T *u = px + from[0], *v = py + from[1];
          for (int64_t i = 0; i < n; ++i) to[at + i] = f(u[i * dx], v[i * dy]);
        },
        [](int64_t, int64_t) {});
  });
}

// Comparisons with NaN are false, not_equal true.
template <class F>
std::unique_ptr<Kernel> compare(Build& b, F f) {
  switch (b.value("x").storage) {
    case Storage::kFloat:
      return to_bool<float>(b, Storage::kFloat, f);
    case Storage::kInt:
      return to_bool<int32_t>(b, Storage::kInt, f);
    case Storage::kBool:
      break;
  }
  return to_bool<uint8_t>(b, Storage::kBool, f);
}

std::unique_ptr<Kernel> make_greater(Build& b) {
  return compare(b, [](auto x, auto y) { return x > y; });
}
std::unique_ptr<Kernel> make_greater_equal(Build& b) {
  return compare(b, [](auto x, auto y) { return x >= y; });
}
std::unique_ptr<Kernel> make_less(Build& b) {
  return compare(b, [](auto x, auto y) { return x < y; });
}
std::unique_ptr<Kernel> make_less_equal(Build& b) {
  return compare(b, [](auto x, auto y) { return x <= y; });
}
std::unique_ptr<Kernel> make_equal(Build& b) {
  return compare(b, [](auto x, auto y) { return x == y; });
}
std::unique_ptr<Kernel> make_not_equal(Build& b) {
  return compare(b, [](auto x, auto y) { return x != y; });
}

std::unique_ptr<Kernel> make_and(Build& b) {
  return to_bool<uint8_t>(b, Storage::kBool, [](uint8_t x, uint8_t y) { return static_cast<uint8_t>(x & y); });
}
std::unique_ptr<Kernel> make_or(Build& b) {
  return to_bool<uint8_t>(b, Storage::kBool, [](uint8_t x, uint8_t y) { return static_cast<uint8_t>(x | y); });
}
std::unique_ptr<Kernel> make_xor(Build& b) {
  return to_bool<uint8_t>(b, Storage::kBool, [](uint8_t x, uint8_t y) { return static_cast<uint8_t>(x ^ y); });
}
std::unique_ptr<Kernel> make_not(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read("x", Storage::kBool), out = b.result();
  b.expect(b.shape("x"), Storage::kBool);
  const int64_t count = b.at(out).count;
  return kernel([=](const Frame& frame) {
    const uint8_t* from = frame.in<uint8_t>(x);
    uint8_t* to = frame.out<uint8_t>(out);
    chunks(*frame.parallel, count, 4 * kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = from[i] ^ 1;
    });
  });
}

template <class T>
std::unique_ptr<Kernel> select_of(Build& b, Storage storage) {
  b.expect_results(1);
  const int32_t cond = b.read("cond", Storage::kBool), x = b.read("a", storage), y = b.read("b", storage),
                out = b.result();
  Shape branches, shape;
  b.require(
      broadcast_shape(b.shape("a"), b.shape("b"), &branches) && broadcast_shape(b.shape("cond"), branches, &shape),
      "operands do not broadcast");
  b.expect(shape, storage);
  const Strided<3> walk = broadcast<3>(shape, {b.shape("cond"), b.shape("a"), b.shape("b")});
  const std::array<int64_t, 3> step = walk.strides.back();
  const Finish finish = b.finish(true);
  return kernel([=](const Frame& frame) {
    const uint8_t* pc = frame.in<uint8_t>(cond);
    const T *px = frame.in<T>(x), *py = frame.in<T>(y);
    T* to = frame.out<T>(out);
    walk.run(
        *frame.parallel,
        [&](int64_t at, const std::array<int64_t, 3>& from, int64_t n) {
          const uint8_t* c = pc + from[0];
          const T *u = px + from[1], *v = py + from[2];
          for (int64_t i = 0; i < n; ++i) to[at + i] = c[i * step[0]] ? u[i * step[1]] : v[i * step[2]];
        },
        [&](int64_t at, int64_t n) {
          if constexpr (std::is_same_v<T, float>) finish(to + at, n);
        });
  });
}

std::unique_ptr<Kernel> make_select(Build& b) {
  switch (b.value("a").storage) {
    case Storage::kFloat:
      return select_of<float>(b, Storage::kFloat);
    case Storage::kInt:
      return select_of<int32_t>(b, Storage::kInt);
    case Storage::kBool:
      break;
  }
  return select_of<uint8_t>(b, Storage::kBool);
}

template <class From, class To, class F>
std::unique_ptr<Kernel> convert(Build& b, F f) {
  const int32_t x = b.read_any("x"), out = b.result();
  const int64_t count = b.at(out).count;
  const Finish finish = b.finish();
  return kernel([=](const Frame& frame) {
    const From* from = frame.in<From>(x);
    To* to = frame.out<To>(out);
    chunks(*frame.parallel, count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = f(from[i]);
      if constexpr (std::is_same_v<To, float>) finish(to + begin, end - begin);
    });
  });
}

// To integers: towards zero, clamped to the type's range, NaN to 0. To bool: not 0. From bool: 0 and 1.
std::unique_ptr<Kernel> make_cast(Build& b) {
  b.expect_results(1);
  const std::string dtype = b.text("dtype");
  const Value &x = b.value("x"), &y = b.at(b.result());
  b.expect(x.shape, y.storage);
  b.require(dtype == mil::name_of(y.declared), "dtype and the declared type differ");
  if (x.declared == y.declared || (x.storage == Storage::kFloat && y.storage == Storage::kFloat && (x.half || !y.half)))
    return b.view(b.operand("x"));
  const IntegerRange range = range_of(y.declared);
  switch (x.storage) {
    case Storage::kFloat:
      if (y.storage == Storage::kFloat) return convert<float, float>(b, [](float v) { return v; });
      if (y.storage == Storage::kBool)
        return convert<float, uint8_t>(b, [](float v) { return static_cast<uint8_t>(v != 0); });
      return convert<float, int32_t>(b, [=](float v) {
        if (v != v) return int32_t{0};
        const double t = std::trunc(static_cast<double>(v));
        return t <= range.low ? range.low : t >= range.high ? range.high : static_cast<int32_t>(t);
      });
    case Storage::kInt:
      if (y.storage == Storage::kFloat)
        return convert<int32_t, float>(b, [](int32_t v) { return static_cast<float>(v); });
      if (y.storage == Storage::kBool)
        return convert<int32_t, uint8_t>(b, [](int32_t v) { return static_cast<uint8_t>(v != 0); });
      return convert<int32_t, int32_t>(b, [=](int32_t v) { return std::clamp(v, range.low, range.high); });
    case Storage::kBool:
      break;
  }
  if (y.storage == Storage::kFloat) return convert<uint8_t, float>(b, [](uint8_t v) { return static_cast<float>(v); });
  return convert<uint8_t, int32_t>(b, [](uint8_t v) { return static_cast<int32_t>(v); });
}

}  // namespace

void register_compare(KernelTable& t) {
  t["greater"] = make_greater;
  t["greater_equal"] = make_greater_equal;
  t["less"] = make_less;
  t["less_equal"] = make_less_equal;
  t["equal"] = make_equal;
  t["not_equal"] = make_not_equal;
  t["logical_and"] = make_and;
  t["logical_or"] = make_or;
  t["logical_xor"] = make_xor;
  t["logical_not"] = make_not;
  t["select"] = make_select;
  t["cast"] = make_cast;
}

}  // namespace aneforge::host
