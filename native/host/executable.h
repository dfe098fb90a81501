// A program compiled for this machine's processor.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/executable.h"
#include "host/program.h"

namespace aneforge::host {

class HostExecutable final : public Executable {
 public:
  explicit HostExecutable(std::unique_ptr<Graph> graph);
  const std::vector<Port>& inputs() const override { return inputs_; }
  const std::vector<Port>& outputs() const override { return outputs_; }
  PortEvents run(const ConstTensorView* inputs, size_t n_inputs, const TensorView* outputs, size_t n_outputs,
                 Parallel& parallel) const override;
  std::string describe() const override;

 private:
  // The memory of one run. Kept for the next one: as many as ever ran at once.
  struct State {
    std::shared_ptr<char> arena;
    std::vector<void*> data;  // by value
  };
  std::unique_ptr<State> take_state() const;
  void give_state(std::unique_ptr<State>) const;

  std::unique_ptr<Graph> graph_;  // frozen; what only compilation needed is gone
  std::vector<size_t> order_;     // live steps
  Plan plan_;
  std::vector<Port> inputs_, outputs_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<State>> idle_;
};

// The backend "host".
std::shared_ptr<Executable> compile(const MilFile& file, const Options& options);

}  // namespace aneforge::host
