// topk: the greatest or smallest elements of each line, in order.
#include <algorithm>
#include <numeric>
#include <vector>

#include "host/iterate.h"
#include "host/kernels.h"

namespace aneforge::host {
namespace {

// Equal elements by position. NaN, which the engine does not have, counts as greater than all: this must be an order.
struct Before {
  const float* line;
  int64_t step;
  bool ascending;
  bool operator()(int32_t i, int32_t j) const {
    const float a = line[i * step], b = line[j * step];
    const bool a_nan = a != a, b_nan = b != b;
    if (a_nan || b_nan) return a_nan == b_nan ? i < j : a_nan != ascending;
    if (a == b) return i < j;
    return ascending ? a < b : a > b;
  }
};

std::unique_ptr<Kernel> make_topk(Build& b) {
  const bool with_indices = b.flag("return_indices", true);
  b.expect_results(with_indices ? 2 : 1);
  const int32_t x = b.read("x"), values = b.result(0), indices = with_indices ? b.result(1) : -1;
  Shape shape = b.shape("x");
  b.require(!shape.empty(), "x must have a rank");
  const auto axis = static_cast<size_t>(b.axis("axis", -1, shape.size()));
  const int64_t length = shape[axis], count = b.integer("k", 1);
  b.require(count >= 1 && count <= length, "k is not between 1 and the extent of the axis");
  const int64_t inner = count_of({shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()});
  const int64_t lines = count_of(shape) / length;
  shape[axis] = count;
  b.expect(shape);
  if (with_indices) {
    b.expect(shape, Storage::kInt, 1);
    if (b.given("output_indices_dtype"))
      b.require(b.text("output_indices_dtype") == mil::name_of(b.at(indices).declared),
                "output_indices_dtype and the declared type differ");
  }
  const bool ascending = b.flag("ascending", false);
  b.flag("sort", true);  // in order whatever it says
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    float* to = frame.out(values);
    int32_t* places = with_indices ? frame.out<int32_t>(indices) : nullptr;
    chunks(*frame.parallel, lines, std::max<int64_t>(1, kGrain / (8 * length)), [&](int64_t begin, int64_t end) {
      std::vector<int32_t> order(static_cast<size_t>(length));
      for (int64_t t = begin; t < end; ++t) {
        const float* line = px + t / inner * length * inner + t % inner;
        const int64_t first = t / inner * count * inner + t % inner;
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + count, order.end(), Before{line, inner, ascending});
        for (int64_t i = 0; i < count; ++i) {
          const int32_t at = order[static_cast<size_t>(i)];
          to[first + i * inner] = line[at * inner];
          if (places) places[first + i * inner] = at;
        }
      }
    });
  });
}

}  // namespace

void register_sort(KernelTable& t) { t["topk"] = make_topk; }

}  // namespace aneforge::host
