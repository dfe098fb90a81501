// Matrix products: matmul, linear, attention.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/fp16.h"
#include "host/iterate.h"
#include "host/kernels.h"
#include "host/math.h"

namespace aneforge::host {
namespace {

constexpr int64_t kColumns = 256;  // a panel of the result that stays in cache
constexpr int64_t kRows = 4;       // rows that share one pass over a panel of y

// Rows [m0, m1) of out[m][n] = Σ_k a[m * a_row + k * a_step] * y[k][n], k ascending for every element.
void product(const float* a, int64_t a_row, int64_t a_step, const float* y, int64_t n, int64_t k_total, int64_t m0,
             int64_t m1, float* out) {
  for (int64_t c = 0; c < n; c += kColumns) {
    const int64_t columns = std::min(kColumns, n - c);
    for (int64_t m = m0; m < m1; m += kRows) {
      const int64_t rows = std::min(kRows, m1 - m);
      for (int64_t r = 0; r < rows; ++r) std::fill_n(out + (m + r) * n + c, columns, 0.0f);
      for (int64_t k = 0; k < k_total; ++k) {
        const float* from = y + k * n + c;
        for (int64_t r = 0; r < rows; ++r) {
          const float f = a[(m + r) * a_row + k * a_step];
          float* to = out + (m + r) * n + c;
          for (int64_t i = 0; i < columns; ++i) to[i] += f * from[i];
        }
      }
    }
  }
}

void transposed(const float* from, int64_t rows, int64_t columns, float* to) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (int64_t c0 = 0; c0 < columns; c0 += kTile)
      for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r)
        for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c) to[c * rows + r] = from[r * columns + c];
}

// Q04, before a bias.
void bound(float* p, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (std::fabs(round_to_half(p[i])) > kAccumulatorBound) p[i] = std::copysign(HUGE_VALF, p[i]);
}

std::unique_ptr<Kernel> make_matmul(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  Shape xs = b.shape("x"), ys = b.shape("y");
  const bool x_vector = xs.size() == 1, y_vector = ys.size() == 1;
  b.require(!xs.empty() && !ys.empty(), "operands must have a rank");
  // A vector has nothing to transpose.
  const bool transpose_x = b.flag("transpose_x", false) && !x_vector,
             transpose_y = b.flag("transpose_y", false) && !y_vector;
  if (x_vector) xs.insert(xs.begin(), 1);
  if (y_vector) ys.push_back(1);
  const size_t xr = xs.size(), yr = ys.size();
  const int64_t m = xs[transpose_x ? xr - 1 : xr - 2], k = xs[transpose_x ? xr - 2 : xr - 1];
  const int64_t n = ys[transpose_y ? yr - 2 : yr - 1];
  b.require(ys[transpose_y ? yr - 1 : yr - 2] == k, "inner dimensions differ");
  const Shape x_batch(xs.begin(), xs.end() - 2), y_batch(ys.begin(), ys.end() - 2);
  Shape batch;
  b.require(broadcast_shape(x_batch, y_batch, &batch), "batch dimensions do not broadcast");
  Shape shape = batch;
  if (!x_vector) shape.push_back(m);
  if (!y_vector) shape.push_back(n);
  b.expect(shape);

  // y as [batch][k][n]: as it stands, or turned once now when it is known, or turned in scratch at each run.
  const int64_t y_batches = count_of(y_batch);
  const bool turn = transpose_y && k != 1 && n != 1;
  std::shared_ptr<std::vector<float>> packed;
  int32_t y = -1;
  if (turn && b.value("y").constant()) {
    const float* from = b.floats("y");
    packed = std::make_shared<std::vector<float>>(static_cast<size_t>(y_batches * k * n));
    for (int64_t i = 0; i < y_batches; ++i) transposed(from + i * n * k, n, k, packed->data() + i * n * k);
  } else {
    y = b.read("y");
    if (turn) b.scratch(static_cast<size_t>(y_batches * k * n) * sizeof(float));
  }
  const Strided<2> walk = broadcast<2>(batch, {x_batch, y_batch});
  std::vector<std::array<int64_t, 2>> pairs;  // which matrices meet
  walk.each_row(0, walk.rows(), [&](int64_t, const std::array<int64_t, 2>& at) {
    for (int64_t i = 0; i < walk.row(); ++i)
      pairs.push_back({at[0] + i * walk.strides.back()[0], at[1] + i * walk.strides.back()[1]});
  });
  const bool bounded = b.has(Quirk::kQ04);
  const Finish finish = b.finish();
  const int64_t a_row = transpose_x ? 1 : k, a_step = transpose_x ? m : 1;
  return kernel([=](const Frame& frame) {
    const float* px = frame.in(x);
    const float* py = packed ? packed->data() : frame.in(y);
    float* to = frame.out(out);
    if (turn && !packed) {
      float* turned = reinterpret_cast<float*>(frame.scratch);
      chunks(*frame.parallel, y_batches, std::max<int64_t>(1, kGrain / (n * k)), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) transposed(py + i * n * k, n, k, turned + i * n * k);
      });
      py = turned;
    }
    // Tasks are blocks of rows of one matrix.
    const int64_t blocks = (m + kRows - 1) / kRows;
    chunks(*frame.parallel, static_cast<int64_t>(pairs.size()) * blocks, std::max<int64_t>(1, kGrain / (kRows * n * k)),
           [&](int64_t begin, int64_t end) {
             for (int64_t t = begin; t < end;) {
               const int64_t i = t / blocks, first = t % blocks, last = std::min(blocks, first + end - t);
               const int64_t m0 = first * kRows, m1 = std::min(m, last * kRows);
               float* matrix = to + i * m * n;
               product(px + pairs[static_cast<size_t>(i)][0] * m * k, a_row, a_step,
                       py + pairs[static_cast<size_t>(i)][1] * n * k, n, k, m0, m1, matrix);
               if (bounded) bound(matrix + m0 * n, (m1 - m0) * n);
               finish(matrix + m0 * n, (m1 - m0) * n);
               t += last - first;
             }
           });
  });
}

std::unique_ptr<Kernel> make_linear(Build& b) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Shape &in = b.shape("x"), &ws = b.shape("weight");
  b.require(!in.empty() && ws.size() == 2 && ws[1] == in.back(), "x and weight do not go together");
  const int64_t n = ws[0], k = ws[1], m = count_of(in) / k;
  Shape shape = in;
  shape.back() = n;
  b.expect(shape);
  int32_t bias = -1;
  if (b.given("bias")) {
    bias = b.read("bias");
    b.require(b.at(bias).count == n || b.at(bias).count == 1, "bias must have one value for each output");
  }
  const bool one_bias = bias >= 0 && b.at(bias).count == 1;
  auto packed = std::make_shared<std::vector<float>>(static_cast<size_t>(n * k));
  transposed(b.floats("weight"), n, k, packed->data());
  const bool bounded = b.has(Quirk::kQ04);
  const Finish finish = b.finish();
  return kernel([=](const Frame& frame) {
    const float *px = frame.in(x), *pb = bias < 0 ? nullptr : frame.in(bias);
    float* to = frame.out(out);
    const int64_t blocks = (m + kRows - 1) / kRows;
    chunks(*frame.parallel, blocks, std::max<int64_t>(1, kGrain / (kRows * n * k)), [&](int64_t begin, int64_t end) {
      const int64_t m0 = begin * kRows, m1 = std::min(m, end * kRows);
      product(px, k, 1, packed->data(), n, k, m0, m1, to);
      for (int64_t r = m0; r < m1; ++r) {
        float* row = to + r * n;
        if (bounded) bound(row, n);
        if (one_bias) {
          for (int64_t i = 0; i < n; ++i) row[i] += *pb;
        } else if (pb) {
          for (int64_t i = 0; i < n; ++i) row[i] += pb[i];
        }
        finish(row, n);
      }
    });
  });
}

// softmax(q kᵀ / √E + mask) v, in fp32 within the operation. A boolean mask keeps where it is true.
std::unique_ptr<Kernel> make_attention(Build& b) {
  b.expect_results(1);
  const int32_t q = b.read("query"), k = b.read("key"), v = b.read("value"), out = b.result();
  const Shape &qs = b.shape("query"), &ks = b.shape("key"), &vs = b.shape("value");
  const size_t rank = qs.size();
  b.require(rank >= 3 && ks.size() == rank && vs.size() == rank, "query, key and value must have one rank, 3 or more");
  b.require(std::equal(qs.begin(), qs.end() - 2, ks.begin()) && std::equal(qs.begin(), qs.end() - 2, vs.begin()),
            "leading dimensions differ");
  const int64_t rows = qs[rank - 2], e = qs[rank - 1], columns = ks[rank - 2], width = vs[rank - 1];
  b.require(ks[rank - 1] == e && vs[rank - 2] == columns, "query, key and value do not go together");
  Shape shape = qs, scores = qs;
  shape.back() = width;
  scores.back() = columns;
  b.expect(shape);
  int32_t mask = -1;
  Strided<1> mask_walk;
  std::vector<int64_t> mask_rows;  // offset of the mask's row for every row of scores
  bool is_bool = false;
  int64_t mask_step = 0;
  if (b.given("attn_mask")) {
    mask = b.read_any("attn_mask");
    is_bool = b.at(mask).storage == Storage::kBool;
    b.require(b.at(mask).storage != Storage::kInt, "attn_mask must be bool or of x's type");
    Shape joint;
    b.require(broadcast_shape(scores, b.shape("attn_mask"), &joint) && joint == scores,
              "attn_mask does not broadcast to the scores");
    Shape ms = b.shape("attn_mask");
    ms.insert(ms.begin(), rank - ms.size(), 1);
    const std::vector<int64_t> dense = dense_strides(ms);
    mask_step = ms.back() == 1 ? 0 : 1;
    Strided<1> walk;
    walk.push(1, {0});
    walk.dims.clear();
    walk.strides.clear();
    for (size_t d = 0; d + 1 < rank; ++d) {
      walk.dims.push_back(scores[d]);
      walk.strides.push_back({ms[d] == 1 ? 0 : dense[d]});
    }
    walk.each_row(0, walk.rows(), [&](int64_t, const std::array<int64_t, 1>& at) {
      for (int64_t i = 0; i < walk.row(); ++i) mask_rows.push_back(at[0] + i * walk.strides.back()[0]);
    });
  }
  const float scale = 1.0f / std::sqrt(static_cast<float>(e));
  const int64_t total = count_of(qs) / e;
  const Finish finish = b.finish();
  b.scratch(static_cast<size_t>(total * columns) * sizeof(float));
  return kernel([=](const Frame& frame) {
    const float *pq = frame.in(q), *pk = frame.in(k), *pv = frame.in(v);
    const void* pm = mask < 0 ? nullptr : frame.data[mask];
    float *to = frame.out(out), *all = reinterpret_cast<float*>(frame.scratch);
    chunks(*frame.parallel, total, std::max<int64_t>(1, kGrain / (columns * (e + width))),
           [&](int64_t begin, int64_t end) {
             for (int64_t r = begin; r < end; ++r) {
               const int64_t batch = r / rows;
               float *score = all + r * columns, *result = to + r * width;
               float most = -HUGE_VALF;
               for (int64_t j = 0; j < columns; ++j) {
                 const float *u = pq + r * e, *w = pk + (batch * columns + j) * e;
                 float s = math::lane_sum(e, [&](int64_t i) { return u[i] * w[i]; }) * scale;
                 if (pm) {
                   const int64_t at = mask_rows[static_cast<size_t>(r)] + j * mask_step;
                   if (!is_bool)
                     s += static_cast<const float*>(pm)[at];
                   else if (!static_cast<const uint8_t*>(pm)[at])
                     s = -HUGE_VALF;
                 }
                 score[j] = s;
                 most = math::max(s, most);
               }
               for (int64_t j = 0; j < columns; ++j) score[j] = math::exp(score[j] - most);
               const float sum = math::lane_sum(columns, [&](int64_t j) { return score[j]; });
               std::fill_n(result, width, 0.0f);
               for (int64_t j = 0; j < columns; ++j) {
                 const float p = score[j] / sum;
                 const float* row = pv + (batch * columns + j) * width;
                 for (int64_t i = 0; i < width; ++i) result[i] += p * row[i];
               }
               finish(result, width);
             }
           });
  });
}

}  // namespace

void register_matmul(KernelTable& t) {
  t["matmul"] = make_matmul;
  t["linear"] = make_linear;
  t["scaled_dot_product_attention"] = make_attention;
}

}  // namespace aneforge::host
