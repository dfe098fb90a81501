#include "host/blocked.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "host/blocked_operation.h"
#include "host/blocked_recognize.h"
#include "host/chain.h"
#include "host/elementary.h"
#include "host/vector/conv_transpose.h"
#include "host/vector/depthwise.h"
#include "host/vector/grouped.h"
#include "host/vector/map.h"
#include "host/vector/winograd.h"

namespace aneforge::host {
namespace {

using vec::EpilogueStep;
using vec::ImageLayout;

class Planner {
 public:
  explicit Planner(Graph& graph)
      : graph_(graph), numerics_(numerics_of(graph)), consumers_(graph.consumers()), recognizer_(graph, consumers_) {}

  void run() {
    operation_at_.assign(graph_.steps.size(), -1);
    for (size_t i = 0; i < graph_.steps.size(); ++i) {
      if (graph_.steps[i].dead || graph_.steps[i].kernel) continue;
      std::optional<ImageOperation> o = recognizer_.recognize(i);
      if (!o) continue;
      operation_at_[o->step] = static_cast<int>(operations_.size());
      for (size_t covered : o->covers) {
        operation_at_[covered] = static_cast<int>(operations_.size());
        graph_.steps[covered].dead = true;
      }
      operations_.push_back(std::move(*o));
    }
    if (operations_.empty()) return;
    for (ImageOperation& o : operations_) fuse(o);
    place();
    emit();
  }

 private:
  Value& value(int32_t id) { return graph_.values[static_cast<size_t>(id)]; }
  bool is_blocked(int32_t id) const { return recognizer_.is_blocked(id); }
  // Of a value that some operation here makes or takes; [N, C] is what a spatial mean may leave.
  ImageLayout extent(int32_t id) {
    Shape shape = value(id).shape;
    if (shape.size() == 2) shape.insert(shape.end(), 2, 1);
    return *image_of(shape);
  }
  const std::vector<int32_t>& consumers(int32_t id) const { return consumers_[static_cast<size_t>(id)]; }

  // ---- fuse

  static bool has_chain(const ImageOperation& o) {
    return o.kind == ImageOperation::Kind::kConv || o.kind == ImageOperation::Kind::kDepthwise ||
           o.kind == ImageOperation::Kind::kGroupedConv || o.kind == ImageOperation::Kind::kConvTranspose ||
           o.kind == ImageOperation::Kind::kMap;
  }
  static int run_time_operands(const ImageOperation& o) {
    return static_cast<int>(
        std::count_if(o.chain.begin(), o.chain.end(), [](const Fused& f) { return f.operand >= 0; }));
  }

  // Takes over the elementwise operations that follow, as long as nobody else sees the value between.
  void fuse(ImageOperation& o) {
    if (o.merged || !has_chain(o)) return;
    if (o.plain_out) return fuse_plain(o);
    while (!graph_.is_output(o.out)) {
      if (fuse_gate(o)) continue;
      if (consumers(o.out).size() != 1) return;
      const int next_index = operation_at_[static_cast<size_t>(consumers(o.out)[0])];
      if (next_index < 0) return;
      ImageOperation& next = operations_[static_cast<size_t>(next_index)];
      if (next.kind != ImageOperation::Kind::kMap || next.merged || &next == &o) return;
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

  // x * sigmoid(x) written as two operations: the value is seen by both of them and by nobody else.
  bool fuse_gate(ImageOperation& o) {
    using vec::Elementwise;
    if (consumers(o.out).size() != 2) return false;
    const int first = operation_at_[static_cast<size_t>(consumers(o.out)[0])];
    const int second = operation_at_[static_cast<size_t>(consumers(o.out)[1])];
    if (first < 0 || second < 0 || first == second) return false;
    ImageOperation &gate = operations_[static_cast<size_t>(first)], &product = operations_[static_cast<size_t>(second)];
    const auto alone = [&](const ImageOperation& map) {
      return map.kind == ImageOperation::Kind::kMap && !map.merged && map.chain.size() == 1 && &map != &o;
    };
    if (!alone(gate) || !alone(product) || graph_.is_output(gate.out) || consumers(gate.out).size() != 1) return false;
    Fused f = gate.chain[0];
    const Fused& m = product.chain[0];
    if (f.operand >= 0 || gate.in[0] != o.out || m.step.op != Elementwise::kMul) return false;
    if (!(product.in[0] == o.out && m.operand == gate.out) && !(product.in[0] == gate.out && m.operand == o.out))
      return false;
    if (f.step.op == Elementwise::kSigmoid)
      f.step.op = Elementwise::kGateSigmoid;
    else if (f.step.op == Elementwise::kHardSigmoid)
      f.step.op = Elementwise::kGateHardSigmoid;
    else
      return false;
    o.chain.push_back(std::move(f));
    o.word += "+" + gate.word + "+" + product.word;
    for (ImageOperation* taken : {&gate, &product}) {
      taken->merged = true;
      operation_at_[taken->step] = static_cast<int>(&o - operations_.data());
    }
    graph_.steps[o.step].dead = graph_.steps[gate.step].dead = true;
    o.step = product.step;
    o.out = product.out;
    return true;
  }

  // The same behind a result that is plain: operations whose other operand is known.
  void fuse_plain(ImageOperation& o) {
    while (!graph_.is_output(o.out) && consumers(o.out).size() == 1) {
      const auto next = static_cast<size_t>(consumers(o.out)[0]);
      const Step& step = graph_.steps[next];
      if (step.dead || step.kernel || operation_at_[next] >= 0) return;
      std::optional<Fused> f = recognizer_.follower(step, o.out);
      if (!f) return;
      o.chain.push_back(std::move(*f));
      o.word += "+" + step.kind;
      operation_at_[next] = static_cast<int>(&o - operations_.data());
      graph_.steps[o.step].dead = true;
      o.step = next;
      o.out = step.results[0];
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
  // Where an operation leaves its result.
  Place target(const ImageOperation& o) {
    if (!o.plain_out) return place_of(o.out, false);
    Place p{extent(o.out), o.out};
    p.layout.planar = true;  // without a halo: the plain form
    return p;
  }
  bool takes_planar(const ImageOperation& o) {
    return o.kind == ImageOperation::Kind::kConv && o.conv.groups == 1 && !is_blocked(o.in[0]) &&
           value(o.in[0]).shape[1] <= kPlanarChannels;
  }

  void place() {
    for (const ImageOperation& o : operations_) {
      if (o.merged) continue;
      if (!o.plain_out) place_of(o.out, false);
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
    std::vector<const ImageOperation*> at(graph_.steps.size(), nullptr);
    for (const ImageOperation& o : operations_)
      if (!o.merged) at[o.step] = &o;
    for (size_t i = 0; i < graph_.steps.size(); ++i) {
      const ImageOperation* o = at[i];
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

  std::vector<EpilogueStep> chain_of(const ImageOperation& o, Operands* operands, Step* step) {
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

  void build(const ImageOperation& o, Step* step) {
    const Place to = target(o);
    const Place& from = place_of(o.in[0], takes_planar(o));
    const ImageLayout in = from.layout, out = to.layout;
    const int32_t x = from.id, y = to.id;
    step->results = {y};
    for (int32_t v : o.in) step->reads.push_back(place_of(v, takes_planar(o)).id);
    Operands operands;
    std::vector<EpilogueStep> chain = chain_of(o, &operands, step);
    const vec::Rounding rounding = numerics_.rounding;
    switch (o.kind) {
      case ImageOperation::Kind::kConv:
      case ImageOperation::Kind::kDepthwise:
      case ImageOperation::Kind::kGroupedConv:
      case ImageOperation::Kind::kConvTranspose: {
        std::vector<float> bias;
        if (o.bias >= 0) bias.assign(graph_.floats(o.bias), graph_.floats(o.bias) + out.channels);
        vec::Epilogue epilogue(numerics_, out.channels, bias, std::move(chain), o.is_sum);
        const float* weights = graph_.floats(o.weights);
        if (const int tile = winograd_tile(o, in, out)) {
          winograd(o, tile, epilogue, from, to, operands, step);
        } else if (o.kind == ImageOperation::Kind::kConv) {
          step->kernel = planned(std::make_shared<vec::ConvPlan>(o.conv, in, out, weights, std::move(epilogue)), x, y,
                                 out, operands);
        } else if (o.kind == ImageOperation::Kind::kDepthwise) {
          step->kernel = planned(std::make_shared<vec::DepthwisePlan>(o.conv, in, out, weights, std::move(epilogue)), x,
                                 y, out, operands);
        } else if (o.kind == ImageOperation::Kind::kGroupedConv) {
          step->kernel = planned(std::make_shared<vec::GroupedConvPlan>(o.conv, in, out, weights, std::move(epilogue)),
                                 x, y, out, operands);
        } else {
          step->kernel = planned(std::make_shared<vec::ConvTransposePlan>(o.conv, in, out, weights, epilogue), x, y,
                                 out, operands);
        }
        return;
      }
      case ImageOperation::Kind::kPool: {
        const vec::PoolParams params = o.pool;
        step->kernel = kernel([=](const Frame& frame) {
          vec::clear_halo(out, frame.out(y), *frame.parallel);
          vec::pool(params, in, frame.in(x), out, frame.out(y), rounding, *frame.parallel);
        });
        return;
      }
      case ImageOperation::Kind::kMean: {
        const vec::PoolAllParams params = o.mean;
        step->kernel = kernel([=](const Frame& frame) {
          vec::clear_halo(out, frame.out(y), *frame.parallel);
          vec::pool_all(params, in, frame.in(x), out, frame.out(y), rounding, *frame.parallel);
        });
        return;
      }
      case ImageOperation::Kind::kMap: {
        if (chain.empty()) chain.emplace_back();  // a copy
        auto epilogue = std::make_shared<vec::Epilogue>(numerics_, out.channels, std::move(chain));
        step->kernel = kernel([=](const Frame& frame) {
          const float* side[kMaxOperands];
          operands.resolve(frame, side);
          vec::clear_halo(out, frame.out(y), *frame.parallel);
          vec::map_image(*epilogue, in, frame.in(x), out, frame.out(y), side, *frame.parallel);
        });
        return;
      }
      case ImageOperation::Kind::kConcat: {
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
      case ImageOperation::Kind::kPad: {
        const int top = o.pad_top, left = o.pad_left;
        const float fill = o.pad_value;
        step->kernel = kernel([=](const Frame& frame) {
          vec::clear_halo(out, frame.out(y), *frame.parallel);
          vec::pad_image(top, left, fill, in, frame.in(x), out, frame.out(y), *frame.parallel);
        });
        return;
      }
      case ImageOperation::Kind::kRepeat: {
        const int h = o.repeat_h, w = o.repeat_w;
        step->kernel = kernel([=](const Frame& frame) {
          vec::clear_halo(out, frame.out(y), *frame.parallel);
          vec::repeat_image(h, w, in, frame.in(x), out, frame.out(y), *frame.parallel);
        });
        return;
      }
    }
  }

  void winograd(const ImageOperation& o, int tile, const vec::Epilogue& epilogue, const Place& from, const Place& to,
                const Operands& operands, Step* step) {
    const auto plan = std::make_shared<vec::WinogradPlan>(o.conv, from.layout, to.layout, graph_.floats(o.weights),
                                                          epilogue, tile, graph_.settings.rounds());
    step->kind += tile == 2 ? " by F(2x2)" : " by F(4x4)";
    step->scratch = plan->scratch_floats() * sizeof(float);
    const ImageLayout out = to.layout;
    const int32_t x = from.id, y = to.id;
    step->kernel = kernel([=](const Frame& frame) {
      const float* side[kMaxOperands];
      operands.resolve(frame, side);
      vec::clear_halo(out, frame.out(y), *frame.parallel);
      plan->run(frame.in(x), frame.out(y), side, reinterpret_cast<float*>(frame.scratch), *frame.parallel);
    });
  }

  // 2 or 4, or 0: directly.
  int winograd_tile(const ImageOperation& o, const ImageLayout& in, const ImageLayout& out) const {
    const Convolution how = graph_.settings.convolution;
    if (o.kind != ImageOperation::Kind::kConv || o.plain_out || how == Convolution::kDirect ||
        !vec::WinogradPlan::supports(o.conv, in))
      return 0;
    if (how == Convolution::kAuto && !graph_.settings.rounds()) return 0;
    return vec::WinogradPlan::best_tile(o.conv, in, out, how == Convolution::kWinograd);
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
  ImageRecognizer recognizer_;
  std::vector<int> operation_at_;  // by step; -1: a plain step
  std::vector<ImageOperation> operations_;
  std::map<std::pair<int32_t, bool>, Place> places_;  // by value and whether planar
  std::vector<int32_t> leaves_;
  std::set<std::pair<int32_t, bool>> entered_;
};

}  // namespace

void use_blocked_layout(Graph& graph) { Planner(graph).run(); }

}  // namespace aneforge::host
