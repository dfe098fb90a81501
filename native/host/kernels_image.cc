// Resizing of the last two axes. Positions follow coremltools 9.0 (ops/defs/iOS15/image_resizing.py): always from the
// ratio of the sizes, clamped to the image.
#include <cmath>

#include "host/move.h"

namespace aneforge::host {
namespace {

struct Target {
  int64_t height, width;
};

Target target_of(Build& b) {
  b.require(b.shape("x").size() >= 3, "x must have rank 3 or more");
  const Target t{b.integer("target_size_height", 1), b.integer("target_size_width", 1)};
  b.require(t.height >= 1 && t.width >= 1, "target sizes start at 1");
  return t;
}

// A factor may be written as a float or as an integer.
double factor_of(Build& b, const char* name) {
  if (!b.given(name)) return 1.0;
  return b.value(name).storage == Storage::kInt ? static_cast<double>(b.integer(name))
                                                : static_cast<double>(b.number(name));
}

Target scaled_target(Build& b) {
  const Shape& in = b.shape("x");
  b.require(in.size() >= 3, "x must have rank 3 or more");
  const double height = std::floor(static_cast<double>(in[in.size() - 2]) * factor_of(b, "scale_factor_height"));
  const double width = std::floor(static_cast<double>(in[in.size() - 1]) * factor_of(b, "scale_factor_width"));
  b.require(height >= 1 && width >= 1 && height < 0x1p31 && width < 0x1p31, "scale factors give no size");
  return {static_cast<int64_t>(height), static_cast<int64_t>(width)};
}

Shape resized(const Shape& in, const Target& t) {
  Shape shape = in;
  shape[in.size() - 2] = t.height;
  shape[in.size() - 1] = t.width;
  return shape;
}

// floor(i * in / out) on both axes.
std::unique_ptr<Kernel> nearest(Build& b, const Target& t) {
  b.expect_results(1);
  const int32_t x = b.read("x");
  const Shape& in = b.shape("x");
  expect_same_type(b, "x", resized(in, t));
  std::vector<AxisMap> maps(in.size());
  for (size_t d = in.size() - 2; d < in.size(); ++d) {
    const int64_t size = b.result_shape()[d];
    for (int64_t i = 0; size != in[d] && i < size; ++i) maps[d].push_back(i * in[d] / size);
  }
  return mapped_copy(b, x, in, std::move(maps), 0);
}

// Two neighbours of every position of the result on one axis, and the weight of the second.
struct Lerp {
  std::vector<int64_t> low, high;
  std::vector<float> weight;
};

Lerp lerp_of(Build& b, int64_t in, int64_t out, const std::string& mode) {
  Lerp l;
  const auto n = static_cast<double>(in), m = static_cast<double>(out);
  for (int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<double>(i);
    double p = 0;
    if (mode == "STRICT_ALIGN_CORNERS")
      p = out == 1 ? 0 : at * (n - 1) / (m - 1);
    else if (mode == "ALIGN_CORNERS")
      p = out == 1 ? (n - 1) / 2 : at * (n - 1) / (m - 1);
    else if (mode == "DEFAULT")
      p = at * n / m;
    else if (mode == "UNALIGN_CORNERS")
      p = (at + 0.5) * n / m - 0.5;
    else if (mode == "OFFSET_CORNERS")
      p = (at + 0.5) * std::max(1.0, n - 1) / m;
    else
      b.fail("sampling_mode '" + mode + "'");
    p = std::clamp(p, 0.0, n - 1);
    const auto low = static_cast<int64_t>(p);
    l.low.push_back(low);
    l.high.push_back(std::min(low + 1, in - 1));
    l.weight.push_back(static_cast<float>(p - static_cast<double>(low)));
  }
  return l;
}

std::unique_ptr<Kernel> bilinear(Build& b, const Target& t, const std::string& mode) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Shape& in = b.shape("x");
  b.expect(resized(in, t));
  const int64_t height = in[in.size() - 2], width = in[in.size() - 1], images = count_of(in) / (height * width);
  const Lerp down = lerp_of(b, height, t.height, mode), across = lerp_of(b, width, t.width, mode);
  const Finish finish = b.finish();
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    float* to = frame.out(out);
    chunks(*frame.parallel, images * t.height, std::max<int64_t>(1, kGrain / (4 * t.width)),
           [&](int64_t begin, int64_t end) {
             for (int64_t r = begin; r < end; ++r) {
               const auto i = static_cast<size_t>(r % t.height);
               const float* image = px + r / t.height * height * width;
               const float *upper = image + down.low[i] * width, *lower = image + down.high[i] * width;
               const float v = down.weight[i];
               float* row = to + r * t.width;
               for (int64_t c = 0; c < t.width; ++c) {
                 const auto j = static_cast<size_t>(c);
                 const int64_t left = across.low[j], right = across.high[j];
                 const float u = across.weight[j];
                 // A neighbour of weight 0 does not count: an infinity there would make NaN.
                 const float a = u == 0 ? upper[left] : upper[left] * (1 - u) + upper[right] * u;
                 if (v == 0) {
                   row[c] = a;
                   continue;
                 }
                 const float e = u == 0 ? lower[left] : lower[left] * (1 - u) + lower[right] * u;
                 row[c] = a * (1 - v) + e * v;
               }
               finish(row, t.width);
             }
           });
  });
}

std::unique_ptr<Kernel> make_resize_nearest_neighbor(Build& b) { return nearest(b, target_of(b)); }
std::unique_ptr<Kernel> make_upsample_nearest_neighbor(Build& b) { return nearest(b, scaled_target(b)); }
std::unique_ptr<Kernel> make_resize_bilinear(Build& b) {
  return bilinear(b, target_of(b), b.text("sampling_mode", "DEFAULT"));
}
std::unique_ptr<Kernel> make_upsample_bilinear(Build& b) {
  const bool align = b.flag("align_corners", true), half = b.flag("half_pixel_centers", !align);
  b.require(!(align && half), "align_corners and half_pixel_centers exclude each other");
  return bilinear(b, scaled_target(b), align ? "STRICT_ALIGN_CORNERS" : half ? "UNALIGN_CORNERS" : "DEFAULT");
}

}  // namespace

void register_image(KernelTable& t) {
  t["resize_nearest_neighbor"] = make_resize_nearest_neighbor;
  t["resize_bilinear"] = make_resize_bilinear;
  t["upsample_nearest_neighbor"] = make_upsample_nearest_neighbor;
  t["upsample_bilinear"] = make_upsample_bilinear;
}

}  // namespace aneforge::host
