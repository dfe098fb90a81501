#include "host/vectorized.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "host/chain.h"
#include "host/elementary.h"
#include "host/iterate.h"
#include "host/vector/matmul.h"
#include "host/vector/rows.h"

namespace aneforge::host {
namespace {

class Pass {
 public:
  explicit Pass(Graph& graph) : graph_(graph), numerics_(numerics_of(graph)), consumers_(graph.consumers()) {}

  void run() {
    for (size_t i = 0; i < graph_.steps.size(); ++i) {
      const Step& step = graph_.steps[i];
      if (step.dead || step.kernel || step.results.size() != 1 || !ordinary(graph_, step.results[0])) continue;
      if (!operands_plain(step)) continue;
      if (step.kind == "matmul")
        matmul(i);
      else if (step.kind == "linear")
        linear(i);
      else if (step.kind == "softmax")
        softmax(i);
      else if (step.kind == "layer_norm")
        layer_norm(i);
      else if (step.kind == "transpose")
        transpose(i);
      else if (step.kind.rfind("reduce_", 0) == 0)
        reduce(i);
      else
        elementwise(i);
    }
  }

 private:
  Value& value(int32_t id) { return graph_.values[static_cast<size_t>(id)]; }
  const Shape& shape(int32_t id) { return value(id).shape; }
  bool is_constant(int32_t id) { return value(graph_.root(id)).constant(); }
  bool operands_plain(const Step& step) {
    for (const Argument& a : step.arguments)
      for (int32_t v : a.values)
        if (value(v).layout != Layout::kPlain) return false;
    return true;
  }

  // Gives the fused kernel to the last step of the chain.
  template <class F>
  void install(const Chain& chain, std::vector<int32_t> reads, size_t scratch, F f) {
    Step& step = graph_.steps[chain.last];
    step.kind = chain.word;
    step.reads = std::move(reads);
    step.reads.insert(step.reads.end(), chain.operands.begin(), chain.operands.end());
    step.results = {chain.result};
    step.scratch = scratch;
    step.kernel = kernel(std::move(f));
  }

  // The run-time operands of a chain, as the plans take them.
  struct Operands {
    int32_t ids[kMaxOperands] = {};
    int count = 0;
    explicit Operands(const std::vector<int32_t>& values) : count(static_cast<int>(values.size())) {
      std::copy(values.begin(), values.end(), ids);
    }
    void resolve(const Frame& frame, const float** to) const {
      for (int i = 0; i < count; ++i) to[i] = frame.in(ids[i]);
    }
  };

  // ---- matrix products

  void matmul(size_t at) {
    const Step& step = graph_.steps[at];
    const int32_t x = operand_of(step, "x"), y = operand_of(step, "y");
    if (!ordinary(graph_, x) || !ordinary(graph_, y)) return;
    Shape xs = shape(x), ys = shape(y);
    std::optional<bool> tx = known_flag(graph_, step, "transpose_x", false),
                        ty = known_flag(graph_, step, "transpose_y", false);
    if (!tx || !ty || xs.empty() || ys.empty()) return;
    if (xs.size() == 1) {
      xs.insert(xs.begin(), 1);
      tx = false;
    }
    if (ys.size() == 1) {
      ys.push_back(1);
      ty = false;
    }
    vec::MatmulParams p;
    const size_t xr = xs.size(), yr = ys.size();
    p.transpose_x = *tx;
    p.transpose_y = *ty;
    p.m = xs[*tx ? xr - 1 : xr - 2];
    p.k = xs[*tx ? xr - 2 : xr - 1];
    p.n = ys[*ty ? yr - 2 : yr - 1];
    const Shape x_batch(xs.begin(), xs.end() - 2), y_batch(ys.begin(), ys.end() - 2);
    Shape batch;
    if (ys[*ty ? yr - 1 : yr - 2] != p.k || !broadcast_shape(x_batch, y_batch, &batch)) return;
    if (count_of(batch) * p.m * p.n != value(step.results[0]).count)
      return;  // ill-formed: the plain kernel words the error
    if (count_of(y_batch) == 1 && !p.transpose_x) {
      // One y for all: the matrices of x are rows of one.
      p.m *= count_of(x_batch);
    } else {
      p.pairs.clear();
      const Strided<2> walk = broadcast<2>(batch, {x_batch, y_batch});
      walk.each_row(0, walk.rows(), [&](int64_t, const std::array<int64_t, 2>& from) {
        for (int64_t i = 0; i < walk.row(); ++i)
          p.pairs.emplace_back(from[0] + i * walk.strides.back()[0], from[1] + i * walk.strides.back()[1]);
      });
      p.y_matrices = count_of(y_batch);
    }
    product(at, p, x, y, {});
  }

  void linear(size_t at) {
    const Step& step = graph_.steps[at];
    const int32_t x = operand_of(step, "x"), w = operand_of(step, "weight"), b = operand_of(step, "bias");
    if (!ordinary(graph_, x) || !ordinary(graph_, w) || !is_constant(w) || shape(w).size() != 2 || shape(x).empty())
      return;
    if (shape(w)[1] != shape(x).back()) return;
    vec::MatmulParams p;
    p.n = shape(w)[0];
    p.k = shape(w)[1];
    p.m = value(x).count / p.k;
    p.transpose_y = true;
    if (p.m * p.n != value(step.results[0]).count) return;
    std::vector<float> bias;
    if (step.find("bias")) {
      if (!ordinary(graph_, b) || !is_constant(b) || (value(b).count != p.n && value(b).count != 1)) return;
      const float* from = graph_.floats(b);
      for (int64_t i = 0; i < p.n; ++i) bias.push_back(from[value(b).count == 1 ? 0 : i]);
    }
    product(at, p, x, w, bias);
  }

  void product(size_t at, const vec::MatmulParams& p, int32_t x, int32_t y, const std::vector<float>& bias) {
    constexpr int64_t kMost = int64_t{1} << 30;  // sizes and row numbers are ints within the kernels
    if (p.m > kMost || p.k > kMost || p.n > kMost) return;
    Chain chain;
    chain.result = graph_.steps[at].results[0];
    chain.last = at;
    chain.word = graph_.steps[at].kind;
    extend_chain(graph_, consumers_, p.n, vec::MatmulPlan::steps(p), &chain);
    const bool known = is_constant(y);
    const auto plan =
        std::make_shared<vec::MatmulPlan>(p, known ? graph_.floats(y) : nullptr,
                                          vec::Epilogue(numerics_, static_cast<int>(p.n), bias, chain.steps, true));
    std::vector<int32_t> reads{x};
    if (!known) reads.push_back(y);
    const Operands operands(chain.operands);
    const int32_t out = chain.result;
    install(chain, std::move(reads), plan->scratch_floats() * sizeof(float), [=](const Frame& frame) {
      const float* side[kMaxOperands];
      operands.resolve(frame, side);
      plan->run(frame.in(x), known ? nullptr : frame.in(y), frame.out(out), side,
                reinterpret_cast<float*>(frame.scratch), *frame.parallel);
    });
  }

  // ---- elementwise

  void elementwise(size_t at) {
    const Step& step = graph_.steps[at];
    const std::optional<Elementary> e = elementary(graph_, step);
    if (!e || e->per_channel) return;
    int32_t x = operand_of(step, "x");
    const int32_t out = step.results[0];
    if (e->binary && shape(x) != shape(out)) x = operand_of(step, "y");
    const int64_t columns = shape(out).empty() ? 0 : shape(out).back();
    Chain chain;
    chain.last = at;
    // Without operands by column, the tensor is one row.
    const vec::Steps flat{0, vec::kLanes, 0, columns, 0};
    if (shape(x) != shape(out) || is_constant(x) || !add_to_chain(graph_, step, x, columns, flat, &chain))
      return broadcast_binary(at, *e);
    extend_chain(graph_, consumers_, columns, flat, &chain);
    run_chain(chain, x, columns);
  }

  void run_chain(const Chain& chain, int32_t x, int64_t columns) {
    const int64_t count = value(chain.result).count;
    const bool by_column = std::any_of(chain.steps.begin(), chain.steps.end(), [](const vec::EpilogueStep& s) {
      return s.operand == vec::EpilogueStep::Operand::kChannel || s.operand == vec::EpilogueStep::Operand::kRow;
    });
    const int64_t row = by_column ? columns : count;
    const auto epilogue =
        std::make_shared<vec::Epilogue>(numerics_, static_cast<int>(by_column ? columns : 1), chain.steps);
    const Operands operands(chain.operands);
    const int32_t out = chain.result;
    install(chain, {x}, 0, [=](const Frame& frame) {
      const float* side[kMaxOperands];
      operands.resolve(frame, side);
      vec::map_rows(*epilogue, frame.in(x), frame.out(out), count / row, row, side, *frame.parallel);
    });
  }

  // Any other broadcasting: row by row, one operand of each row may be a single number.
  void broadcast_binary(size_t at, const Elementary& e) {
    if (!e.binary) return;
    Step& step = graph_.steps[at];
    const int32_t x = operand_of(step, "x"), y = operand_of(step, "y"), out = step.results[0];
    Shape joint;
    if (!broadcast_shape(shape(x), shape(y), &joint) || joint != shape(out)) return;
    const Strided<2> walk = broadcast<2>(joint, {shape(x), shape(y)});
    if (walk.row() < vec::kLanes) return;
    const bool x_moves = walk.strides.back()[0] != 0, y_moves = walk.strides.back()[1] != 0;
    if (!x_moves && !y_moves) return;
    const vec::Elementwise op = x_moves ? e.op : *exchanged(e.op);
    const vec::Rounding rounding = numerics_.rounding;
    step.reads = {x, y};
    step.kernel = kernel([=](const Frame& frame) {
      const float *px = frame.in(x), *py = frame.in(y);
      float* to = frame.out(out);
      walk.run(
          *frame.parallel,
          [&](int64_t position, const std::array<int64_t, 2>& from, int64_t n) {
            const float* main = x_moves ? px + from[0] : py + from[1];
            const float* other = x_moves ? py + from[1] : px + from[0];
            if (x_moves && y_moves) {
              vec::apply_elementwise(vec::kernels(), op, main, other, vec::kLanes, to + position,
                                     static_cast<size_t>(n), 0, 0, rounding);
            } else {
              float number[vec::kLanes];
              std::fill_n(number, vec::kLanes, *other);
              vec::apply_elementwise(vec::kernels(), op, main, number, 0, to + position, static_cast<size_t>(n), 0, 0,
                                     rounding);
            }
          },
          [](int64_t, int64_t) {});
    });
  }

  // ---- rows

  void softmax(size_t at) {
    Step& step = graph_.steps[at];
    const int32_t x = operand_of(step, "x"), out = step.results[0];
    const std::optional<std::vector<int64_t>> axis = known_ints(graph_, step, "axis", {-1});
    if (!ordinary(graph_, x) || !axis || axis->size() != 1 || shape(x).empty() || shape(x) != shape(out)) return;
    const auto rank = static_cast<int64_t>(shape(x).size());
    const int64_t a = (*axis)[0] < 0 ? (*axis)[0] + rank : (*axis)[0];
    if (a < 0 || a >= rank) return;
    const int64_t n = shape(x)[static_cast<size_t>(a)];
    const int64_t inner = count_of({shape(x).begin() + a + 1, shape(x).end()}), rows = value(x).count / (n * inner);
    const vec::Rounding rounding = numerics_.rounding;
    step.reads = {x};
    if (inner > 1) {
      step.kernel = kernel([=](const Frame& frame) {
        vec::softmax_axis(frame.in(x), frame.out(out), rows, n, inner, rounding, *frame.parallel);
      });
      return;
    }
    step.kernel = kernel([=](const Frame& frame) {
      vec::softmax_rows(frame.in(x), frame.out(out), rows, n, rounding, *frame.parallel);
    });
  }

  void layer_norm(size_t at) {
    Step& step = graph_.steps[at];
    const int32_t x = operand_of(step, "x"), out = step.results[0];
    const std::optional<std::vector<int64_t>> axes = known_ints(graph_, step, "axes", {});
    const std::optional<float> epsilon = known_number(graph_, step, "epsilon", 1e-5f);
    if (!ordinary(graph_, x) || !axes || axes->size() != 1 || !epsilon || shape(x).empty() || shape(x) != shape(out))
      return;
    const auto rank = static_cast<int64_t>(shape(x).size());
    if ((*axes)[0] != -1 && (*axes)[0] != rank - 1) return;
    const int64_t n = shape(x).back(), rows = value(x).count / n;
    std::vector<int32_t> reads{x};
    const auto parameter = [&](const char* name, int32_t* id) {
      if (!step.find(name)) return true;
      *id = operand_of(step, name);
      if (!ordinary(graph_, *id) || shape(*id) != Shape{n}) return false;
      reads.push_back(*id);
      return true;
    };
    int32_t gamma = -1, beta = -1;
    if (!parameter("gamma", &gamma) || !parameter("beta", &beta)) return;
    const vec::Rounding rounding = numerics_.rounding;
    const float e = *epsilon;
    step.reads = std::move(reads);
    step.kernel = kernel([=](const Frame& frame) {
      vec::layer_norm_rows(frame.in(x), gamma < 0 ? nullptr : frame.in(gamma), beta < 0 ? nullptr : frame.in(beta),
                           frame.out(out), rows, n, e, rounding, *frame.parallel);
    });
  }

  // The last axes exchanged: matrices turned one by one. (What keeps the last axis copies rows, which the plain kernel
  // does well.)
  void transpose(size_t at) {
    Step& step = graph_.steps[at];
    const int32_t x = operand_of(step, "x"), out = step.results[0];
    const std::optional<std::vector<int64_t>> perm = known_ints(graph_, step, "perm", {});
    if (!ordinary(graph_, x) || !perm || perm->size() != shape(x).size() || perm->size() < 2) return;
    const Shape& in = shape(x);
    const auto rank = static_cast<int64_t>(in.size());
    // [outer][rows][columns] -> [outer][columns][rows], each of several neighbouring axes.
    int64_t fixed = 0;
    const auto axis = [&](int64_t i) {
      const int64_t a = (*perm)[static_cast<size_t>(i)];
      return a < 0 ? a + rank : a;
    };
    while (fixed < rank && axis(fixed) == fixed) ++fixed;
    if (fixed == rank) return;
    const int64_t turn = axis(fixed) - fixed;  // how many axes of rows
    for (int64_t i = fixed; i < rank; ++i)
      if (axis(i) != fixed + (i - fixed + turn) % (rank - fixed)) return;
    int64_t outer = 1, rows = 1, columns = 1;
    for (int64_t d = 0; d < rank; ++d)
      (d < fixed ? outer : d < fixed + turn ? rows : columns) *= in[static_cast<size_t>(d)];
    if (rows == 1 || columns == 1 || value(out).count != value(x).count) return;  // a view
    step.reads = {x};
    step.kernel = kernel([=](const Frame& frame) {
      vec::transpose_matrices(frame.in(x), frame.out(out), outer, rows, columns, *frame.parallel);
    });
  }

  // Reductions over neighbouring axes: [outer][length][inner].
  void reduce(size_t at) {
    Step& step = graph_.steps[at];
    const int32_t x = operand_of(step, "x"), out = step.results[0];
    vec::Reduce op;
    if (step.kind == "reduce_sum")
      op = vec::Reduce::kSum;
    else if (step.kind == "reduce_mean")
      op = vec::Reduce::kMean;
    else if (step.kind == "reduce_max")
      op = vec::Reduce::kMax;
    else if (step.kind == "reduce_min")
      op = vec::Reduce::kMin;
    else if (step.kind == "reduce_sum_square")
      op = vec::Reduce::kSumOfSquares;
    else if (step.kind == "reduce_l1_norm")
      op = vec::Reduce::kSumOfMagnitudes;
    else
      return;
    if (!ordinary(graph_, x)) return;
    const Shape& in = shape(x);
    const auto rank = static_cast<int64_t>(in.size());
    std::vector<int64_t> all(in.size());
    for (size_t d = 0; d < all.size(); ++d) all[d] = static_cast<int64_t>(d);
    std::optional<std::vector<int64_t>> axes = known_ints(graph_, step, "axes", all);
    if (!axes || axes->empty()) return;
    for (int64_t& a : *axes) a = a < 0 ? a + rank : a;
    std::sort(axes->begin(), axes->end());
    for (size_t i = 0; i < axes->size(); ++i)
      if ((*axes)[i] != (*axes)[0] + static_cast<int64_t>(i) || (*axes)[i] < 0 || (*axes)[i] >= rank) return;
    vec::ReduceShape r;
    for (int64_t d = 0; d < rank; ++d)
      (d < axes->front() ? r.outer : d > axes->back() ? r.inner : r.length) *= in[static_cast<size_t>(d)];
    if (r.outer * r.inner != value(out).count || !vec::reduces(r)) return;
    const bool is_sum = op != vec::Reduce::kMax && op != vec::Reduce::kMin;
    r.narrow = is_sum && graph_.settings.has(Quirk::kQ06);
    const vec::Rounding rounding = numerics_.rounding;
    step.reads = {x};
    step.kernel = kernel(
        [=](const Frame& frame) { vec::reduce_axis(op, r, frame.in(x), frame.out(out), rounding, *frame.parallel); });
  }

  Graph& graph_;
  const vec::Numerics numerics_;
  const std::vector<std::vector<int32_t>> consumers_;
};

}  // namespace

void use_vector_kernels(Graph& graph) { Pass(graph).run(); }

}  // namespace aneforge::host
