// gather and gather_along_axis with known indices. An index outside its axis is an error of the program (negative ones
// included: from ios17 on they do not count from the end).
#include "host/move.h"

namespace aneforge::host {
namespace {

std::unique_ptr<Kernel> make_gather(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read_any("x"), out = b.result();
  const Shape &in = b.shape("x"), &is = b.shape("indices");
  b.require(!in.empty(), "x must have a rank");
  const auto axis = static_cast<size_t>(b.axis("axis", 0, in.size()));
  const int64_t batch_dims = b.integer("batch_dims", 0);
  b.require(batch_dims >= 0 && static_cast<size_t>(batch_dims) <= std::min(axis, is.size()), "batch_dims does not fit");
  const std::ptrdiff_t shared = batch_dims, at_axis = static_cast<std::ptrdiff_t>(axis);
  b.require(std::equal(in.begin(), in.begin() + shared, is.begin()), "batch dimensions differ");
  Shape shape(in.begin(), in.begin() + at_axis);
  shape.insert(shape.end(), is.begin() + shared, is.end());
  shape.insert(shape.end(), in.begin() + at_axis + 1, in.end());
  expect_same_type(b, "x", shape);
  std::vector<int64_t> indices = b.ints("indices");
  for (int64_t i : indices) b.require(i >= 0 && i < in[axis], "an index lies outside its axis");
  const int64_t length = in[axis], inner = count_of({in.begin() + at_axis + 1, in.end()});
  const int64_t outer = count_of({in.begin() + shared, in.begin() + at_axis});
  const int64_t batches = count_of({in.begin(), in.begin() + shared}),
                per_batch = static_cast<int64_t>(indices.size()) / batches;
  return with_element(b.at(x).storage, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return kernel([=](const Frame& frame) {
      const T* px = frame.in<T>(x);
      T* to = frame.out<T>(out);
      chunks(*frame.parallel, batches * outer * per_batch, std::max<int64_t>(1, kGrain / inner),
             [&](int64_t begin, int64_t end) {
               for (int64_t t = begin; t < end; ++t) {
                 const int64_t line = t / per_batch;  // batch and outer position together
                 const int64_t i = indices[static_cast<size_t>(line / outer * per_batch + t % per_batch)];
                 const T* from = px + (line * length + i) * inner;
                 if (inner == 1)
                   to[t] = *from;
                 else
                   std::memcpy(to + t * inner, from, static_cast<size_t>(inner) * sizeof(T));
               }
             });
    });
  });
}

std::unique_ptr<Kernel> make_gather_along_axis(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read_any("x"), out = b.result();
  const Shape &in = b.shape("x"), &is = b.shape("indices");
  b.require(!in.empty() && in.size() == is.size(), "x and indices must have one rank");
  const auto axis = static_cast<size_t>(b.axis("axis", 0, in.size()));
  for (size_t d = 0; d < in.size(); ++d) b.require(d == axis || in[d] == is[d], "x and indices differ on another axis");
  expect_same_type(b, "x", is);
  const std::vector<int64_t> indices = b.ints("indices");
  const int64_t inner = count_of({in.begin() + static_cast<std::ptrdiff_t>(axis) + 1, in.end()});
  std::vector<int64_t> from(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    b.require(indices[i] >= 0 && indices[i] < in[axis], "an index lies outside its axis");
    const auto at = static_cast<int64_t>(i);
    from[i] = (at / (is[axis] * inner) * in[axis] + indices[i]) * inner + at % inner;
  }
  return with_element(b.at(x).storage, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return kernel([=](const Frame& frame) {
      const T* px = frame.in<T>(x);
      T* to = frame.out<T>(out);
      chunks(*frame.parallel, static_cast<int64_t>(from.size()), kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) to[i] = px[from[static_cast<size_t>(i)]];
      });
    });
  });
}

}  // namespace

void register_gather(KernelTable& t) {
  t["gather"] = make_gather;
  t["gather_along_axis"] = make_gather_along_axis;
}

}  // namespace aneforge::host
