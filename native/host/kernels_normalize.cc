// softmax and the normalisations. Statistics are fp32, variances are those of the whole population.
#include <algorithm>
#include <cmath>

#include "host/iterate.h"
#include "host/kernels.h"
#include "host/math.h"

namespace aneforge::host {
namespace {

void softmax_row(const float* x, float* to, int64_t n) {
  float most = -HUGE_VALF;
  for (int64_t i = 0; i < n; ++i) most = math::max(x[i], most);
  for (int64_t i = 0; i < n; ++i) to[i] = math::exp(x[i] - most);
  const float sum = math::lane_sum(n, [&](int64_t i) { return to[i]; });
  for (int64_t i = 0; i < n; ++i) to[i] /= sum;
}

// n elements, `inner` apart, for `columns` neighbours at once.
void softmax_columns(const float* x, float* to, int64_t n, int64_t inner, int64_t columns) {
  float most[64], sum[64];
  std::fill_n(most, columns, -HUGE_VALF);
  std::fill_n(sum, columns, 0.0f);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < columns; ++c) most[c] = math::max(x[i * inner + c], most[c]);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < columns; ++c) sum[c] += to[i * inner + c] = math::exp(x[i * inner + c] - most[c]);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < columns; ++c) to[i * inner + c] /= sum[c];
}

std::unique_ptr<Kernel> make_softmax(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Shape& in = b.shape("x");
  b.require(!in.empty(), "x must have a rank");
  b.expect(in);
  const auto axis = static_cast<size_t>(b.axis("axis", -1, in.size()));
  const int64_t n = in[axis], inner = count_of({in.begin() + static_cast<std::ptrdiff_t>(axis) + 1, in.end()});
  const int64_t outer = count_of(in) / (n * inner);
  const Finish finish = b.finish();
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    float* to = frame.out(out);
    if (inner == 1) {
      chunks(*frame.parallel, outer, std::max<int64_t>(1, kGrain / (8 * n)), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          softmax_row(px + r * n, to + r * n, n);
          finish(to + r * n, n);
        }
      });
      return;
    }
    const int64_t blocks = (inner + 63) / 64;
    chunks(*frame.parallel, outer * blocks, std::max<int64_t>(1, kGrain / (8 * 64 * n)),
           [&](int64_t begin, int64_t end) {
             for (int64_t t = begin; t < end; ++t) {
               const int64_t first = t % blocks * 64, columns = std::min<int64_t>(64, inner - first);
               const int64_t base = t / blocks * n * inner + first;
               softmax_columns(px + base, to + base, n, inner, columns);
               for (int64_t i = 0; i < n; ++i) finish(to + base + i * inner, columns);
             }
           });
  });
}

// One value a channel, or nothing.
int32_t channel_operand(Build& b, const char* name, int64_t channels) {
  if (!b.given(name)) return -1;
  const int32_t id = b.read(name);
  b.require(b.at(id).count == channels, "a parameter must have one value for each channel");
  return id;
}

std::unique_ptr<Kernel> make_batch_norm(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Shape& in = b.shape("x");
  b.require(in.size() >= 2, "x must have a channel axis");
  b.expect(in);
  const int64_t channels = in[1], planes = in[0] * channels, inner = count_of(in) / planes;
  const int32_t mean = channel_operand(b, "mean", channels), variance = channel_operand(b, "variance", channels);
  const int32_t gamma = channel_operand(b, "gamma", channels), beta = channel_operand(b, "beta", channels);
  b.require(mean >= 0 && variance >= 0, "mean and variance are needed");
  const float epsilon = b.number("epsilon", 1e-5f);
  const Finish finish = b.finish();
  return kernel([=](const Frame& frame) {
    const float *px = frame.in(x), *pm = frame.in(mean), *pv = frame.in(variance);
    const float *pg = gamma < 0 ? nullptr : frame.in(gamma), *pb = beta < 0 ? nullptr : frame.in(beta);
    float* to = frame.out(out);
    chunks(*frame.parallel, planes, std::max<int64_t>(1, kGrain / inner), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t c = p % channels;
        const float scale = (pg ? pg[c] : 1.0f) / std::sqrt(pv[c] + epsilon), shift = pb ? pb[c] : 0.0f, middle = pm[c];
        const float* from = px + p * inner;
        float* row = to + p * inner;
        for (int64_t i = 0; i < inner; ++i) row[i] = (from[i] - middle) * scale + shift;
        finish(row, inner);
      }
    });
  });
}

struct Moments {
  float mean, inverse;  // inverse of the deviation
};
template <class At>
Moments moments(int64_t n, float epsilon, At at) {
  const auto count = static_cast<float>(n);
  const float mean = math::lane_sum(n, at) / count;
  const float variance = math::lane_sum(n,
                                        [&](int64_t i) {
                                          const float d = at(i) - mean;
                                          return d * d;
                                        }) /
                         count;
  return {mean, 1.0f / std::sqrt(variance + epsilon)};
}

std::unique_ptr<Kernel> make_instance_norm(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Shape& in = b.shape("x");
  b.require(in.size() >= 3, "x must have a channel axis and spatial axes");
  b.expect(in);
  const int64_t channels = in[1], planes = in[0] * channels, inner = count_of(in) / planes;
  const int32_t gamma = channel_operand(b, "gamma", channels), beta = channel_operand(b, "beta", channels);
  const float epsilon = b.number("epsilon", 1e-5f);
  const Finish finish = b.finish();
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    const float *pg = gamma < 0 ? nullptr : frame.in(gamma), *pb = beta < 0 ? nullptr : frame.in(beta);
    float* to = frame.out(out);
    chunks(*frame.parallel, planes, std::max<int64_t>(1, kGrain / (4 * inner)), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const float* from = px + p * inner;
        float* row = to + p * inner;
        const Moments m = moments(inner, epsilon, [&](int64_t i) { return from[i]; });
        const float g = pg ? pg[p % channels] : 1.0f, s = pb ? pb[p % channels] : 0.0f;
        for (int64_t i = 0; i < inner; ++i) row[i] = (from[i] - m.mean) * m.inverse * g + s;
        finish(row, inner);
      }
    });
  });
}

std::unique_ptr<Kernel> make_layer_norm(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Shape& in = b.shape("x");
  b.require(!in.empty(), "x must have a rank");
  b.expect(in);
  const std::vector<int64_t> axes = b.axes("axes", in.size());
  // Offsets of one normalised group, and of the groups.
  Strided<1> groups, members;
  const std::vector<int64_t> strides = dense_strides(in);
  Shape member_shape;
  for (size_t d = 0; d < in.size(); ++d) {
    const bool member = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    (member ? members : groups).push(in[d], {strides[d]});
    if (member) member_shape.push_back(in[d]);
  }
  if (groups.dims.empty()) groups.push(1, {0});
  if (members.dims.empty()) members.push(1, {0});
  const auto offsets_of = [](const Strided<1>& s) {
    auto all = std::make_shared<std::vector<int64_t>>();
    s.each_row(0, s.rows(), [&](int64_t, const std::array<int64_t, 1>& at) {
      for (int64_t i = 0; i < s.row(); ++i) all->push_back(at[0] + i * s.strides.back()[0]);
    });
    return all;
  };
  const auto starts = offsets_of(groups), offsets = offsets_of(members);
  const auto parameter = [&](const char* name) {
    if (!b.given(name)) return -1;
    b.require(b.shape(name) == member_shape, "gamma and beta must have the shape of the normalised axes");
    return b.read(name);
  };
  const int32_t gamma = parameter("gamma"), beta = parameter("beta");
  const float epsilon = b.number("epsilon", 1e-5f);
  const Finish finish = b.finish();
  const int64_t n = members.total();
  const bool dense = members.dims.size() == 1 && members.strides[0][0] == 1;
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    const float *pg = gamma < 0 ? nullptr : frame.in(gamma), *pb = beta < 0 ? nullptr : frame.in(beta);
    float* to = frame.out(out);
    chunks(*frame.parallel, static_cast<int64_t>(starts->size()), std::max<int64_t>(1, kGrain / (4 * n)),
           [&](int64_t begin, int64_t end) {
             for (int64_t t = begin; t < end; ++t) {
               const float* from = px + (*starts)[static_cast<size_t>(t)];
               float* row = to + (*starts)[static_cast<size_t>(t)];
               if (dense) {
                 const Moments m = moments(n, epsilon, [&](int64_t i) { return from[i]; });
                 for (int64_t i = 0; i < n; ++i)
                   row[i] = (from[i] - m.mean) * m.inverse * (pg ? pg[i] : 1.0f) + (pb ? pb[i] : 0.0f);
                 finish(row, n);
                 continue;
               }
               const int64_t* o = offsets->data();
               const Moments m = moments(n, epsilon, [&](int64_t i) { return from[o[i]]; });
               for (int64_t i = 0; i < n; ++i) {
                 row[o[i]] = (from[o[i]] - m.mean) * m.inverse * (pg ? pg[i] : 1.0f) + (pb ? pb[i] : 0.0f);
                 finish(row + o[i], 1);
               }
             }
           });
  });
}

// Over the last three dimensions together: x / sqrt(Σx² + epsilon).
std::unique_ptr<Kernel> make_l2_norm(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Shape& in = b.shape("x");
  b.require(in.size() >= 3, "x must have rank 3 or more");
  b.expect(in);
  const int64_t n = count_of({in.end() - 3, in.end()}), groups = count_of(in) / n;
  const float epsilon = b.number("epsilon", 1e-6f);
  const Finish finish = b.finish();
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    float* to = frame.out(out);
    chunks(*frame.parallel, groups, std::max<int64_t>(1, kGrain / (2 * n)), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const float* from = px + t * n;
        float* row = to + t * n;
        const float scale = 1.0f / std::sqrt(math::lane_sum(n, [&](int64_t i) { return from[i] * from[i]; }) + epsilon);
        for (int64_t i = 0; i < n; ++i) row[i] = from[i] * scale;
        finish(row, n);
      }
    });
  });
}

// x / (k + alpha / size * Σ x²)^beta over `size` neighbouring channels: floor((size - 1) / 2) before, the rest behind.
std::unique_ptr<Kernel> make_local_response_norm(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Shape& in = b.shape("x");
  b.require(in.size() >= 3, "x must have rank 3 or more");
  b.expect(in);
  const int64_t size = b.integer("size");
  b.require(size >= 1, "size starts at 1");
  const float alpha = b.number("alpha", 1e-4f) / static_cast<float>(size), beta = b.number("beta", 0.75f),
              k = b.number("k", 1.0f);
  const int64_t channels = in[1], planes = in[0] * channels, inner = count_of(in) / planes, below = (size - 1) / 2;
  const Finish finish = b.finish();
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    float* to = frame.out(out);
    chunks(*frame.parallel, planes, std::max<int64_t>(1, kGrain / (size * inner)), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t c = p % channels, c0 = std::max<int64_t>(0, c - below), c1 = std::min(channels, c - below + size);
        const float* image = px + (p - c) * inner;
        float* row = to + p * inner;
        std::fill_n(row, inner, 0.0f);
        for (int64_t j = c0; j < c1; ++j)
          for (int64_t i = 0; i < inner; ++i) row[i] += image[j * inner + i] * image[j * inner + i];
        for (int64_t i = 0; i < inner; ++i) row[i] = image[c * inner + i] / math::pow(k + alpha * row[i], beta);
        finish(row, inner);
      }
    });
  });
}

}  // namespace

void register_normalize(KernelTable& t) {
  t["softmax"] = make_softmax;
  t["batch_norm"] = make_batch_norm;
  t["instance_norm"] = make_instance_norm;
  t["layer_norm"] = make_layer_norm;
  t["l2_norm"] = make_l2_norm;
  t["local_response_norm"] = make_local_response_norm;
}

}  // namespace aneforge::host
