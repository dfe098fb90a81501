// One provider instance: what ONNX Runtime asks while it builds a session, and the programs in between.
//
// Capability asks the hook which groups of nodes there are, each compiled already: a claim cannot be taken back. The
// compiled groups wait in `pending_` until Compile, which ONNX Runtime calls for the same graph right afterwards, turns
// them into kernels. Errors of capability are swallowed by ONNX Runtime; they are kept, one node is claimed to reach
// Compile, and raised there.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ep/graph_reader.h"
#include "ep/logging.h"
#include "ep/ort_api.h"
#include "ep/region.h"

namespace aneforge::ep {

inline constexpr const char* kProviderName = "ANEForgeProvider";

class Provider : public OrtEp {
 public:
  Provider(std::shared_ptr<const Api> api, const OrtSessionOptions* options, const OrtLogger* logger);
  ~Provider();
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;

 private:
  // What the hook said about one graph.
  struct Answer {
    std::vector<Region> regions;
    std::string error, warning;
    OnOverflow on_overflow = OnOverflow::kWarn;
  };

  void read_options(const OrtSessionOptions* options);
  void capability(const OrtGraph* graph, OrtEpGraphSupportInfo* info);
  Answer consult(const AfHooks& hooks, const GraphReader& read, const OrtGraph* graph, size_t n_nodes,
                 const std::string& parent_op) const;
  Answer ask(const AfHooks& hooks, const std::string& model, const std::string& path,
             const std::string& parent_op) const;
  static void accept(void* context, const AfCapability* given) noexcept;
  static void examine(const Answer& answer, size_t n_nodes);
  void claim(const Answer& answer, const GraphReader& read, const std::vector<const OrtNode*>& nodes,
             OrtEpGraphSupportInfo* info) const;
  bool may_claim_in(const GraphReader& read, const OrtNode* parent) const;
  void compile(const OrtNode** fused, size_t count, OrtNodeComputeInfo** infos);
  Region take_pending(const std::vector<std::string>& outputs);
  bool is_strict() const;
  void warn_once(const std::string& text);

  const std::shared_ptr<const Api> api_;
  const Logger logger_;
  uint64_t number_ = 0;
  std::vector<std::pair<std::string, std::string>> options_;  // ep.aneforgeprovider.*, without the prefix
  bool wants_ep_context_ = false;
  size_t width_ = 1;

  std::vector<Region> pending_;
  OnOverflow on_overflow_ = OnOverflow::kWarn;
  std::string error_;  // of the last graph that was looked at; raised by Compile
  bool claimed_in_body_ = false;
  std::set<std::string> warned_;
};

}  // namespace aneforge::ep
