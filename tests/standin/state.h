// What the stand-in keeps of a process, and how every call begins and ends.
#pragma once
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include "faults.h"
#include "objects.h"

namespace standin {

inline std::recursive_mutex lock;
inline std::map<std::string, uint64_t> calls;
inline Faults faults;
constexpr int64_t kMostWeights = 2'000'000'000;  // bytes of a program: 1.5 GB are known to load, 3.4 GB to fail
inline uint64_t misuses = 0, most_programs = 128;
inline std::string misuse_text;
inline bool computing = true, compiling = false;
inline std::atomic<bool> idle{false};  // execute_sync returns at once: looks at nothing, counts nothing, costs nothing
inline pid_t owner = 0;
inline thread_local std::string last_error;

inline int32_t refuse(int32_t status, const std::string& why) {
  last_error = why;
  return status;
}

inline int32_t misuse(const std::string& why) {
  ++misuses;
  if (misuse_text.size() < 4000) misuse_text += why + "\n";
  return refuse(2, "standin: " + why);
}

// At the start of every call: counts it, dies in a forked child as the real one does, and does what it is told to. A
// release that fails gives its handle up. The lock is not held while the call hangs, or the whole process would.
inline int32_t arrive(const char* name, void** released = nullptr, Fault* cut = nullptr) {
  Fault fault;
  {
    const std::lock_guard<std::recursive_mutex> held(lock);
    if (owner == 0) owner = getpid();
    if (owner != getpid()) raise(SIGSEGV);
    ++calls[name];
    fault = faults.meet(name);
    if (released && (fault.what == "fail" || fault.what == "throw")) give_up(*released);
  }
  last_error.clear();
  if (fault.what == "crash" || fault.what == "abort") {
    const int signal = fault.what == "crash" ? SIGSEGV : SIGABRT;
    std::signal(signal, SIG_DFL);
    raise(signal);
  }
  while (fault.what == "hang") pause();
  if (fault.what == "throw") throw std::runtime_error(std::string("standin: told to throw in ") + name);
  if (fault.what == "fail") return refuse(7, std::string("standin: told to fail in ") + name);
  if (cut) *cut = fault;
  return 0;
}

inline int32_t release(const char* name, void** place, Kind kind) {
  if (!place) return misuse(std::string(name) + ": takes the address of the handle");
  Object* o = find(*place, kind);
  if (!o) return misuse(std::string(name) + ": not a live " + kNames[kind] + " (released twice?)");
  live.erase(o);
  delete o;
  *place = nullptr;
  return 0;
}

}  // namespace standin
