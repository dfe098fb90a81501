// The host backend's form of a program: a list of steps over values, from MIL text to something that runs.
//
//   lower()          mil::Program -> Graph. One step for each operation; what depends on constants only is computed
//   here. No kernels. passes           Graph -> Graph. The seam for fast paths, see below. Skipped for kernels=plain.
//   build_kernels()  every live step that has no kernel yet gets the plain one from the table in kernels.h; steps that
//   only rename
//                    (reshape, …) become views and die.
//   plan()           memory by lifetime. After it the graph is frozen into an Executable.
//
// The seam for faster kernels, layouts and fusion (passes.cc lists the passes in order; each is void(Graph&)):
//   * A pass sees steps in topological order with their MIL operands by name (Step::arguments), the shapes and known
//   values of all
//     operands (Graph::floats, Graph::ints, …), producers (Value::producer) and consumers (Graph::consumers()).
//   * To fuse, it gives one step a kernel of its own (Step::kernel, Step::reads, Step::results, Step::scratch) and
//   marks the others
//     dead. A step that already has a kernel is not touched by build_kernels. Exactness rule: every operation fused
//     keeps its own rounding (Graph::finish tells which).
//   * To change a value's physical form, set Value::layout, halo and bytes, and make sure that every consumer
//   understands it:
//     Build::read refuses values that are not plain. Layout changes are steps like any other: Graph::add_value for the
//     copy in the other form, Graph::insert for the step.
//   * Weights are packed when the kernel is made: read them with Graph::floats (fp32, shared, dropped after compile
//   unless some step
//     lists the value in Step::reads) or from the blob itself through Value::source.
//   * Kernels are objects with one virtual run(). They are const and shared by concurrent runs: anything mutable lives
//   in the arena
//     (values, Step::scratch).
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "host/settings.h"
#include "mil/program.h"

namespace aneforge::host {

using Shape = std::vector<int64_t>;
int64_t count_of(const Shape&);
std::string to_string(const Shape&);

// How a value lies in memory: fp16 and fp32 as float, every integer as int32_t, bool as one byte 0 or 1.
enum class Storage : uint8_t { kFloat, kInt, kBool };
size_t bytes_of(Storage);
Storage storage_of(mil::Element);  // throws Error{kUnsupported}: string, and 64-bit floats at run time

// The range of an integer type as it stands in int32 storage.
struct IntegerRange {
  int32_t low, high;
};
inline IntegerRange range_of(mil::Element e) {
  switch (e) {
    case mil::Element::kInt8:
      return {-128, 127};
    case mil::Element::kUInt8:
      return {0, 255};
    case mil::Element::kInt16:
      return {-32768, 32767};
    case mil::Element::kUInt16:
      return {0, 65535};
    case mil::Element::kUInt32:
      return {0, std::numeric_limits<int32_t>::max()};
    default:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  }
}

enum class Layout : uint8_t {
  kPlain,    // dense, row-major
  kBlocked,  // [N][ceil(C/16)][H + 2 halo][W + 2 halo][16], the halo zero
};

struct Value {
  std::string name;
  mil::Element declared = mil::Element::kFp32;
  Storage storage = Storage::kFloat;
  bool half = false;  // every stored float is a half: the program's type is fp16 and numerics is not fp32
  Shape shape;
  int64_t count = 1;
  int32_t producer = -1;  // step; -1 for inputs and constants

  bool coded = false;                     // a constant that the program keeps as 8-bit integers with a scale (Q10)
  const mil::Constant* source = nullptr;  // as the program wrote it; during compile only
  std::shared_ptr<const void> known;      // widened to storage; made when first asked for, or by folding

  int32_t view_of = -1;  // has no memory of its own: the same bytes as another value (which may be a view itself)
  Layout layout = Layout::kPlain;
  int32_t halo = 0;
  size_t bytes = 0;  // physical size; filled in by Graph::add_value for the plain layout

  bool constant() const { return source || known; }
};

// What a kernel sees of a run. data[id] is the memory of value id.
struct Frame {
  void* const* data;
  char* scratch;  // Step::scratch bytes, 64-byte aligned
  Parallel* parallel;

  template <class T = float>
  const T* in(int32_t id) const {
    return static_cast<const T*>(data[id]);
  }
  template <class T = float>
  T* out(int32_t id) const {
    return static_cast<T*>(data[id]);
  }
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const Frame& frame) const = 0;
};

template <class F>
class LambdaKernel final : public Kernel {
 public:
  explicit LambdaKernel(F f) : f_(std::move(f)) {}
  void run(const Frame& frame) const override { f_(frame); }

 private:
  F f_;
};
template <class F>
std::unique_ptr<Kernel> kernel(F f) {
  return std::make_unique<LambdaKernel<F>>(std::move(f));
}

struct Argument {
  std::string name;
  std::vector<int32_t> values;
};

struct Step {
  std::string kind;  // the MIL operation, or a pass's own word
  std::string name;
  uint32_t line = 0;  // of the program text
  std::vector<Argument> arguments;
  std::vector<int32_t> results;

  std::unique_ptr<Kernel> kernel;
  std::vector<int32_t> reads;  // values that the kernel reads when it runs; keeps them alive until this step
  size_t scratch = 0;          // bytes of arena during this step
  bool dead = false;

  const Argument* find(std::string_view argument) const;
};

// The end of an operation: what the program's storage does to a result.
struct Finish {
  bool half = false;    // round to the nearest half
  bool no_nan = false;  // NaN becomes +0 (Q12)
  void operator()(float* p, int64_t n) const;
};

struct Graph {
  Settings settings;
  std::vector<Value> values;
  std::vector<Step> steps;
  std::vector<int32_t> inputs, outputs;

  int32_t add_value(std::string name, mil::Element declared, Shape shape);
  // Puts a step before position `before` (steps.size(): at the end) and renumbers producers. O(steps): collect and sort
  // when many.
  void insert(size_t before, Step step);
  // Live steps that name the value as an argument or read it, by value; program outputs are not among them.
  std::vector<std::vector<int32_t>> consumers() const;
  bool is_output(int32_t value) const;
  int32_t root(int32_t value) const;  // through views

  // Known values. Error{kUnsupported} when the value is not constant or of another storage.
  const float* floats(int32_t value);
  const int32_t* ints(int32_t value);
  const void* known(int32_t value);  // of any storage
  std::string text(int32_t value) const;

  // exact: the operation only selects among, or moves, values that are stored already (relu, max, …).
  Finish finish(int32_t result, bool exact = false) const;
};

std::unique_ptr<Graph> lower(const mil::Program& program, const Settings& settings);
void run_passes(Graph& graph);
void build_kernels(Graph& graph);

// Where everything lies. Offsets are multiples of 64.
struct Plan {
  static constexpr size_t kNone = ~size_t{0};
  std::vector<size_t> offset;          // by value; kNone: constant, or unused
  std::vector<size_t> scratch_offset;  // by step
  size_t arena = 0;
};
Plan plan(const Graph& graph);

}  // namespace aneforge::host
