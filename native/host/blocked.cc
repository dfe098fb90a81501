#include "host/blocked.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "host/chain.h"
#include "host/elementary.h"
#include "host/kernels.h"
#include "host/vector/conv.h"
#include "host/vector/depthwise.h"
#include "host/vector/map.h"
#include "host/vector/pool.h"
#include "host/window.h"

namespace aneforge::host {
namespace {

using vec::EpilogueStep;
using vec::ImageLayout;

constexpr int kPlanarChannels = 4;  // images of so few channels stay planar: blocks of 16 would be mostly padding

// One elementwise operation that follows in the same pass.
struct Fused {
  EpilogueStep step;
  int32_t operand = -1;  // the value, for kTensor and kGate
};

struct Operation {
  enum class Kind { kConv, kDepthwise, kPool, kMean, kMap, kConcat, kRepeat };
  Kind kind = Kind::kMap;
  size_t step = 0;          // where it runs: the position of the last operation fused into it
  std::vector<int32_t> in;  // blocked operands
  int32_t out = -1;
  std::string word;  // for reports: "conv+add+relu"
  std::vector<Fused> chain;
  bool merged = false;  // into another operation

  vec::ConvParams conv;
  bool is_sum = false;  // Q04 applies
  int32_t weights = -1, bias = -1;
  int halo_h = 0, halo_w = 0;  // that in[0] must have
  vec::PoolParams pool;
  vec::PoolAllParams mean;
  int repeat_h = 1, repeat_w = 1;
};

// Rank 4 [N, C, H, W], or rank 3 [N, C, W] as images of one row.
std::optional<ImageLayout> image_of(const Shape& shape) {
  if (shape.size() != 4 && shape.size() != 3) return std::nullopt;
  constexpr int64_t kMost = int64_t{1} << 28;
  if (count_of(shape) > kMost) return std::nullopt;
  ImageLayout l;
  l.batch = static_cast<int>(shape[0]);
  l.channels = static_cast<int>(shape[1]);
  l.height = shape.size() == 4 ? static_cast<int>(shape[2]) : 1;
  l.width = static_cast<int>(shape.back());
  return l;
}

bool same_extent(const ImageLayout& a, const ImageLayout& b) {
  return a.batch == b.batch && a.channels == b.channels && a.height == b.height && a.width == b.width;
}

class Planner {
 public:
  explicit Planner(Graph& graph) : graph_(graph), numerics_(numerics_of(graph)), consumers_(graph.consumers()) {}

  void run() {
    blocked_.assign(graph_.values.size(), false);
    operation_at_.assign(graph_.steps.size(), -1);
    for (size_t i = 0; i < graph_.steps.size(); ++i) {
      const Step& step = graph_.steps[i];
      if (step.dead || step.kernel) continue;
      std::optional<Operation> o = step.kind == "reshape" ? mean_by_product(i) : recognize(step);
      if (!o) continue;
      if (o->out < 0) {
        o->step = i;
        o->out = step.results[0];
        o->word = step.kind;
      }
      blocked_[static_cast<size_t>(o->out)] = true;
      operation_at_[i] = operation_at_[o->step] = static_cast<int>(operations_.size());
      operations_.push_back(std::move(*o));
    }
    if (operations_.empty()) return;
    for (Operation& o : operations_) fuse(o);
    place();
    emit();
  }

 private:
  Value& value(int32_t id) { return graph_.values[static_cast<size_t>(id)]; }
  bool is_blocked(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < blocked_.size() && blocked_[static_cast<size_t>(id)];
  }
  bool is_constant(int32_t id) { return value(graph_.root(id)).constant(); }
  std::optional<ImageLayout> image(int32_t id) { return id < 0 ? std::nullopt : image_of(value(id).shape); }
  // Of a value that some operation here makes or takes; [N, C] is what a spatial mean may leave.
  ImageLayout extent(int32_t id) {
    Shape shape = value(id).shape;
    if (shape.size() == 2) shape.insert(shape.end(), 2, 1);
    return *image_of(shape);
  }
  const std::vector<int32_t>& consumers(int32_t id) const { return consumers_[static_cast<size_t>(id)]; }

  // ---- recognize

  std::optional<Operation> recognize(const Step& step) {
    if (step.results.size() != 1 || !ordinary(graph_, step.results[0]) || !image(step.results[0])) return std::nullopt;
    if (step.kind == "concat") return concat(step);
    const int32_t x = operand_of(step, "x");
    if (!ordinary(graph_, x) || is_constant(x) || !image(x)) {
      return step.find("y") ? elementwise(step) : std::nullopt;
    }
    if (step.kind == "conv") return convolution(step);
    if (step.kind == "max_pool" || step.kind == "avg_pool") return pool(step);
    if (step.kind == "reduce_mean") return mean(step);
    if (step.kind == "upsample_nearest_neighbor") return repeat(step);
    return elementwise(step);
  }

  std::optional<Operation> convolution(const Step& step) {
    const int32_t x = operand_of(step, "x"), weight = operand_of(step, "weight"), bias = operand_of(step, "bias");
    if (weight < 0 || !is_constant(weight) || !ordinary(graph_, weight)) return std::nullopt;
    if (step.find("bias") && (bias < 0 || !is_constant(bias) || !ordinary(graph_, bias))) return std::nullopt;
    const Shape& ws = value(weight).shape;
    if (ws.size() != value(x).shape.size()) return std::nullopt;
    Step probe;  // arguments only: the window's reader wants a step
    probe.kind = step.kind;
    probe.name = step.name;
    probe.line = step.line;
    probe.arguments = step.arguments;
    Build build(graph_, probe);
    Window w = read_window(build, {ws.begin() + 2, ws.end()}, "valid");
    const ImageLayout in = *image(x), out = *image(step.results[0]);
    const int64_t groups = build.integer("groups", 1);
    for (size_t d = 0; d < 3; ++d) w.out[d] = (w.in[d] + w.before[d] + w.after[d] - w.extent(d)) / w.stride[d] + 1;
    const bool fits = groups >= 1 && ws[1] * groups == in.channels && ws[0] % groups == 0 && ws[0] == out.channels &&
                      in.batch == out.batch && w.out[1] == out.height && w.out[2] == out.width && w.in[0] == 1;
    if (!fits || (bias >= 0 && value(bias).count != ws[0])) return std::nullopt;  // the plain kernel words the error
    constexpr int64_t kMost = 1 << 14;
    for (size_t d = 1; d < 3; ++d)
      if (w.extent(d) > kMost || w.stride[d] > kMost || w.before[d] > kMost) return std::nullopt;

    Operation o;
    o.in = {x};
    o.weights = weight;
    o.bias = bias;
    o.is_sum = ws[1] * w.taps() >= 2;
    o.conv.out_channels = out.channels;
    o.conv.groups = static_cast<int>(groups);
    o.conv.kernel_h = static_cast<int>(w.kernel[1]);
    o.conv.kernel_w = static_cast<int>(w.kernel[2]);
    o.conv.stride_h = static_cast<int>(w.stride[1]);
    o.conv.stride_w = static_cast<int>(w.stride[2]);
    o.conv.dilation_h = static_cast<int>(w.dilation[1]);
    o.conv.dilation_w = static_cast<int>(w.dilation[2]);
    o.conv.pad_top = static_cast<int>(w.before[1]);
    o.conv.pad_left = static_cast<int>(w.before[2]);
    // What the last window reaches beyond the input; padding that no window touches needs no halo.
    const auto halo = [&](size_t d) {
      const int64_t beyond = (w.out[d] - 1) * w.stride[d] + w.extent(d) - w.before[d] - w.in[d];
      return static_cast<int>(std::max(w.before[d], beyond));
    };
    o.halo_h = halo(1);
    o.halo_w = halo(2);
    if (vec::DepthwisePlan::supports(o.conv, in))
      o.kind = Operation::Kind::kDepthwise;
    else if (vec::ConvPlan::supports(o.conv, in))
      o.kind = Operation::Kind::kConv;
    else
      return std::nullopt;
    // The halo multiplies weights by zero: an infinite weight would make NaN of it.
    const float* p = graph_.floats(weight);
    for (int64_t i = 0; i < value(weight).count; ++i)
      if (!std::isfinite(p[i])) return std::nullopt;
    return o;
  }

  std::optional<Operation> pool(const Step& step) {
    const int32_t x = operand_of(step, "x");
    if (!is_blocked(x)) return std::nullopt;
    Step probe;
    probe.kind = step.kind;
    probe.name = step.name;
    probe.line = step.line;
    probe.arguments = step.arguments;
    Build build(graph_, probe);
    const Window w = read_window(build, build.ints("kernel_sizes"), nullptr);
    const ImageLayout in = *image(x), out = *image(step.results[0]);
    if (w.in[0] != 1 || in.batch != out.batch || in.channels != out.channels) return std::nullopt;
    Operation o;
    o.kind = Operation::Kind::kPool;
    o.in = {x};
    o.pool.average = step.kind == "avg_pool";
    o.pool.count_padding = !build.flag("exclude_padding_from_average", false);
    const int64_t extents[3] = {1, out.height, out.width};
    for (size_t d = 1; d < 3; ++d) {
      if (w.dilation[d] != 1 || w.kernel[d] > (1 << 14) || w.before[d] > (1 << 14)) return std::nullopt;
      // Every window must hold something, and the declared size must be one of the two that the modes give.
      const int64_t room = w.in[d] + w.before[d] + w.after[d] - w.kernel[d];
      const int64_t floor_size = room / w.stride[d] + 1, last = (extents[d] - 1) * w.stride[d] - w.before[d];
      if (room < 0 || (extents[d] != floor_size && extents[d] != floor_size + 1)) return std::nullopt;
      if (extents[d] != floor_size && !build.flag("ceil_mode", false)) return std::nullopt;
      if (w.before[d] >= w.kernel[d] || last >= w.in[d]) return std::nullopt;
    }
    if (build.flag("ceil_mode", false)) return std::nullopt;  // its rounding rule has cases: left to the plain kernel
    o.pool.kernel_h = static_cast<int>(w.kernel[1]);
    o.pool.kernel_w = static_cast<int>(w.kernel[2]);
    o.pool.stride_h = static_cast<int>(w.stride[1]);
    o.pool.stride_w = static_cast<int>(w.stride[2]);
    o.pool.pad_top = static_cast<int>(w.before[1]);
    o.pool.pad_left = static_cast<int>(w.before[2]);
    return o;
  }

  std::optional<Operation> mean(const Step& step) {
    const int32_t x = operand_of(step, "x");
    if (!is_blocked(x) || value(x).shape.size() != 4) return std::nullopt;
    std::optional<std::vector<int64_t>> axes = known_ints(graph_, step, "axes", {});
    const std::optional<bool> keep = known_flag(graph_, step, "keep_dims", false);
    if (!axes || axes->size() != 2 || !keep || !*keep) return std::nullopt;
    for (int64_t& a : *axes) a = a < 0 ? a + 4 : a;
    std::sort(axes->begin(), axes->end());
    if (*axes != std::vector<int64_t>{2, 3}) return std::nullopt;
    const ImageLayout in = *image(x), out = *image(step.results[0]);
    if (out.batch != in.batch || out.channels != in.channels || out.height != 1 || out.width != 1) return std::nullopt;
    Operation o;
    o.kind = Operation::Kind::kMean;
    o.in = {x};
    o.mean.narrow = graph_.settings.has(Quirk::kQ06);
    return o;
  }

  // The step that alone reads a value, or none.
  std::optional<size_t> only_consumer(int32_t id) {
    if (graph_.is_output(id) || consumers(id).size() != 1) return std::nullopt;
    const auto at = static_cast<size_t>(consumers(id)[0]);
    return graph_.steps[at].dead || graph_.steps[at].kernel ? std::nullopt : std::optional<size_t>(at);
  }

  // A spatial mean as the lowering writes it, because the engine's own reduction is narrow (Q06): reshape to [N C, H
  // W], matmul by a column of equal numbers, reshape to [N, C, 1, 1] or [N, C].
  std::optional<Operation> mean_by_product(size_t at) {
    const Step& flatten = graph_.steps[at];
    const int32_t x = operand_of(flatten, "x");
    if (!is_blocked(x) || flatten.results.size() != 1 || !ordinary(graph_, flatten.results[0])) return std::nullopt;
    const ImageLayout in = *image(x);
    const int64_t pixels = static_cast<int64_t>(in.height) * in.width;
    const Shape& flat = value(flatten.results[0]).shape;
    if (flat.size() < 2 || flat.back() != pixels || value(x).count != value(flatten.results[0]).count)
      return std::nullopt;
    const std::optional<size_t> second = only_consumer(flatten.results[0]);
    if (!second) return std::nullopt;
    const Step& product = graph_.steps[*second];
    const int32_t y = operand_of(product, "y");
    if (product.kind != "matmul" || operand_of(product, "x") != flatten.results[0] || y < 0 || !is_constant(y) ||
        !ordinary(graph_, y) || !ordinary(graph_, product.results[0]) || value(y).count != pixels)
      return std::nullopt;
    const std::optional<bool> tx = known_flag(graph_, product, "transpose_x", false);
    if (!tx || *tx || value(product.results[0]).count * pixels != value(x).count) return std::nullopt;
    const float* weights = graph_.floats(y);
    for (int64_t i = 1; i < pixels; ++i)
      if (weights[i] != weights[0]) return std::nullopt;
    const std::optional<size_t> third = only_consumer(product.results[0]);
    if (!third) return std::nullopt;
    const Step& last = graph_.steps[*third];
    if (last.kind != "reshape" || operand_of(last, "x") != product.results[0] || !ordinary(graph_, last.results[0]))
      return std::nullopt;
    const Shape& shape = value(last.results[0]).shape;
    const Shape two{in.batch, in.channels}, four{in.batch, in.channels, 1, 1};
    if (shape != two && shape != four) return std::nullopt;
    Operation o;
    o.kind = Operation::Kind::kMean;
    o.in = {x};
    o.out = last.results[0];
    o.step = *third;
    o.word = "spatial_mean";
    o.mean.op = vec::Reduce::kSum;
    o.mean.scale = weights[0];
    o.mean.saturate = numerics_.saturate_sums;
    for (size_t step : {at, *second}) graph_.steps[step].dead = true;
    operation_at_[*second] = static_cast<int>(operations_.size());
    return o;
  }

  std::optional<Operation> repeat(const Step& step) {
    const int32_t x = operand_of(step, "x");
    if (!is_blocked(x) || value(x).shape.size() != 4) return std::nullopt;
    const std::optional<std::vector<int64_t>> h = known_ints(graph_, step, "scale_factor_height", {1});
    const std::optional<std::vector<int64_t>> w = known_ints(graph_, step, "scale_factor_width", {1});
    if (!h || !w || h->size() != 1 || w->size() != 1) return std::nullopt;  // a factor that is no integer
    const ImageLayout in = *image(x), out = *image(step.results[0]);
    Operation o;
    o.kind = Operation::Kind::kRepeat;
    o.in = {x};
    if ((*h)[0] < 1 || (*w)[0] < 1 || in.height * (*h)[0] != out.height || in.width * (*w)[0] != out.width)
      return std::nullopt;
    o.repeat_h = static_cast<int>((*h)[0]);
    o.repeat_w = static_cast<int>((*w)[0]);
    return o;
  }

  std::optional<Operation> concat(const Step& step) {
    const Argument* values = step.find("values");
    const std::optional<std::vector<int64_t>> axis = known_ints(graph_, step, "axis", {});
    const std::optional<bool> interleave = known_flag(graph_, step, "interleave", false);
    if (!values || !axis || axis->size() != 1 || !interleave || *interleave) return std::nullopt;
    const Shape& shape = value(step.results[0]).shape;
    if (((*axis)[0] + static_cast<int64_t>(shape.size())) % static_cast<int64_t>(shape.size()) != 1)
      return std::nullopt;
    Operation o;
    o.kind = Operation::Kind::kConcat;
    int channels = 0;
    for (size_t i = 0; i < values->values.size(); ++i) {
      const int32_t v = values->values[i];
      if (!is_blocked(v)) return std::nullopt;
      const ImageLayout l = *image(v);
      if (i + 1 < values->values.size() && l.channels % vec::kLanes) return std::nullopt;
      channels += l.channels;
      o.in.push_back(v);
    }
    ImageLayout whole = *image(step.results[0]), first = *image(o.in[0]);
    first.channels = channels;
    if (!same_extent(whole, first)) return std::nullopt;
    return o;
  }

  std::optional<Operation> elementwise(const Step& step) {
    const std::optional<Elementary> e = elementary(graph_, step);
    if (!e) return std::nullopt;
    int32_t x = operand_of(step, "x"), y = e->binary        ? operand_of(step, "y")
                                           : e->per_channel ? operand_of(step, "alpha")
                                                            : -1;
    const int32_t out = step.results[0];
    Fused f;
    f.step.op = e->op;
    f.step.alpha = e->alpha;
    f.step.beta = e->beta;
    if (e->binary && (!is_blocked(x) || value(x).shape != value(out).shape)) {
      std::swap(x, y);
      f.step.op = *exchanged(e->op);
    }
    if (!is_blocked(x) || value(x).shape != value(out).shape) return std::nullopt;
    if (y >= 0 && !side_operand(x, y, e->per_channel, &f)) return std::nullopt;
    Operation o;
    o.in = {x};
    o.chain.push_back(std::move(f));
    return o;
  }

  // How y takes part in an operation on the blocked value x.
  bool side_operand(int32_t x, int32_t y, bool per_channel, Fused* f) {
    const Shape &xs = value(x).shape, &ys = value(y).shape;
    const int64_t channels = xs[1];
    if (is_constant(y)) {
      const float* p = graph_.floats(y);
      const int64_t n = value(y).count;
      const auto missing = static_cast<int64_t>(xs.size()) - static_cast<int64_t>(ys.size());
      const bool on_channels = per_channel || (missing <= 1 && ys[static_cast<size_t>(1 - missing)] == channels);
      if (missing < 0 && n != 1) return false;
      if (n == 1 && missing >= 0) {
        f->step.operand = EpilogueStep::Operand::kScalar;
      } else if (n == channels && on_channels) {
        f->step.operand = EpilogueStep::Operand::kChannel;
      } else {
        return false;
      }
      f->step.values.assign(p, p + n);
      return true;
    }
    if (per_channel || ys.size() != xs.size()) return false;
    f->operand = y;
    if (ys == xs) {
      f->step.operand = EpilogueStep::Operand::kTensor;
      return true;
    }
    Shape gate(xs.size(), 1);
    gate[0] = xs[0];
    gate[1] = channels;
    if (ys != gate || !is_blocked(y)) return false;
    f->step.operand = EpilogueStep::Operand::kGate;
    return true;
  }

  // ---- fuse

  static bool has_chain(const Operation& o) {
    return o.kind == Operation::Kind::kConv || o.kind == Operation::Kind::kDepthwise || o.kind == Operation::Kind::kMap;
  }
  static int run_time_operands(const Operation& o) {
    return static_cast<int>(
        std::count_if(o.chain.begin(), o.chain.end(), [](const Fused& f) { return f.operand >= 0; }));
  }

  // Takes over the elementwise operations that follow, as long as nobody else sees the value between.
  void fuse(Operation& o) {
    if (o.merged || !has_chain(o)) return;
    while (!graph_.is_output(o.out) && consumers(o.out).size() == 1) {
      const int next_index = operation_at_[static_cast<size_t>(consumers(o.out)[0])];
      if (next_index < 0) return;
      Operation& next = operations_[static_cast<size_t>(next_index)];
      if (next.kind != Operation::Kind::kMap || next.merged || &next == &o) return;
      if (run_time_operands(o) + run_time_operands(next) + 1 > kMaxOperands) return;
      std::vector<Fused> taken = next.chain;
      if (next.in[0] != o.out) {
        // o.out is the other operand: exchange them.
        Fused& f = taken[0];
        const std::optional<vec::Elementwise> op = exchanged(f.step.op);
        if (taken.size() != 1 || f.operand != o.out || f.step.operand != EpilogueStep::Operand::kTensor || !op) return;
        f.step.op = *op;
        f.operand = next.in[0];
      }
      for (const Fused& f : taken)
        if (f.operand == o.out) return;  // x + x
      for (Fused& f : taken) o.chain.push_back(std::move(f));
      o.word += "+" + next.word;
      next.merged = true;
      operation_at_[next.step] = static_cast<int>(&o - operations_.data());
      graph_.steps[o.step].dead = true;
      o.step = next.step;
      o.out = next.out;
    }
  }

  // ---- place

  struct Place {
    ImageLayout layout;
    int32_t id = -1;  // the value that holds the blocked form
  };

  // The blocked (or planar) form of a value as an operand.
  Place& place_of(int32_t id, bool planar) {
    const auto key = std::pair(id, planar);
    const auto found = places_.find(key);
    if (found != places_.end()) return found->second;
    Place p;
    p.layout = extent(id);
    p.layout.planar = planar;
    return places_.emplace(key, p).first->second;
  }
  bool takes_planar(const Operation& o) {
    return o.kind == Operation::Kind::kConv && o.conv.groups == 1 && !is_blocked(o.in[0]) &&
           value(o.in[0]).shape[1] <= kPlanarChannels;
  }

  void place() {
    for (const Operation& o : operations_) {
      if (o.merged) continue;
      place_of(o.out, false);
      for (size_t i = 0; i < o.in.size(); ++i) {
        ImageLayout& l = place_of(o.in[i], takes_planar(o)).layout;
        if (i == 0) {
          l.halo_h = std::max(l.halo_h, o.halo_h);
          l.halo_w = std::max(l.halo_w, o.halo_w);
        }
      }
      for (const Fused& f : o.chain)
        if (f.operand >= 0) place_of(f.operand, false);
    }
    for (auto& [key, p] : places_) {
      const int32_t id = key.first;
      // A value that plain steps or ports see keeps its plain memory; the blocked form is another value.
      const bool keeps_plain = !is_blocked(id) || needs_plain(id);
      p.id = id;
      if (keeps_plain) {
        p.id = graph_.add_value(value(id).name + (key.second ? ".planar" : ".blocked"), value(id).declared,
                                value(id).shape);
        if (is_blocked(id)) leaves_.push_back(id);
      }
      Value& v = value(p.id);
      v.layout = Layout::kBlocked;
      v.halo = std::max(p.layout.halo_h, p.layout.halo_w);
      v.bytes = p.layout.floats() * sizeof(float);
    }
  }

  bool needs_plain(int32_t id) {
    if (graph_.is_output(id)) return true;
    for (int32_t step : consumers(id))
      if (operation_at_[static_cast<size_t>(step)] < 0) return true;
    return false;
  }

  // ---- emit

  void emit() {
    std::vector<Step> steps;
    steps.reserve(graph_.steps.size() + 16);
    std::vector<const Operation*> at(graph_.steps.size(), nullptr);
    for (const Operation& o : operations_)
      if (!o.merged) at[o.step] = &o;
    for (size_t i = 0; i < graph_.steps.size(); ++i) {
      const Operation* o = at[i];
      if (!o) {
        steps.push_back(std::move(graph_.steps[i]));
        continue;
      }
      for (int32_t v : o->in) enter(v, takes_planar(*o), &steps);
      for (const Fused& f : o->chain)
        if (f.operand >= 0) enter(f.operand, false, &steps);
      Step step = std::move(graph_.steps[i]);
      step.dead = false;
      step.arguments.clear();
      step.kind = o->word;
      build(*o, &step);
      steps.push_back(std::move(step));
      if (std::find(leaves_.begin(), leaves_.end(), o->out) != leaves_.end()) leave(o->out, &steps);
    }
    graph_.steps = std::move(steps);
    for (size_t i = 0; i < graph_.steps.size(); ++i)
      if (!graph_.steps[i].dead)
        for (int32_t r : graph_.steps[i].results) value(r).producer = static_cast<int32_t>(i);
  }

  // The layout change in front of the first step that needs it.
  void enter(int32_t id, bool planar, std::vector<Step>* steps) {
    if (is_blocked(id)) return;
    Place& p = place_of(id, planar);
    if (!entered_.emplace(id, planar).second) return;
    Step step;
    step.kind = planar ? "to_planar" : "to_blocked";
    step.name = value(p.id).name;
    step.reads = {id};
    step.results = {p.id};
    const ImageLayout layout = p.layout;
    const int32_t to = p.id;
    step.kernel = kernel([=](const Frame& frame) {
      vec::to_image(frame.in(id), layout, frame.out(to), vec::Rounding::kNone, *frame.parallel);
    });
    steps->push_back(std::move(step));
  }

  void leave(int32_t id, std::vector<Step>* steps) {
    const Place& p = place_of(id, false);
    Step step;
    step.kind = "to_plain";
    step.name = value(id).name;
    step.reads = {p.id};
    step.results = {id};
    const ImageLayout layout = p.layout;
    const int32_t from = p.id;
    step.kernel =
        kernel([=](const Frame& frame) { vec::from_image(layout, frame.in(from), frame.out(id), *frame.parallel); });
    steps->push_back(std::move(step));
  }

  // The run-time operands of a chain, in slots.
  struct Operands {
    int32_t ids[kMaxOperands] = {};
    int count = 0;
    void resolve(const Frame& frame, const float** to) const {
      for (int i = 0; i < count; ++i) to[i] = frame.in(ids[i]);
    }
  };

  std::vector<EpilogueStep> chain_of(const Operation& o, Operands* operands, Step* step) {
    std::vector<EpilogueStep> chain;
    for (const Fused& f : o.chain) {
      EpilogueStep s = f.step;
      if (f.operand >= 0) {
        const Place& p = place_of(f.operand, false);
        s.slot = operands->count;
        s.steps = vec::Steps::of(p.layout);
        operands->ids[operands->count++] = p.id;
        step->reads.push_back(p.id);
      }
      chain.push_back(std::move(s));
    }
    return chain;
  }

  void build(const Operation& o, Step* step) {
    const Place& to = place_of(o.out, false);
    const Place& from = place_of(o.in[0], takes_planar(o));
    const ImageLayout in = from.layout, out = to.layout;
    const int32_t x = from.id, y = to.id;
    step->results = {y};
    for (int32_t v : o.in) step->reads.push_back(place_of(v, takes_planar(o)).id);
    Operands operands;
    std::vector<EpilogueStep> chain = chain_of(o, &operands, step);
    const vec::Rounding rounding = numerics_.rounding;
    switch (o.kind) {
      case Operation::Kind::kConv:
      case Operation::Kind::kDepthwise: {
        std::vector<float> bias;
        if (o.bias >= 0) bias.assign(graph_.floats(o.bias), graph_.floats(o.bias) + out.channels);
        vec::Epilogue epilogue(numerics_, out.channels, bias, std::move(chain), o.is_sum);
        const float* weights = graph_.floats(o.weights);
        if (o.kind == Operation::Kind::kConv)
          step->kernel = planned(std::make_shared<vec::ConvPlan>(o.conv, in, out, weights, std::move(epilogue)), x, y,
                                 out, operands);
        else
          step->kernel = planned(std::make_shared<vec::DepthwisePlan>(o.conv, in, out, weights, std::move(epilogue)), x,
                                 y, out, operands);
        return;
      }
      case Operation::Kind::kPool: {
        const vec::PoolParams params = o.pool;
        step->kernel = kernel([=](const Frame& frame) {
          vec::clear_halo(out, frame.out(y), *frame.parallel);
          vec::pool(params, in, frame.in(x), out, frame.out(y), rounding, *frame.parallel);
        });
        return;
      }
      case Operation::Kind::kMean: {
        const vec::PoolAllParams params = o.mean;
        step->kernel = kernel([=](const Frame& frame) {
          vec::clear_halo(out, frame.out(y), *frame.parallel);
          vec::pool_all(params, in, frame.in(x), out, frame.out(y), rounding, *frame.parallel);
        });
        return;
      }
      case Operation::Kind::kMap: {
        auto epilogue = std::make_shared<vec::Epilogue>(numerics_, out.channels, std::move(chain));
        step->kernel = kernel([=](const Frame& frame) {
          const float* side[kMaxOperands];
          operands.resolve(frame, side);
          vec::clear_halo(out, frame.out(y), *frame.parallel);
          vec::map_image(*epilogue, in, frame.in(x), out, frame.out(y), side, *frame.parallel);
        });
        return;
      }
      case Operation::Kind::kConcat: {
        std::vector<Place> parts;
        for (int32_t v : o.in) parts.push_back(place_of(v, false));
        step->kernel = kernel([=](const Frame& frame) {
          vec::clear_halo(out, frame.out(y), *frame.parallel);
          int block = 0;
          for (const Place& p : parts) {
            vec::copy_image(p.layout, frame.in(p.id), out, frame.out(y), block, *frame.parallel);
            block += p.layout.blocks();
          }
        });
        return;
      }
      case Operation::Kind::kRepeat: {
        const int h = o.repeat_h, w = o.repeat_w;
        step->kernel = kernel([=](const Frame& frame) {
          vec::clear_halo(out, frame.out(y), *frame.parallel);
          vec::repeat_image(h, w, in, frame.in(x), out, frame.out(y), *frame.parallel);
        });
        return;
      }
    }
  }

  template <class Plan>
  static std::unique_ptr<Kernel> planned(std::shared_ptr<Plan> plan, int32_t x, int32_t y, const ImageLayout& out,
                                         const Operands& operands) {
    return kernel([=](const Frame& frame) {
      const float* side[kMaxOperands];
      operands.resolve(frame, side);
      vec::clear_halo(out, frame.out(y), *frame.parallel);
      plan->run(frame.in(x), frame.out(y), side, *frame.parallel);
    });
  }

  Graph& graph_;
  const vec::Numerics numerics_;
  const std::vector<std::vector<int32_t>> consumers_;
  std::vector<bool> blocked_;      // by value: the result of an operation here
  std::vector<int> operation_at_;  // by step
  std::vector<Operation> operations_;
  std::map<std::pair<int32_t, bool>, Place> places_;  // by value and whether planar
  std::vector<int32_t> leaves_;
  std::set<std::pair<int32_t, bool>> entered_;
};

}  // namespace

void use_blocked_layout(Graph& graph) { Planner(graph).run(); }

}  // namespace aneforge::host
