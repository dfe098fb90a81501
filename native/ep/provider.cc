#include "ep/provider.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "ep/compute.h"
#include "ep/graph_to_onnx.h"
#include "ep/registry.h"

namespace aneforge::ep {
namespace {

constexpr const char kOptionPrefix[] = "ep.aneforgeprovider.";  // ONNX Runtime lower-cases the provider's name
constexpr const char kTokenKey[] = "aneforge.token";

Provider& self(OrtEp* ep) { return *static_cast<Provider*>(ep); }

// Bodies of any other operator may be inlined after the claim, which would make the model invalid.
bool is_known_control_flow(const std::string& op) { return op == "If" || op == "Loop" || op == "Scan"; }

// Operators that ONNX Runtime never replaces by the body of an ONNX function: claiming one of them only to reach
// Compile changes nothing else in the graph.
bool is_primitive(const std::string& op) {
  static constexpr const char* kNames[] = {"Add",     "Cast",   "Concat",  "Conv", "Div",       "Gather",
                                           "Gemm",    "MatMul", "MaxPool", "Mul",  "Relu",      "Reshape",
                                           "Sigmoid", "Slice",  "Softmax", "Sub",  "Transpose", "Unsqueeze"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const char* name) { return op == name; });
}

std::string joined(const std::vector<Region>& regions) {
  std::string out;
  for (const Region& r : regions) out += (out.empty() ? "'" : ", '") + r.name + "'";
  return out;
}

std::vector<std::string> copied(const char* const* names, size_t count) {
  std::vector<std::string> out;
  for (size_t i = 0; i < count; ++i) out.emplace_back(names && names[i] ? names[i] : "");
  return out;
}

// A whole number from 1 up, or 0 if it is none.
size_t count_of(const char* text) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  return end != text && *end == '\0' && value > 0 ? static_cast<size_t>(value) : 0;
}

}  // namespace

Provider::Provider(std::shared_ptr<const Api> api, const OrtSessionOptions* options, const OrtLogger* logger)
    : OrtEp{}, api_(std::move(api)), logger_(*api_, logger) {
  ort_version_supported = api_->version;
  GetName = [](const OrtEp*) -> const char* { return kProviderName; };
  GetCapability = [](OrtEp* ep, const OrtGraph* graph, OrtEpGraphSupportInfo* info) -> OrtStatus* {
    return guarded_ort(*self(ep).api_, [&] { self(ep).capability(graph, info); });
  };
  Compile = [](OrtEp* ep, const OrtGraph**, const OrtNode** fused, size_t count, OrtNodeComputeInfo** infos,
               OrtNode**) -> OrtStatus* {
    std::fill(infos, infos + count, nullptr);
    OrtStatus* status = guarded_ort(*self(ep).api_, [&] { self(ep).compile(fused, count, infos); });
    if (status) {
      ep->ReleaseNodeComputeInfos(ep, infos, count);
      std::fill(infos, infos + count, nullptr);
    }
    return status;
  };
  ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** infos, size_t count) {
    for (size_t i = 0; i < count; ++i) std::unique_ptr<Kernel>(static_cast<Kernel*>(infos[i])).reset();
  };
  SetDynamicOptions = [](OrtEp* ep, const char* const* keys, const char* const* values, size_t count) -> OrtStatus* {
    return guarded_ort(*self(ep).api_, [&] {
      for (size_t i = 0; i < count; ++i) {
        // Keys of others (ep.dynamic.*) reach every provider of the session.
        if (std::strcmp(keys[i], kTokenKey) == 0) {
          bind_token(self(ep).number_, values[i]);
        } else if (std::strncmp(keys[i], "aneforge.", 9) == 0) {
          throw Error(Code::kInvalidArgument,
                      std::string("unknown dynamic option '") + keys[i] + "'; there is: " + kTokenKey);
        }
      }
    });
  };
  IsConcurrentRunSupported = [](OrtEp*, bool* is_supported) -> OrtStatus* {
    *is_supported = true;
    return nullptr;
  };
  read_options(options);
  number_ = add_ep();
}

Provider::~Provider() { remove_ep(number_); }

void Provider::read_options(const OrtSessionOptions* options) {
  OrtKeyValuePairs* entries = nullptr;
  api_->check(api_->GetSessionOptionsConfigEntries(options, &entries));
  const std::unique_ptr<OrtKeyValuePairs, void (*)(OrtKeyValuePairs*)> owner(entries, api_->ReleaseKeyValuePairs);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  api_->GetKeyValuePairs(entries, &keys, &values, &count);
  size_t threads = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t prefix = sizeof kOptionPrefix - 1;
    if (std::strncmp(keys[i], kOptionPrefix, prefix) == 0) {
      options_.emplace_back(keys[i] + prefix, values[i]);
    } else if (std::strcmp(keys[i], "session.intra_op_num_threads") == 0) {
      threads = count_of(values[i]);
    } else if (std::strcmp(keys[i], "ep.context_enable") == 0) {
      wants_ep_context_ = std::strcmp(values[i], "1") == 0;
    }
  }
  width_ = threads ? threads : std::max(1u, std::thread::hardware_concurrency());
}

bool Provider::is_strict() const {
  for (const auto& option : options_) {
    if (option.first == "strict") return !option.second.empty() && option.second != "0" && option.second != "false";
  }
  return false;
}

void Provider::warn_once(const std::string& text) {
  if (!text.empty() && warned_.insert(text).second) logger_.log(kWarning, text);
}

// Capability ----------------------------------------------------------------------------------------------------------

bool Provider::may_claim_in(const GraphReader& read, const OrtNode* parent) const {
  while (parent) {
    if (!is_known_control_flow(read.op(parent)) || !read.domain(parent).empty()) return false;
    const OrtGraph* around = read.graph(parent);
    parent = around ? read.parent(around) : nullptr;
  }
  return true;
}

void Provider::capability(const OrtGraph* graph, OrtEpGraphSupportInfo* info) {
  // What the last call left is freed when this one is done: the hook may offer the same programs again (ONNX Runtime
  // looks at some graphs twice), and need not compile them anew.
  const std::vector<Region> leftovers = std::move(pending_);
  pending_.clear();
  error_.clear();

  const GraphReader read(*api_);
  const std::vector<const OrtNode*> nodes = read.nodes(graph);
  const bool any_free =
      std::any_of(nodes.begin(), nodes.end(), [&](const OrtNode* n) { return read.provider(n).empty(); });
  const OrtNode* parent = read.parent(graph);
  if (!any_free) return;
  if (!may_claim_in(read, parent)) {
    // Known limit: ONNX Runtime shows the innermost body first, and of the graphs around it the parent node only.
    const bool nested = std::any_of(nodes.begin(), nodes.end(), [&](const OrtNode* n) { return read.n_bodies(n) > 0; });
    if (nested && claimed_in_body_) {
      logger_.log(kError, "ANEForgeProvider has claimed nodes in a body inside a body of " + read.op(parent) +
                              ", which onnxruntime may now replace; if it reports an invalid graph, make this session "
                              "without ANEForgeProvider");
    }
    return;
  }

  const std::shared_ptr<const AfHooks> hooks = current_hooks();
  if (!hooks) {
    warn_once(
        "ANEForgeProvider claims no node: nothing in this process compiles for it. In Python, "
        "import aneforge.provider before the session is made.");
    return;
  }
  Answer answer = consult(*hooks, read, graph, nodes.size(), parent ? read.op(parent) : "");
  warn_once(answer.warning);
  claim(answer, read, nodes, info);
  claimed_in_body_ = claimed_in_body_ || (parent && !answer.regions.empty());
  error_ = answer.error;
  on_overflow_ = answer.on_overflow;
  pending_ = std::move(answer.regions);
}

// Never throws for what may be wrong with a graph or a hook: an error in the answer is raised by Compile.
Provider::Answer Provider::consult(const AfHooks& hooks, const GraphReader& read, const OrtGraph* graph, size_t n_nodes,
                                   const std::string& parent_op) const {
  Answer failed;
  std::string model, path;
  try {
    model = graph_to_onnx(*api_, graph);
    path = read.model_path(graph);
  } catch (const std::exception& e) {
    // The model may well run on the CPU: only those who asked for all or nothing are stopped.
    const std::string text = std::string("ANEForgeProvider cannot read this graph: ") + e.what();
    if (is_strict()) {
      failed.error = text;
    } else {
      logger_.log(kError, text + "; its nodes stay on the CPU");
    }
    return failed;
  }
  try {
    Answer answer = ask(hooks, model, path, parent_op);
    examine(answer, n_nodes);
    return answer;
  } catch (const std::exception& e) {
    failed.error = e.what();
    return failed;
  }
}

Provider::Answer Provider::ask(const AfHooks& hooks, const std::string& model, const std::string& path,
                               const std::string& parent_op) const {
  std::vector<const char*> keys, values;
  for (const auto& option : options_) {
    keys.push_back(option.first.c_str());
    values.push_back(option.second.c_str());
  }
  AfGraph request{};
  request.ep = number_;
  request.parent_op = parent_op.c_str();
  request.model_path = path.c_str();
  request.model = model.data();
  request.model_size = model.size();
  request.option_keys = keys.data();
  request.option_values = values.data();
  request.n_options = keys.size();

  // No lock is held here: the hook takes the interpreter's, and whoever holds that may be waiting for one of ours.
  Answer answer;
  throw_status(hooks.capability(hooks.user, &request, accept, &answer));
  return answer;
}

void Provider::accept(void* context, const AfCapability* given) noexcept {
  Answer& answer = *static_cast<Answer*>(context);
  try {
    Answer copy;
    for (size_t i = 0; i < given->n_regions; ++i) {
      const AfRegion& r = given->regions[i];
      Region region;
      region.name = r.name ? r.name : "";
      region.nodes.assign(r.nodes, r.nodes + r.n_nodes);
      region.executable = hold(r.executable);
      region.inputs = copied(r.input_names, r.n_inputs);
      region.outputs = copied(r.output_names, r.n_outputs);
      copy.regions.push_back(std::move(region));
    }
    if (given->compile_error) copy.error = *given->compile_error ? given->compile_error : "unknown error";
    if (given->warning) copy.warning = given->warning;
    const std::string word = given->on_overflow ? given->on_overflow : "warn";
    copy.on_overflow = word == "error"    ? OnOverflow::kError
                       : word == "ignore" ? OnOverflow::kIgnore
                                          : OnOverflow::kWarn;
    answer = std::move(copy);
  } catch (...) {
    answer.error = "out of memory";
  }
}

// A hook's mistake must not become a wrong graph.
void Provider::examine(const Answer& answer, size_t n_nodes) {
  std::vector<bool> taken(n_nodes, false);
  for (const Region& r : answer.regions) {
    const std::string where = "the capability hook offered region '" + r.name + "' ";
    if (r.nodes.empty()) throw Error(Code::kFailed, where + "without nodes");
    if (r.outputs.empty() && answer.error.empty()) throw Error(Code::kFailed, where + "without outputs");
    if (!r.executable && answer.error.empty()) throw Error(Code::kFailed, where + "without a program");
    for (size_t at : r.nodes) {
      if (at >= n_nodes)
        throw Error(Code::kFailed, where + "with node " + std::to_string(at) + " of " + std::to_string(n_nodes));
      if (taken[at])
        throw Error(Code::kFailed, where + "with node " + std::to_string(at) + ", which it has already given");
      taken[at] = true;
    }
  }
}

void Provider::claim(const Answer& answer, const GraphReader& read, const std::vector<const OrtNode*>& nodes,
                     OrtEpGraphSupportInfo* info) const {
  const OrtNodeFusionOptions options{api_->version, /*drop_constant_initializers=*/true};
  const auto fuse = [&](const std::vector<const OrtNode*>& group) {
    api_->check(api_->EpGraphSupportInfo_AddNodesToFuse(info, group.data(), group.size(), &options));
  };
  for (const Region& r : answer.regions) {
    std::vector<const OrtNode*> group;
    for (size_t at : r.nodes) group.push_back(nodes[at]);
    fuse(group);
  }
  if (answer.error.empty() || !answer.regions.empty()) return;

  const OrtNode* chosen = nullptr;
  for (const OrtNode* n : nodes) {
    const GraphReader::Values outputs = read.outputs(n);
    const bool ordinary = read.n_bodies(n) == 0 && read.provider(n).empty() && !outputs.empty() && outputs.front();
    if (!ordinary) continue;
    const bool primitive = read.domain(n).empty() && is_primitive(read.op(n));
    if (!chosen || primitive) chosen = n;
    if (primitive) break;
  }
  if (chosen) {
    fuse({chosen});
  } else {
    logger_.log(kError, "ANEForgeProvider: " + answer.error);  // no way to raise it
  }
}

// Compile -------------------------------------------------------------------------------------------------------------

void Provider::compile(const OrtNode** fused, size_t count, OrtNodeComputeInfo** infos) {
  // Whatever happens below, nothing waits any longer afterwards.
  struct Clear {
    std::vector<Region>& pending;
    ~Clear() { pending.clear(); }
  } clear{pending_};

  if (!error_.empty()) throw Error(Code::kInvalidArgument, error_);
  if (wants_ep_context_) {
    throw Error(
        Code::kInvalidArgument,
        "ANEForgeProvider does not write EPContext models in this release; remove ep.context_enable from the session");
  }
  const GraphReader read(*api_);
  const auto values = [&](const GraphReader::Values& list) {
    std::vector<FusedValue> out;
    for (const OrtValueInfo* v : list) out.push_back({read.name(v), read.tensor_type(v)});
    return out;
  };
  for (size_t i = 0; i < count; ++i) {
    std::vector<FusedValue> inputs = values(read.inputs(fused[i]));
    std::vector<FusedValue> outputs = values(read.outputs(fused[i]));
    std::vector<std::string> names;
    for (const FusedValue& v : outputs) names.push_back(v.name);
    Region region = take_pending(names);
    auto stats = add_region(number_, region.name);
    infos[i] = std::make_unique<Kernel>(api_, std::move(region), std::move(inputs), std::move(outputs),
                                        std::move(stats), on_overflow_, width_)
                   .release();
  }
  if (!pending_.empty()) {
    logger_.log(kWarning,
                "ANEForgeProvider: onnxruntime did not take region " + joined(pending_) +
                    "; its nodes run on the CPU (the group is not convex, or another provider has one of them)");
  }
}

// Value names are unique in a graph and the graphs around it: one output tells the region.
Region Provider::take_pending(const std::vector<std::string>& outputs) {
  const auto has_output = [&](const Region& r) {
    return !outputs.empty() && std::find(r.outputs.begin(), r.outputs.end(), outputs.front()) != r.outputs.end();
  };
  const auto found = std::find_if(pending_.begin(), pending_.end(), has_output);
  if (found == pending_.end()) {
    throw Error(Code::kFailed, "ANEForgeProvider: onnxruntime compiles a node with output '" +
                                   (outputs.empty() ? std::string() : outputs.front()) + "' that was never claimed");
  }
  Region region = std::move(*found);
  pending_.erase(found);
  return region;
}

}  // namespace aneforge::ep
