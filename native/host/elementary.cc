#include "host/elementary.h"

#include <cmath>
#include <string>
#include <unordered_map>

#include "core/fp16.h"

namespace aneforge::host {

using vec::Elementwise;

int32_t operand_of(const Step& step, const char* name) {
  const Argument* a = step.find(name);
  return a && a->values.size() == 1 ? a->values[0] : -1;
}

namespace {

const Value& value_at(const Graph& graph, int32_t id) { return graph.values[static_cast<size_t>(id)]; }

bool is_known(const Graph& graph, int32_t id) { return id >= 0 && value_at(graph, graph.root(id)).constant(); }

}  // namespace

std::optional<std::vector<int64_t>> known_ints(Graph& graph, const Step& step, const char* name,
                                               std::vector<int64_t> absent) {
  if (!step.find(name)) return absent;
  const int32_t id = operand_of(step, name);
  if (!is_known(graph, id) || value_at(graph, id).storage != Storage::kInt) return std::nullopt;
  const int32_t* p = graph.ints(id);
  return std::vector<int64_t>(p, p + value_at(graph, id).count);
}

std::optional<float> known_number(Graph& graph, const Step& step, const char* name, float absent) {
  if (!step.find(name)) return absent;
  const int32_t id = operand_of(step, name);
  if (!is_known(graph, id) || value_at(graph, id).storage != Storage::kFloat || value_at(graph, id).count != 1)
    return std::nullopt;
  return *graph.floats(id);
}

std::optional<bool> known_flag(Graph& graph, const Step& step, const char* name, bool absent) {
  if (!step.find(name)) return absent;
  const int32_t id = operand_of(step, name);
  if (!is_known(graph, id) || value_at(graph, id).storage != Storage::kBool || value_at(graph, id).count != 1)
    return std::nullopt;
  return *static_cast<const uint8_t*>(graph.known(id)) != 0;
}

vec::Numerics numerics_of(const Graph& graph) {
  vec::Numerics n;
  if (graph.settings.rounds())
    n.rounding = graph.settings.has(Quirk::kQ12) ? vec::Rounding::kHalfNoNan : vec::Rounding::kHalf;
  n.saturate_sums = graph.settings.has(Quirk::kQ04);
  return n;
}

bool ordinary(const Graph& graph, int32_t id) {
  if (id < 0) return false;
  const Value& v = value_at(graph, id);
  return v.storage == Storage::kFloat && v.declared != mil::Element::kString && v.half == graph.settings.rounds();
}

std::optional<Elementwise> exchanged(Elementwise op) {
  switch (op) {
    case Elementwise::kAdd:
    case Elementwise::kMul:
    case Elementwise::kMaximum:
    case Elementwise::kMinimum:
      return op;
    case Elementwise::kSub:
      return Elementwise::kReverseSub;
    case Elementwise::kReverseSub:
      return Elementwise::kSub;
    case Elementwise::kDiv:
      return Elementwise::kReverseDiv;
    case Elementwise::kReverseDiv:
      return Elementwise::kDiv;
    default:
      return std::nullopt;
  }
}

namespace {

struct Form {
  Elementwise op;
  const char* alpha = nullptr;  // argument names
  const char* beta = nullptr;
};

const std::unordered_map<std::string, Form>& unary_forms() {
  static const std::unordered_map<std::string, Form> forms = {
      {"relu", {Elementwise::kRelu}},
      {"clip", {Elementwise::kClamp, "alpha", "beta"}},
      {"leaky_relu", {Elementwise::kLeakyRelu, "alpha"}},
      {"clamped_relu", {Elementwise::kClampedRelu, "alpha", "beta"}},
      {"elu", {Elementwise::kElu, "alpha"}},
      {"thresholded_relu", {Elementwise::kThresholdedRelu, "alpha"}},
      {"linear_activation", {Elementwise::kAffine, "alpha", "beta"}},
      {"sigmoid", {Elementwise::kSigmoid}},
      {"sigmoid_hard", {Elementwise::kHardSigmoid, "alpha", "beta"}},
      {"tanh", {Elementwise::kTanh}},
      {"scaled_tanh", {Elementwise::kScaledTanh, "alpha", "beta"}},
      {"softsign", {Elementwise::kSoftsign}},
      {"softplus", {Elementwise::kSoftplus}},
      {"erf", {Elementwise::kErf}},
      {"exp", {Elementwise::kExp}},
      {"sqrt", {Elementwise::kSqrt}},
      {"square", {Elementwise::kSquare}},
      {"abs", {Elementwise::kAbs}},
      {"floor", {Elementwise::kFloor}},
      {"ceil", {Elementwise::kCeil}},
  };
  return forms;
}

const std::unordered_map<std::string, Elementwise>& binary_forms() {
  static const std::unordered_map<std::string, Elementwise> forms = {
      {"add", Elementwise::kAdd},      {"sub", Elementwise::kSub},         {"mul", Elementwise::kMul},
      {"real_div", Elementwise::kDiv}, {"maximum", Elementwise::kMaximum}, {"minimum", Elementwise::kMinimum},
  };
  return forms;
}

// The plain kernels' rule: the engine loses a factor of one number behind a rounding (Q15).
bool loses_factor(const Graph& graph, const Step& step) {
  if (!graph.settings.has(Quirk::kQ15) || step.kind != "mul") return false;
  for (const char* name : {"x", "y"}) {
    const int32_t id = operand_of(step, name);
    const int32_t producer = id < 0 ? -1 : value_at(graph, id).producer;
    if (producer < 0) continue;
    const std::string& kind = graph.steps[static_cast<size_t>(producer)].kind;
    if (kind == "floor" || kind == "ceil" || kind == "round") return true;
  }
  return false;
}

}  // namespace

std::optional<Elementary> elementary(Graph& graph, const Step& step) {
  if (step.results.size() != 1 || !ordinary(graph, step.results[0]) || !ordinary(graph, operand_of(step, "x")))
    return std::nullopt;
  const Settings& settings = graph.settings;
  if (const auto binary = binary_forms().find(step.kind); binary != binary_forms().end()) {
    if (!ordinary(graph, operand_of(step, "y")) || loses_factor(graph, step)) return std::nullopt;
    Elementary e{binary->second};
    e.binary = true;
    return e;
  }
  const bool half = settings.rounds();
  const auto with = [](Elementwise op, float alpha, float beta) {
    Elementary e{op};
    e.alpha = alpha;
    e.beta = beta;
    return e;
  };
  if (step.kind == "relu6") return with(Elementwise::kClamp, 0, 6);
  if (step.kind == "silu") return with(Elementwise::kSilu, 1, 0);
  if (step.kind == "prelu") {
    Elementary e{Elementwise::kPrelu};
    e.per_channel = true;
    return ordinary(graph, operand_of(step, "alpha")) ? std::optional<Elementary>(e) : std::nullopt;
  }
  if (step.kind == "threshold") {
    const std::optional<float> alpha = known_number(graph, step, "alpha", 0);
    if (!alpha) return std::nullopt;
    return with(Elementwise::kClamp, half ? round_to_half(*alpha) : *alpha, HUGE_VALF);
  }
  if (step.kind == "gelu") {
    const int32_t mode = operand_of(step, "mode");
    const std::string word = mode < 0 ? "EXACT" : graph.text(mode);
    if (word == "EXACT") return with(Elementwise::kGelu, 0, 0);
    if (word == "TANH_APPROXIMATION") return with(Elementwise::kGeluTanh, 0, 0);
    if (word == "SIGMOID_APPROXIMATION") return with(Elementwise::kSilu, 1.702f, 0);
    return std::nullopt;
  }
  if (step.kind == "rsqrt" || step.kind == "inverse" || step.kind == "log") {
    // The defaults are those of the plain kernels.
    const bool fp16 = value_at(graph, operand_of(step, "x")).declared == mil::Element::kFp16;
    const float absent = step.kind == "inverse" ? 1e-4f : fp16 ? 0.0f : step.kind == "log" ? 1e-45f : 1e-12f;
    const std::optional<float> epsilon = known_number(graph, step, "epsilon", absent);
    if (!epsilon || (step.kind == "log" && settings.has(Quirk::kQ21))) return std::nullopt;
    return with(step.kind == "rsqrt" ? Elementwise::kRsqrt
                : step.kind == "log" ? Elementwise::kLog
                                     : Elementwise::kInverse,
                *epsilon, 0);
  }
  const auto found = unary_forms().find(step.kind);
  if (found == unary_forms().end()) return std::nullopt;
  const Form& form = found->second;
  if (form.op == Elementwise::kSoftplus && (settings.has(Quirk::kQ14) || settings.has(Quirk::kQ26)))
    return std::nullopt;
  if (form.op == Elementwise::kSoftsign && settings.has(Quirk::kQ26)) return std::nullopt;
  std::optional<float> alpha = 0.0f, beta = 0.0f;
  if (form.alpha) alpha = step.find(form.alpha) ? known_number(graph, step, form.alpha, 0) : std::nullopt;
  if (form.beta) beta = step.find(form.beta) ? known_number(graph, step, form.beta, 0) : std::nullopt;
  if (!alpha || !beta) return std::nullopt;
  if (form.op == Elementwise::kClamp && half) return with(form.op, round_to_half(*alpha), round_to_half(*beta));
  return with(form.op, *alpha, *beta);
}

}  // namespace aneforge::host
