// Every program of the process that is compiled for the engine, and how many are loaded.
//
// The 129th load of a process fails; programs of others count too. At most kMost are loaded from here: the least
// recently run one makes room, and is loaded again (from its library, without compiling) when it is next run. Where a
// load fails although kMost are not reached, others may hold the rest: then too ours make room, see
// EngineProgram::load.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace aneforge::runtime {

class EngineProgram;

class Slots {
 public:
  static constexpr size_t kMost = 96;

  static Slots& get();  // lives as long as the process
  void add(EngineProgram*);
  void remove(EngineProgram*);  // and frees its slot
  // Before a load, by whoever holds the engine's loading(): a slot is free afterwards.
  void make_room(const EngineProgram* for_whom);
  // Unloads up to `count` programs, the least recently run first, and gives how many. If all are running it waits for
  // one: 0 means that none is loaded. By whoever holds the engine's loading(), so that none is loaded meanwhile.
  size_t unload(size_t count, const EngineProgram* for_whom);
  uint64_t tick() { return ++clock_; }  // without the lock: one that runs must not wait for a loader that waits for it

 private:
  Slots();
  static bool unload_one(const EngineProgram&);
  size_t unload_locked(size_t count, const EngineProgram* for_whom);
  static void at_exit();

  std::mutex mutex_;
  std::vector<EngineProgram*> programs_;
  std::atomic<uint64_t> clock_{0};
};

}  // namespace aneforge::runtime
