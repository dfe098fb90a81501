// max_pool, avg_pool, l2_pool over one to three spatial dimensions.
#include <algorithm>
#include <cmath>

#include "host/iterate.h"
#include "host/kernels.h"
#include "host/math.h"
#include "host/window.h"

namespace aneforge::host {

Window pool_window(Build& b) {
  Window w = read_window(b, b.ints("kernel_sizes"), nullptr);
  int64_t taps = 1;
  for (size_t d = 0; d < 3; ++d) {
    b.require(w.kernel[d] <= (int64_t{1} << 40) / taps, "the window is too large");
    taps *= w.kernel[d];
  }
  const bool ceil_mode = b.flag("ceil_mode", false);
  for (size_t d = 3 - w.rank; d < 3; ++d) {
    const int64_t pad = w.before[d] + w.after[d], room = w.in[d] + pad - w.kernel[d];
    b.require(room >= 0, "the window is larger than the padded input");
    b.require(w.dilation[d] == 1, "pools have no dilations");
    w.out[d] = (room + (ceil_mode ? w.stride[d] - 1 : 0)) / w.stride[d] + 1;
    // coremltools 9.0: the last window may not start behind the input, but this is looked at only where something is
    // padded.
    if (ceil_mode && pad > 0 && (w.out[d] - 1) * w.stride[d] >= w.in[d] + w.before[d]) --w.out[d];
  }
  return w;
}

namespace {

// f(window's first element clipped to the input, …): folds every window in ascending order of depth, row, column.
template <class Start, class Step, class End>
std::unique_ptr<Kernel> pool(Build& b, bool exact, Start start, Step step, End end_of) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Window w = pool_window(b);
  const Shape& in = b.shape("x");
  b.expect(window_result(w, in[0], in[1]));
  const Finish finish = b.finish(exact);
  const int64_t planes = in[0] * in[1];
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    float* to = frame.out(out);
    chunks(*frame.parallel, planes, std::max<int64_t>(1, kGrain / (w.out_plane() * w.taps())),
           [&](int64_t begin, int64_t end) {
             for (int64_t p = begin; p < end; ++p) {
               const float* plane = px + p * w.in_plane();
               float* result = to + p * w.out_plane();
               for (int64_t od = 0, at = 0; od < w.out[0]; ++od) {
                 const int64_t d = od * w.stride[0] - w.before[0];
                 const int64_t d0 = std::max<int64_t>(d, 0), d1 = std::min(d + w.kernel[0], w.in[0]);
                 for (int64_t oh = 0; oh < w.out[1]; ++oh) {
                   const int64_t h = oh * w.stride[1] - w.before[1];
                   const int64_t h0 = std::max<int64_t>(h, 0), h1 = std::min(h + w.kernel[1], w.in[1]);
                   for (int64_t ow = 0; ow < w.out[2]; ++ow, ++at) {
                     const int64_t c = ow * w.stride[2] - w.before[2];
                     const int64_t c0 = std::max<int64_t>(c, 0), c1 = std::min(c + w.kernel[2], w.in[2]);
                     float value = start;
                     for (int64_t i = d0; i < d1; ++i)
                       for (int64_t j = h0; j < h1; ++j)
                         for (int64_t k = c0; k < c1; ++k) value = step(value, plane[(i * w.in[1] + j) * w.in[2] + k]);
                     const int64_t inside =
                         std::max<int64_t>(0, d1 - d0) * std::max<int64_t>(0, h1 - h0) * std::max<int64_t>(0, c1 - c0);
                     result[at] = end_of(value, inside);
                   }
                 }
               }
               finish(result, w.out_plane());
             }
           });
  });
}

std::unique_ptr<Kernel> make_max_pool(Build& b) {
  // A window wholly in the padding gives -inf.
  return pool(
      b, true, -HUGE_VALF, [](float a, float v) { return math::max(v, a); }, [](float a, int64_t) { return a; });
}

std::unique_ptr<Kernel> make_avg_pool(Build& b) {
  const auto sum = [](float a, float v) { return a + v; };
  if (b.flag("exclude_padding_from_average", false))
    return pool(b, false, 0.0f, sum,
                [](float a, int64_t inside) { return inside > 0 ? a / static_cast<float>(inside) : 0.0f; });
  const auto taps = static_cast<float>(pool_window(b).taps());
  return pool(b, false, 0.0f, sum, [=](float a, int64_t) { return a / taps; });
}

std::unique_ptr<Kernel> make_l2_pool(Build& b) {
  return pool(
      b, false, 0.0f, [](float a, float v) { return a + v * v; }, [](float a, int64_t) { return std::sqrt(a); });
}

}  // namespace

void register_pool(KernelTable& t) {
  t["max_pool"] = make_max_pool;
  t["avg_pool"] = make_avg_pool;
  t["l2_pool"] = make_l2_pool;
}

}  // namespace aneforge::host
