// Convolution and its transpose, one to three spatial dimensions, groups, dilations, every pad_type.
#include <algorithm>
#include <cmath>

#include "core/fp16.h"
#include "host/iterate.h"
#include "host/kernels.h"
#include "host/window.h"

namespace aneforge::host {

Window read_window(Build& b, const std::vector<int64_t>& kernel_sizes, const char* default_pad_type) {
  Window w;
  const Shape& x = b.shape("x");
  b.require(x.size() >= 3 && x.size() <= 5, "x must have one to three spatial dimensions");
  w.rank = x.size() - 2;
  b.require(kernel_sizes.size() == w.rank, "the kernel has another number of dimensions than x");
  const std::vector<int64_t> ones(w.rank, 1);
  const std::vector<int64_t> strides = b.ints("strides", ones), dilations = b.ints("dilations", ones);
  const std::vector<int64_t> pad = b.ints("pad", std::vector<int64_t>(2 * w.rank, 0));
  b.require(strides.size() == w.rank && dilations.size() == w.rank && pad.size() == 2 * w.rank,
            "strides, dilations and pad must fit the spatial dimensions");
  const std::string pad_type = default_pad_type ? b.text("pad_type", default_pad_type) : b.text("pad_type");
  constexpr int64_t kMost = int64_t{1} << 31;
  for (size_t i = 0; i < w.rank; ++i) {
    const size_t d = 3 - w.rank + i;
    w.in[d] = x[2 + i];
    w.kernel[d] = kernel_sizes[i];
    w.stride[d] = strides[i];
    w.dilation[d] = dilations[i];
    b.require(w.kernel[d] >= 1 && w.kernel[d] < kMost && w.stride[d] >= 1 && w.stride[d] < kMost &&
                  w.dilation[d] >= 1 && w.dilation[d] < kMost && pad[2 * i] >= 0 && pad[2 * i + 1] >= 0,
              "kernel, strides and dilations start at 1, pad at 0");
    if (pad_type == "custom") {
      w.before[d] = pad[2 * i];
      w.after[d] = pad[2 * i + 1];
    } else if (pad_type == "same" || pad_type == "same_lower") {
      const int64_t total = std::max<int64_t>(
          0, w.stride[d] * ((w.in[d] + w.stride[d] - 1) / w.stride[d]) - w.in[d] + w.extent(d) - w.stride[d]);
      w.before[d] = pad_type == "same" ? total / 2 : total - total / 2;
      w.after[d] = total - w.before[d];
    } else if (pad_type != "valid") {
      b.fail("pad_type '" + pad_type + "'");
    }
  }
  return w;
}

Shape window_result(const Window& w, int64_t n, int64_t channels) {
  Shape shape{n, channels};
  for (size_t d = 3 - w.rank; d < 3; ++d) shape.push_back(w.out[d]);
  return shape;
}

namespace {

// Q04, then the bias, then the store. The bias belongs to the operation: one rounding for both.
struct Epilogue {
  bool bounded = false;
  Finish finish;

  void operator()(float* p, int64_t n, float bias, bool has_bias) const {
    if (bounded) {
      for (int64_t i = 0; i < n; ++i)
        if (std::fabs(round_to_half(p[i])) > kAccumulatorBound) p[i] = std::copysign(HUGE_VALF, p[i]);
    }
    if (has_bias) {
      for (int64_t i = 0; i < n; ++i) p[i] += bias;
    }
    finish(p, n);
  }
};

int32_t read_bias(Build& b, int64_t channels) {
  if (!b.given("bias")) return -1;
  const int32_t bias = b.read("bias");
  b.require(b.at(bias).count == channels, "bias must have one value for each output channel");
  return bias;
}

std::vector<int64_t> spatial(const Shape& weight) { return {weight.begin() + 2, weight.end()}; }

// One output plane: the sum over input channels, kernel depth, row, column, in this order for every element.
void conv_plane(const Window& w, const float* x, const float* weight, int64_t channels, float* out) {
  const int64_t in_plane = w.in_plane();
  std::fill(out, out + w.out_plane(), 0.0f);
  for (int64_t c = 0; c < channels; ++c, x += in_plane) {
    for (int64_t kd = 0; kd < w.kernel[0]; ++kd) {
      const int64_t d0 = kd * w.dilation[0] - w.before[0];
      const Valid depth = valid_range(d0, w.stride[0], w.in[0], w.out[0]);
      for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
        const int64_t h0 = kh * w.dilation[1] - w.before[1];
        const Valid rows = valid_range(h0, w.stride[1], w.in[1], w.out[1]);
        for (int64_t kw = 0; kw < w.kernel[2]; ++kw, ++weight) {
          const float f = *weight;
          const int64_t w0 = kw * w.dilation[2] - w.before[2], step = w.stride[2];
          const Valid columns = valid_range(w0, step, w.in[2], w.out[2]);
          for (int64_t od = depth.from; od < depth.to; ++od) {
            for (int64_t oh = rows.from; oh < rows.to; ++oh) {
              const float* from = x + ((od * w.stride[0] + d0) * w.in[1] + oh * w.stride[1] + h0) * w.in[2];
              float* to = out + (od * w.out[1] + oh) * w.out[2];
              if (step == 1) {
                from += w0 + columns.from;
                for (int64_t i = columns.from; i < columns.to; ++i) to[i] += f * from[i - columns.from];
              } else {
                for (int64_t i = columns.from; i < columns.to; ++i) to[i] += f * from[i * step + w0];
              }
            }
          }
        }
      }
    }
  }
}

std::unique_ptr<Kernel> make_conv(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read("x"), weight = b.read("weight"), out = b.result();
  const Shape &in = b.shape("x"), &kernel_shape = b.shape("weight");
  b.require(kernel_shape.size() == in.size() && in.size() >= 3, "weight must have the rank of x");
  Window w = read_window(b, spatial(kernel_shape), "valid");
  const int64_t groups = b.integer("groups", 1), channels = kernel_shape[1], filters = kernel_shape[0];
  b.require(groups >= 1 && groups <= filters && filters % groups == 0 && channels * groups == in[1],
            "groups, weight and x do not go together");
  for (size_t d = 0; d < 3; ++d) {
    const int64_t room = w.in[d] + w.before[d] + w.after[d] - w.extent(d);
    b.require(room >= 0, "the kernel is larger than the padded input");
    w.out[d] = room / w.stride[d] + 1;
  }
  const int32_t bias = read_bias(b, filters);
  b.expect(window_result(w, in[0], filters));
  const Epilogue epilogue{b.has(Quirk::kQ04) && channels * w.taps() >= 2, b.finish()};
  const int64_t batch = in[0], per_group = filters / groups;
  return kernel([=](const Frame& frame) {
    const float *px = frame.in(x), *pw = frame.in(weight), *pb = bias < 0 ? nullptr : frame.in(bias);
    float* to = frame.out(out);
    const int64_t work = w.out_plane() * channels * w.taps();
    chunks(*frame.parallel, batch * filters, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / filters, f = i % filters;
        float* plane = to + i * w.out_plane();
        conv_plane(w, px + (n * groups + f / per_group) * channels * w.in_plane(), pw + f * channels * w.taps(),
                   channels, plane);
        epilogue(plane, w.out_plane(), pb ? pb[f] : 0.0f, pb != nullptr);
      }
    });
  });
}

// One output plane of the transpose, by scattering; every element still receives input channels, kernel depth, row,
// column in order.
void transpose_plane(const Window& w, const float* x, const float* weight, int64_t channels, int64_t weight_step,
                     float* out) {
  std::fill(out, out + w.out_plane(), 0.0f);
  for (int64_t c = 0; c < channels; ++c, x += w.in_plane(), weight += weight_step) {
    const float* tap = weight;
    for (int64_t kd = 0; kd < w.kernel[0]; ++kd) {
      const int64_t d0 = kd * w.dilation[0] - w.before[0];
      const Valid depth = valid_range(d0, w.stride[0], w.out[0], w.in[0]);
      for (int64_t kh = 0; kh < w.kernel[1]; ++kh) {
        const int64_t h0 = kh * w.dilation[1] - w.before[1];
        const Valid rows = valid_range(h0, w.stride[1], w.out[1], w.in[1]);
        for (int64_t kw = 0; kw < w.kernel[2]; ++kw, ++tap) {
          const float f = *tap;
          const int64_t w0 = kw * w.dilation[2] - w.before[2];
          const Valid columns = valid_range(w0, w.stride[2], w.out[2], w.in[2]);
          for (int64_t id = depth.from; id < depth.to; ++id) {
            for (int64_t ih = rows.from; ih < rows.to; ++ih) {
              const float* from = x + (id * w.in[1] + ih) * w.in[2];
              float* to = out + ((id * w.stride[0] + d0) * w.out[1] + ih * w.stride[1] + h0) * w.out[2] + w0;
              for (int64_t i = columns.from; i < columns.to; ++i) to[i * w.stride[2]] += f * from[i];
            }
          }
        }
      }
    }
  }
}

std::unique_ptr<Kernel> make_conv_transpose(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read("x"), weight = b.read("weight"), out = b.result();
  const Shape &in = b.shape("x"), &kernel_shape = b.shape("weight");
  b.require(kernel_shape.size() == in.size() && in.size() >= 3, "weight must have the rank of x");
  Window w = read_window(b, spatial(kernel_shape), "valid");
  const int64_t groups = b.integer("groups", 1), per_group = kernel_shape[1];
  b.require(groups >= 1 && kernel_shape[0] == in[1] && in[1] % groups == 0, "groups, weight and x do not go together");
  const int64_t filters = per_group * groups, channels = in[1] / groups;
  const std::string pad_type = b.text("pad_type", "valid");
  const std::vector<int64_t> wanted = b.ints("output_shape", {});
  b.require(wanted.empty() || wanted.size() == in.size(), "output_shape must have the rank of x");
  for (size_t d = 3 - w.rank; d < 3; ++d) {
    const int64_t whole = (w.in[d] - 1) * w.stride[d] + w.extent(d);
    if (pad_type == "same" || pad_type == "same_lower") {
      // The transpose of the convolution that maps the result to x.
      const int64_t total = std::max<int64_t>(0, w.extent(d) - w.stride[d]);
      w.before[d] = pad_type == "same" ? total / 2 : total - total / 2;
      w.out[d] = w.in[d] * w.stride[d];
    } else {
      w.out[d] = whole - w.before[d] - w.after[d];
    }
    if (!wanted.empty()) w.out[d] = wanted[d - (3 - w.rank) + 2];
    b.require(w.out[d] >= 1, "the result would be empty");
  }
  const int32_t bias = read_bias(b, filters);
  b.expect(window_result(w, in[0], filters));
  const Epilogue epilogue{b.has(Quirk::kQ04) && channels * w.taps() >= 2, b.finish()};
  const int64_t batch = in[0], taps = w.taps();
  return kernel([=](const Frame& frame) {
    const float *px = frame.in(x), *pw = frame.in(weight), *pb = bias < 0 ? nullptr : frame.in(bias);
    float* to = frame.out(out);
    const int64_t work = w.in_plane() * channels * taps;
    chunks(*frame.parallel, batch * filters, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / filters, f = i % filters, group = f / per_group;
        float* plane = to + i * w.out_plane();
        transpose_plane(w, px + (n * groups + group) * channels * w.in_plane(),
                        pw + (group * channels * per_group + f % per_group) * taps, channels, per_group * taps, plane);
        epilogue(plane, w.out_plane(), pb ? pb[f] : 0.0f, pb != nullptr);
      }
    });
  });
}

}  // namespace

void register_conv(KernelTable& t) {
  t["conv"] = make_conv;
  t["conv_transpose"] = make_conv_transpose;
}

}  // namespace aneforge::host
