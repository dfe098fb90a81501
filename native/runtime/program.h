// A program compiled for the engine. Loading it occupies one of the few slots that a process has; see slots.h.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/executable.h"
#include "runtime/engine.h"
#include "runtime/folder.h"

namespace aneforge::runtime {

// A port of the loaded program and the host memory bound to it, dense and row-major.
struct BoundPort {
  Handle port, buffer;
  void* data = nullptr;
};

// The device-loaded instance. Ports are bound before the one encode and stay: the state of an encoded operation must
// not change. Released in the order stream, operation, ports, options.
struct Loaded {
  Handle options;
  std::vector<BoundPort> inputs, outputs;
  Handle operation, stream;
};

class EngineProgram final : public Executable {
 public:
  // Compiles and loads. Throws Error: kUnsupported for ports and sizes that the engine does not take (said before any
  // call), kFailed with the runtime's own text for what it refuses.
  EngineProgram(const MilFile& file, const std::string& root);
  ~EngineProgram() override;

  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }
  PortEvents run(const ConstTensorView* inputs, size_t n_inputs, const TensorView* outputs, size_t n_outputs,
                 Parallel& parallel) const override;
  std::string describe() const override;

 private:
  friend class Slots;
  // What the one who holds mutex_ does: waits for the engine's loading() and has nothing loaded, or runs what is loaded
  // and waits for nobody. kNone: has not come so far, or nobody holds it.
  enum class Use { kNone, kLoads, kRuns };
  struct InUse;
  void compile();
  void load() const;  // under the engine's loading(): takes a slot, and frees another if need be
  void close();       // at exit: everything that is the runtime's
  BoundPort bind(const Port& port, bool input, const Loaded& loaded) const;

  Engine& engine_;
  std::vector<Port> inputs_, outputs_;
  std::unique_ptr<Folder> folder_;
  Handle library_, function_;
  mutable std::mutex mutex_;                // one dispatch at a time
  mutable std::unique_ptr<Loaded> loaded_;  // null: unloaded to make room
  mutable uint64_t last_run_ = 0;
  mutable std::atomic<Use> use_{Use::kNone};
  mutable std::atomic<bool> wanted_{false};  // its slot: who runs it unloads it afterwards
  mutable bool closed_ = false;
};

}  // namespace aneforge::runtime
