// A fused node at run time: ONNX Runtime's tensors in, a program run on ONNX Runtime's threads, ONNX Runtime's tensors
// out.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "ep/graph_reader.h"
#include "ep/ort_api.h"
#include "ep/region.h"
#include "ep/registry.h"

namespace aneforge::ep {

// One input or output of the fused node, as ONNX Runtime declared it.
struct FusedValue {
  std::string name;
  TensorType type;
};

// One object for one fused node. Compute is called from many threads at once and changes nothing but counters.
class Kernel : public OrtNodeComputeInfo {
 public:
  // width: how many threads may take part in a loop (a hint). Throws Error when the node and the program do not fit.
  Kernel(std::shared_ptr<const Api> api, Region region, std::vector<FusedValue> inputs, std::vector<FusedValue> outputs,
         std::shared_ptr<RegionStats> stats, OnOverflow on_overflow, size_t width);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

 private:
  struct Dims {
    const int64_t* data;
    size_t rank;
  };
  // A program for one set of input shapes. There is one of them so far; a node of several shapes has several.
  struct Variant {
    HeldExecutable program;
    std::vector<size_t> input_of_port;             // index among the inputs of the fused node
    std::vector<size_t> output_of_port;            // likewise, or kNowhere: computed, and nobody asks
    std::vector<std::vector<int64_t>> input_dims;  // by port: the shape that ONNX gives the value
    std::vector<std::vector<int64_t>> output_dims;
    uint64_t wanted = 0;  // bit p: output port p has a reader
  };
  static constexpr size_t kNowhere = static_cast<size_t>(-1);

  Variant bind(const Region& region) const;
  const Variant* find(const std::vector<Dims>& inputs) const;
  [[noreturn]] void refuse_shapes(const std::vector<Dims>& inputs) const;
  void run(OrtKernelContext* context) const;
  void report(const Variant& variant, const PortEvents& events, const OrtKernelContext* context) const;

  const std::shared_ptr<const Api> api_;
  const std::string name_;
  const std::vector<FusedValue> inputs_, outputs_;
  const std::shared_ptr<RegionStats> stats_;
  const OnOverflow on_overflow_;
  const size_t width_;
  std::vector<Variant> variants_;
  std::vector<bool> used_;  // by input of the fused node: a program reads it
  mutable std::atomic<bool> warned_{false};
};

}  // namespace aneforge::ep
