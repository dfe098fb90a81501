// A group of nodes and the program that replaces them: what a hook offers, copied, from the claim to the fused kernel.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/c_handles.h"

namespace aneforge::ep {

// A reference of our own; the last one frees the program.
using HeldExecutable = std::shared_ptr<const AfExecutable>;

inline HeldExecutable hold(AfExecutable* executable) {
  if (!executable) return nullptr;
  retain_executable(executable);
  return HeldExecutable(executable, [](const AfExecutable* e) { release_executable(const_cast<AfExecutable*>(e)); });
}

struct Region {
  std::string name;
  std::vector<size_t> nodes;        // positions in Graph_GetNodes
  HeldExecutable executable;        // null only in an answer that carries an error
  std::vector<std::string> inputs;  // ONNX value of each port, in port order
  std::vector<std::string> outputs;
};

enum class OnOverflow { kWarn, kError, kIgnore };

}  // namespace aneforge::ep
