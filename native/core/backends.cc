#include "core/backends.h"

#include <map>

#include "core/status.h"

namespace aneforge {
namespace {

struct Entry {
  CompileFn compile;
  void (*check)();
};

std::map<std::string, Entry>& table() {
  static std::map<std::string, Entry> entries;
  return entries;
}

const Entry& find(const std::string& name) {
  const auto found = table().find(name);
  if (found != table().end()) return found->second;
  std::string known;
  for (const auto& entry : table()) known += (known.empty() ? "" : ", ") + entry.first;
  throw Error(Code::kInvalidArgument, "no backend '" + name + "' in this library; there are: " + known);
}

}  // namespace

BackendRegistration::BackendRegistration(const char* name, CompileFn compile, void (*check)()) {
  table()[name] = Entry{compile, check};
}

CompileFn find_backend(const std::string& name) { return find(name).compile; }

void check_backend(const std::string& name) {
  if (const auto check = find(name).check) check();
}

}  // namespace aneforge
