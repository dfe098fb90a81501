#include "core/backends.h"

#include <map>

#include "core/status.h"

namespace aneforge {
namespace {

std::map<std::string, CompileFn>& table() {
  static std::map<std::string, CompileFn> entries;
  return entries;
}

}  // namespace

BackendRegistration::BackendRegistration(const char* name, CompileFn compile) { table()[name] = compile; }

CompileFn find_backend(const std::string& name) {
  const auto found = table().find(name);
  if (found != table().end()) return found->second;
  std::string known;
  for (const auto& entry : table()) known += (known.empty() ? "" : ", ") + entry.first;
  throw Error(Code::kInvalidArgument, "no backend '" + name + "' in this library; there are: " + known);
}

}  // namespace aneforge
