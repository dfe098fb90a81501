// The table of plain kernels: for every MIL operation this backend runs, one maker. A maker reads the step's arguments,
// verifies them against the declared result (program text is checked, not believed), and returns the loop that defines
// the operation.
//
// Rules for every loop: float arithmetic in fp32; sums in one fixed order, whatever the thread count; one rounding, at
// the end (Finish); maxima and minima let NaN pass.
#pragma once
#include <initializer_list>
#include <string>
#include <unordered_map>

#include "host/program.h"

namespace aneforge::host {

// One step while its kernel is made.
class Build {
 public:
  Build(Graph& graph, Step& step) : graph_(graph), step_(step) {}

  Graph& graph() { return graph_; }
  const Settings& settings() const { return graph_.settings; }
  bool has(Quirk q) const { return graph_.settings.has(q); }
  const std::string& kind() const { return step_.kind; }

  // Operands --------------------------------------------------------------------------------------------------------
  bool given(const char* name) const { return step_.find(name) != nullptr; }
  int32_t operand(const char* name) const;  // required, exactly one
  const Value& value(const char* name) const { return graph_.values[static_cast<size_t>(operand(name))]; }
  const Shape& shape(const char* name) const { return value(name).shape; }
  const Value& at(int32_t id) const { return graph_.values[static_cast<size_t>(id)]; }
  // The operand is read when the program runs.
  int32_t read(const char* name, Storage storage = Storage::kFloat);
  int32_t read_any(const char* name);
  std::vector<int32_t> read_all(const char* name);  // a variadic operand, any storage
  // Operands that must be known.
  const float* floats(const char* name) const { return graph_.floats(operand(name)); }
  std::vector<int64_t> ints(const char* name) const;
  std::vector<int64_t> ints(const char* name, std::vector<int64_t> absent) const;
  int64_t integer(const char* name, int64_t absent) const;
  int64_t integer(const char* name) const;
  float number(const char* name) const;  // a float scalar
  float number(const char* name, float absent) const;
  bool flag(const char* name, bool absent) const;
  std::vector<int64_t> flags(const char* name) const;  // empty when absent
  std::string text(const char* name, const char* absent) const;
  std::string text(const char* name) const;
  // An axis within [-rank, rank), made non-negative.
  int64_t axis(const char* name, int64_t absent, size_t rank) const;
  std::vector<int64_t> axes(const char* name, size_t rank) const;  // sorted, distinct; all when absent

  // Results ---------------------------------------------------------------------------------------------------------
  size_t n_results() const { return step_.results.size(); }
  int32_t result(size_t i = 0) const { return step_.results[i]; }
  const Shape& result_shape(size_t i = 0) const { return at(result(i)).shape; }
  // Throws Error{kCorrupt} unless the declared result is this.
  void expect(const Shape& shape, Storage storage = Storage::kFloat, size_t i = 0) const;
  void expect_results(size_t n) const;
  // exact: the operation only selects among values that it reads; call it after the last read().
  Finish finish(bool exact = false, size_t i = 0) const;
  void scratch(size_t bytes) { step_.scratch = bytes; }
  // The result is the operand under another shape: no kernel.
  std::unique_ptr<Kernel> view(int32_t of, size_t i = 0);

  [[noreturn]] void fail(const std::string& what) const;         // ill-formed: kCorrupt
  [[noreturn]] void unsupported(const std::string& what) const;  // kUnsupported
  void require(bool condition, const char* what) const {
    if (!condition) fail(what);
  }

 private:
  Graph& graph_;
  Step& step_;
};

using Maker = std::unique_ptr<Kernel> (*)(Build&);
using KernelTable = std::unordered_map<std::string, Maker>;

const KernelTable& kernel_table();

// One function for each kernels_*.cc.
void register_elementwise(KernelTable&);
void register_activation(KernelTable&);
void register_compare(KernelTable&);
void register_conv(KernelTable&);
void register_matmul(KernelTable&);
void register_pool(KernelTable&);
void register_reduce(KernelTable&);
void register_sort(KernelTable&);
void register_normalize(KernelTable&);
void register_shape(KernelTable&);
void register_rearrange(KernelTable&);
void register_gather(KernelTable&);
void register_image(KernelTable&);
void register_constexpr(KernelTable&);

}  // namespace aneforge::host
