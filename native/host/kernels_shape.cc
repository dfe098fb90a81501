// Shapes and order: reshape, transpose, slice, reverse, tile, pad, concat, stack, split.
#include <algorithm>
#include <cmath>

#include "core/fp16.h"
#include "host/move.h"

namespace aneforge::host {
namespace {

std::unique_ptr<Kernel> renamed(Build& b, const Shape& shape) {
  b.expect_results(1);
  const int32_t x = b.read_any("x");
  expect_same_type(b, "x", shape);
  return b.view(x);
}

std::unique_ptr<Kernel> make_identity(Build& b) { return renamed(b, b.shape("x")); }

std::unique_ptr<Kernel> make_reshape(Build& b) {
  // Zeros and -1 are resolved by the declared result; what is written out must agree with it.
  const std::vector<int64_t> wanted = b.ints("shape");
  const Shape& declared = b.result_shape();
  bool fits = count_of(declared) == count_of(b.shape("x")) && wanted.size() == declared.size();
  for (size_t d = 0; fits && d < wanted.size(); ++d)
    fits = wanted[d] == declared[d] || wanted[d] == -1 || wanted[d] == 0;
  b.require(fits, "shape, operand and declared result do not go together");
  return renamed(b, declared);
}

std::unique_ptr<Kernel> make_expand_dims(Build& b) {
  const Shape& in = b.shape("x");
  const std::vector<int64_t> axes = b.axes("axes", in.size() + b.ints("axes").size());
  Shape shape;
  size_t next = 0;
  for (size_t d = 0; d < in.size() + axes.size(); ++d) {
    const bool added = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    shape.push_back(added ? 1 : in[next++]);
  }
  return renamed(b, shape);
}

std::unique_ptr<Kernel> make_squeeze(Build& b) {
  const Shape& in = b.shape("x");
  const bool all = !b.given("axes");
  const std::vector<int64_t> axes = b.axes("axes", in.size());
  Shape shape;
  for (size_t d = 0; d < in.size(); ++d) {
    const bool named = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    b.require(all || !named || in[d] == 1, "an axis to squeeze is not 1");
    if (!named || in[d] != 1) shape.push_back(in[d]);
  }
  return renamed(b, shape);
}

std::unique_ptr<Kernel> make_transpose(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read_any("x");
  const Shape& in = b.shape("x");
  std::vector<int64_t> perm = b.ints("perm"), sorted = b.axes("perm", in.size());
  b.require(perm.size() == in.size() && sorted.size() == in.size(), "perm must name every axis once");
  const std::vector<int64_t> strides = dense_strides(in);
  Shape shape;
  Strided<1> walk;
  for (int64_t p : perm) {
    const auto d = static_cast<size_t>(p < 0 ? p + static_cast<int64_t>(in.size()) : p);
    shape.push_back(in[d]);
    walk.push(in[d], {strides[d]});
  }
  if (walk.dims.empty()) walk.push(1, {1});
  expect_same_type(b, "x", shape);
  return strided_copy(b, x, walk);
}

// What a slice takes of one axis.
struct Take {
  int64_t first, count, step;
  bool drop;
};

std::unique_ptr<Kernel> sliced(Build& b, const std::vector<Take>& takes) {
  b.expect_results(1);
  const int32_t x = b.read_any("x");
  const Shape& in = b.shape("x");
  const std::vector<int64_t> strides = dense_strides(in);
  Shape shape;
  Strided<1> walk;
  for (size_t d = 0; d < in.size(); ++d) {
    b.require(takes[d].count >= 1, "takes nothing of an axis");
    walk.base[0] += takes[d].first * strides[d];
    walk.push(takes[d].count, {takes[d].step * strides[d]});
    if (!takes[d].drop) shape.push_back(takes[d].count);
  }
  if (walk.dims.empty()) walk.push(1, {1});
  expect_same_type(b, "x", shape);
  const bool bounded =
      b.has(Quirk::kQ08) && b.at(x).storage == Storage::kFloat && !in.empty() && takes.back().first > 0;
  return strided_copy(b, x, walk, bounded);
}

std::unique_ptr<Kernel> make_slice_by_index(Build& b) {
  const Shape& in = b.shape("x");
  const size_t rank = in.size();
  const std::vector<int64_t> begin = b.ints("begin"), end = b.ints("end");
  std::vector<int64_t> stride = b.ints("stride", std::vector<int64_t>(rank, 1));
  std::vector<int64_t> no_begin = b.flags("begin_mask"), no_end = b.flags("end_mask"), drop = b.flags("squeeze_mask");
  for (auto* mask : {&no_begin, &no_end, &drop})
    if (mask->empty()) mask->assign(rank, 0);
  b.require(begin.size() == rank && end.size() == rank && stride.size() == rank && no_begin.size() == rank &&
                no_end.size() == rank && drop.size() == rank,
            "begin, end, stride and the masks must have one entry for each axis");
  std::vector<Take> takes;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t n = in[d];
    if (drop[d]) {
      const int64_t at = no_begin[d] ? 0 : begin[d] < 0 ? begin[d] + n : begin[d];
      b.require(at >= 0 && at < n, "begin lies outside an axis");
      takes.push_back({at, 1, 1, true});
      continue;
    }
    const int64_t step = stride[d];
    b.require(step != 0, "a stride of 0");
    // Python's rule.
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    int64_t from = std::clamp(begin[d] < 0 ? begin[d] + n : begin[d], low, high);
    int64_t to = std::clamp(end[d] < 0 ? end[d] + n : end[d], low, high);
    if (no_begin[d]) from = step > 0 ? 0 : n - 1;
    if (no_end[d]) to = step > 0 ? n : -1;
    const int64_t count = step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step;
    takes.push_back({from, std::max<int64_t>(count, 0), step, false});
  }
  return sliced(b, takes);
}

std::unique_ptr<Kernel> make_slice_by_size(Build& b) {
  const Shape& in = b.shape("x");
  const std::vector<int64_t> begin = b.ints("begin"), size = b.ints("size");
  b.require(begin.size() == in.size() && size.size() == in.size(), "begin and size must have one entry for each axis");
  std::vector<Take> takes;
  for (size_t d = 0; d < in.size(); ++d) {
    const int64_t from = begin[d] < 0 ? begin[d] + in[d] : begin[d];
    const int64_t count = size[d] == -1 ? in[d] - from : size[d];
    b.require(from >= 0 && from < in[d] && count >= 1 && count <= in[d] - from, "begin and size leave an axis");
    takes.push_back({from, count, 1, false});
  }
  return sliced(b, takes);
}

std::unique_ptr<Kernel> make_reverse(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read_any("x");
  const Shape& in = b.shape("x");
  const std::vector<int64_t> axes = b.axes("axes", in.size()), strides = dense_strides(in);
  Strided<1> walk;
  for (size_t d = 0; d < in.size(); ++d) {
    const bool turned = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    if (turned) walk.base[0] += (in[d] - 1) * strides[d];
    walk.push(in[d], {turned ? -strides[d] : strides[d]});
  }
  if (walk.dims.empty()) walk.push(1, {1});
  expect_same_type(b, "x", in);
  return strided_copy(b, x, walk);
}

std::unique_ptr<Kernel> make_tile(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read_any("x");
  const Shape& in = b.shape("x");
  const std::vector<int64_t> reps = b.ints("reps"), strides = dense_strides(in);
  b.require(reps.size() == in.size(), "reps must have one entry for each axis");
  Shape shape;
  Strided<1> walk;
  for (size_t d = 0; d < in.size(); ++d) {
    b.require(reps[d] >= 1, "reps start at 1");
    shape.push_back(in[d] * reps[d]);
    walk.push(reps[d], {0});
    walk.push(in[d], {strides[d]});
  }
  if (walk.dims.empty()) walk.push(1, {1});
  expect_same_type(b, "x", shape);
  return strided_copy(b, x, walk);
}

std::unique_ptr<Kernel> make_pad(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read_any("x");
  const Shape& in = b.shape("x");
  const std::vector<int64_t> pad = b.ints("pad");
  b.require(pad.size() % 2 == 0 && pad.size() / 2 <= in.size(), "pad must have two entries for each of the last axes");
  const std::string mode = b.text("mode", "constant");
  b.require(mode == "constant" || mode == "reflect" || mode == "replicate", "mode is constant, reflect or replicate");
  const size_t first = in.size() - pad.size() / 2;
  std::vector<int64_t> before(in.size(), 0), after(in.size(), 0);
  Shape shape = in;
  for (size_t d = first; d < in.size(); ++d) {
    before[d] = pad[2 * (d - first)];
    after[d] = pad[2 * (d - first) + 1];
    b.require(before[d] >= 0 && after[d] >= 0, "pad starts at 0");
    b.require(mode != "reflect" || (before[d] < in[d] && after[d] < in[d]), "reflects further than the axis is long");
    shape[d] += before[d] + after[d];
  }
  expect_same_type(b, "x", shape);
  std::vector<AxisMap> maps(in.size());
  for (size_t d = 0; d < in.size(); ++d) {
    const int64_t n = in[d];
    if (before[d] == 0 && after[d] == 0) continue;
    for (int64_t i = -before[d]; i < n + after[d]; ++i) {
      int64_t at = i;
      if (i < 0) at = mode == "constant" ? -1 : mode == "reflect" ? -i : 0;
      if (i >= n) at = mode == "constant" ? -1 : mode == "reflect" ? 2 * (n - 1) - i : n - 1;
      maps[d].push_back(at);
    }
  }
  uint32_t fill = 0;
  if (b.given("constant_val")) {
    const Value& v = b.value("constant_val");
    b.require(v.count == 1 && v.storage == b.at(x).storage, "constant_val must be one value of x's type");
    if (v.storage == Storage::kFloat)
      fill = float_bits(b.number("constant_val"));
    else if (v.storage == Storage::kInt)
      fill = static_cast<uint32_t>(b.integer("constant_val"));
    else
      fill = b.flag("constant_val", false);
  }
  return mapped_copy(b, x, in, std::move(maps), fill);
}

// values joined on an axis: blocks of each operand in turn.
std::unique_ptr<Kernel> joined(Build& b, const std::vector<int32_t>& parts, const Shape& shape,
                               const std::vector<int64_t>& widths) {
  const int32_t out = b.result();
  int64_t row = 0;
  for (int64_t w : widths) row += w;
  const int64_t rows = count_of(shape) / row;
  for (int32_t p : parts) b.require(b.at(p).declared == b.at(out).declared, "operands and result must have one type");
  b.expect(shape, b.at(parts[0]).storage);
  if (parts.size() == 1) return b.view(parts[0]);
  std::vector<int64_t> starts(widths.size(), 0);
  for (size_t i = 1; i < widths.size(); ++i) starts[i] = starts[i - 1] + widths[i - 1];
  const size_t size = bytes_of(b.at(out).storage);
  const auto n = static_cast<int64_t>(parts.size());
  return kernel([=](const Frame& frame) {
    chunks(*frame.parallel, rows * n, std::max<int64_t>(1, kGrain * n / row), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const auto p = static_cast<size_t>(t % n);
        const size_t bytes = static_cast<size_t>(widths[p]) * size;
        std::memcpy(frame.out<char>(out) + static_cast<size_t>(t / n * row + starts[p]) * size,
                    frame.in<char>(parts[p]) + static_cast<size_t>(t / n) * bytes, bytes);
      }
    });
  });
}

std::unique_ptr<Kernel> make_concat(Build& b) {
  b.expect_results(1);
  const std::vector<int32_t> parts = b.read_all("values");
  if (b.flag("interleave", false)) b.unsupported("interleave = true");
  Shape shape = b.at(parts[0]).shape;
  b.require(!shape.empty(), "operands must have a rank");
  const auto axis = static_cast<size_t>(b.axis("axis", 0, shape.size()));
  std::vector<int64_t> widths;
  int64_t total = 0;
  for (int32_t p : parts) {
    Shape s = b.at(p).shape;
    b.require(s.size() == shape.size(), "operands have different ranks");
    widths.push_back(count_of({s.begin() + static_cast<std::ptrdiff_t>(axis), s.end()}));
    total += s[axis];
    s[axis] = shape[axis];
    b.require(s == shape, "operands differ on another axis");
  }
  shape[axis] = total;
  return joined(b, parts, shape, widths);
}

std::unique_ptr<Kernel> make_stack(Build& b) {
  b.expect_results(1);
  const std::vector<int32_t> parts = b.read_all("values");
  Shape shape = b.at(parts[0]).shape;
  const int64_t axis = b.axis("axis", 0, shape.size() + 1);
  for (int32_t p : parts) b.require(b.at(p).shape == shape, "operands have different shapes");
  const std::vector<int64_t> widths(parts.size(), count_of({shape.begin() + axis, shape.end()}));
  shape.insert(shape.begin() + axis, static_cast<int64_t>(parts.size()));
  return joined(b, parts, shape, widths);
}

std::unique_ptr<Kernel> make_split(Build& b) {
  const int32_t x = b.read_any("x");
  const Shape& in = b.shape("x");
  b.require(!in.empty(), "x must have a rank");
  const auto axis = static_cast<size_t>(b.axis("axis", 0, in.size()));
  std::vector<int64_t> sizes = b.ints("split_sizes", {});
  if (sizes.empty()) {
    const int64_t n = b.integer("num_splits");
    b.require(n >= 1 && n <= in[axis] && in[axis] % n == 0, "num_splits does not divide the axis");
    sizes.assign(static_cast<size_t>(n), in[axis] / n);
  }
  b.expect_results(sizes.size());
  int64_t total = 0;
  std::vector<int32_t> outs;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Shape shape = in;
    shape[axis] = sizes[i];
    b.require(sizes[i] >= 1 && sizes[i] <= in[axis], "a part is empty");
    total += sizes[i];
    expect_same_type(b, "x", shape, i);
    outs.push_back(b.result(i));
  }
  b.require(total == in[axis], "split_sizes do not add up to the axis");
  const int64_t inner = count_of({in.begin() + static_cast<std::ptrdiff_t>(axis) + 1, in.end()}),
                row = in[axis] * inner;
  const int64_t rows = count_of(in) / row, n = static_cast<int64_t>(sizes.size());
  std::vector<int64_t> starts(sizes.size(), 0);
  for (size_t i = 1; i < sizes.size(); ++i) starts[i] = starts[i - 1] + sizes[i - 1];
  const size_t size = bytes_of(b.at(x).storage);
  return kernel([=](const Frame& frame) {
    chunks(*frame.parallel, rows * n, std::max<int64_t>(1, kGrain * n / row), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const auto p = static_cast<size_t>(t % n);
        const size_t bytes = static_cast<size_t>(sizes[p] * inner) * size;
        std::memcpy(frame.out<char>(outs[p]) + static_cast<size_t>(t / n) * bytes,
                    frame.in<char>(x) + static_cast<size_t>(t / n * row + starts[p] * inner) * size, bytes);
      }
    });
  });
}

}  // namespace

void register_shape(KernelTable& t) {
  t["identity"] = make_identity;
  t["reshape"] = make_reshape;
  t["expand_dims"] = make_expand_dims;
  t["squeeze"] = make_squeeze;
  t["transpose"] = make_transpose;
  t["slice_by_index"] = make_slice_by_index;
  t["slice_by_size"] = make_slice_by_size;
  t["reverse"] = make_reverse;
  t["tile"] = make_tile;
  t["pad"] = make_pad;
  t["concat"] = make_concat;
  t["stack"] = make_stack;
  t["split"] = make_split;
}

}  // namespace aneforge::host
