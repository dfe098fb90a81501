// The one abstract class between whoever runs programs (ep/, the C API) and whoever compiled them (host/, runtime/).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "core/tensor.h"

namespace aneforge {

// What the program declares. The caller's tensors must have this shape; their element type may differ: conversion
// happens inside run(), once (float32/double -> fp16: finite values beyond ±65504 saturate, infinities stay; bool is
// 0/1).
struct Port {
  std::string name;  // as in the program text
  DType dtype = DType::kUndefined;
  std::vector<int64_t> shape;
};

// What the ports saw in one run: the run-time half of "never wrong".
struct PortEvents {
  uint64_t saturated_inputs = 0;   // bit i: input i held finite values beyond the range of the program's type
  uint64_t nonfinite_outputs = 0;  // bit i: output i holds inf or NaN although every input was finite
};

class Executable {
 public:
  virtual ~Executable() = default;
  virtual const std::vector<Port>& inputs() const = 0;
  virtual const std::vector<Port>& outputs() const = 0;
  // Thread-safe and re-entrant. Views are in port order. Throws Error{kInvalidArgument} for a wrong count, shape or a
  // dtype that does not convert.
  virtual PortEvents run(const ConstTensorView* inputs, size_t n_inputs, const TensorView* outputs, size_t n_outputs,
                         Parallel& parallel) const = 0;
  // One line for reports: backend, instruction set, kernels chosen, arena bytes.
  virtual std::string describe() const = 0;
};

using Options = std::vector<std::pair<std::string, std::string>>;

// The hand-over format: program text and weight blob, in memory. Valid during compile only; an executable keeps its own
// copy of what it needs.
struct MilFile {
  const char* text = nullptr;
  size_t text_size = 0;
  const uint8_t* blob = nullptr;
  size_t blob_size = 0;
};

using CompileFn = std::shared_ptr<Executable> (*)(const MilFile&, const Options&);

// Backends by name ("host", "e5rt"). Both throw Error{kInvalidArgument} that lists the names there are; check_backend
// also throws what keeps the backend from being used on this machine.
CompileFn find_backend(const std::string& name);
void check_backend(const std::string& name);

}  // namespace aneforge
