// What the stand-in is told to do wrong, by environment or by a control function; see standin.cc for how it is written.
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace standin {

struct Fault {
  std::string call, what;  // what is empty: nothing is wrong with this call
  double part = 0.5;       // of a file that is cut: how much of it is there
  uint64_t nth = 0;        // 0: every one

  bool cuts() const { return what == "truncate_text" || what == "truncate_blob"; }
};

// An order that cannot be meant is no order: the process ends, so that no test passes without its fault.
[[noreturn]] inline void no_such_fault(const std::string& text) {
  std::fprintf(stderr, "standin: STANDIN_FAULT: '%s' is not <call>=<what>[:<part>][@n]\n", text.c_str());
  std::_Exit(70);
}

inline bool exports(const std::string& call) {
  Dl_info here{};
  dladdr(reinterpret_cast<void*>(&no_such_fault), &here);
  void* self = dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  const bool found = self && dlsym(self, ("e5rt_" + call).c_str());
  if (self) dlclose(self);
  return found;
}

inline Fault fault_of(const std::string& text) {
  static const std::set<std::string> kinds{"fail", "throw", "crash", "abort", "hang", "truncate_text", "truncate_blob"};
  Fault f;
  const size_t equals = text.find('='), at = text.find('@');
  if (equals == std::string::npos) no_such_fault(text);
  f.call = text.substr(0, equals);
  f.what = text.substr(equals + 1, at == std::string::npos ? at : at - equals - 1);
  char* end = nullptr;
  if (at != std::string::npos) f.nth = std::strtoull(text.c_str() + at + 1, &end, 10);
  if (end && (*end || f.nth == 0)) no_such_fault(text);
  if (const size_t colon = f.what.find(':'); colon != std::string::npos) {
    const std::string part = f.what.substr(colon + 1);
    f.part = std::strtod(part.c_str(), &end);
    f.what.resize(colon);
    if (part.empty() || *end || !f.cuts() || !(f.part >= 0 && f.part <= 1)) no_such_fault(text);
  }
  if (!kinds.count(f.what) || !exports(f.call) || (f.cuts() && f.call != "e5_compiler_compile")) no_such_fault(text);
  return f;
}

// Not for two threads at once.
class Faults {
 public:
  // A call of this name comes; what is wrong with it.
  Fault meet(const std::string& call) {
    read_environment();
    const uint64_t since_told = ++told_[call], since_set = ++set_[call];
    for (const Fault& f : asked_)
      if (f.call == call && (f.nth == 0 || f.nth == since_told)) return f;
    for (const Fault& f : environment_)
      if (f.call == call && (f.nth == 0 || f.nth == since_set)) return f;
    return {};
  }
  // The n-th call from now on; 0: every one.
  void ask(const std::string& text) {
    Fault f = fault_of(text);
    if (f.nth) f.nth += told_[f.call];
    asked_.push_back(f);
  }
  void clear() {
    asked_.clear();
    told_.clear();
    set_.clear();
  }

 private:
  // Read at every call: a test in this process may set it later than the first one. Counts then begin anew.
  void read_environment() {
    const char* now = std::getenv("STANDIN_FAULT");
    if (text_ == (now ? now : "")) return;
    text_ = now ? now : "";
    environment_.clear();
    set_.clear();
    std::istringstream all(text_);
    for (std::string one; std::getline(all, one, ';');) environment_.push_back(fault_of(one));
  }

  std::string text_;
  std::vector<Fault> environment_, asked_;
  std::map<std::string, uint64_t> told_, set_;
};

}  // namespace standin
