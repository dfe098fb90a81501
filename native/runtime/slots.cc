#include "runtime/slots.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "runtime/program.h"

namespace aneforge::runtime {

Slots& Slots::get() {
  static Slots* slots = new Slots;
  return *slots;
}

// Registered after the runtime was opened, so that it runs before the runtime's own handlers and destructors.
Slots::Slots() { std::atexit(&Slots::at_exit); }

void Slots::at_exit() {
  if (!Engine::ours()) return;
  Slots& slots = get();
  const std::lock_guard<std::mutex> lock(slots.mutex_);
  for (EngineProgram* p : slots.programs_) {
    const std::unique_lock<std::mutex> idle(p->mutex_, std::try_to_lock);
    if (idle) p->close();  // one that another thread still runs cannot be freed
  }
}

void Slots::add(EngineProgram* p) {
  const std::lock_guard<std::mutex> lock(mutex_);
  programs_.push_back(p);
}

void Slots::remove(EngineProgram* p) {
  const std::lock_guard<std::mutex> lock(mutex_);
  programs_.erase(std::remove(programs_.begin(), programs_.end(), p), programs_.end());
  p->close();
}

void Slots::make_room(const EngineProgram* for_whom) {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t loaded = 0;
  for (EngineProgram* p : programs_) {
    if (p == for_whom) continue;  // its lock is held
    const std::unique_lock<std::mutex> idle(p->mutex_, std::try_to_lock);
    if (!idle || p->loaded_) ++loaded;
  }
  if (loaded >= kMost) unload_locked(loaded - kMost + 1, for_whom);
}

size_t Slots::unload(size_t count, const EngineProgram* for_whom) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return unload_locked(count, for_whom);
}

// Unloads a program, at the end of its run if it is running. False: it was not loaded.
bool Slots::unload_one(const EngineProgram& p) {
  p.wanted_ = true;
  for (;; std::this_thread::sleep_for(std::chrono::microseconds(20))) {
    const std::unique_lock<std::mutex> idle(p.mutex_, std::try_to_lock);
    if (!idle && p.use_ != EngineProgram::Use::kLoads) continue;
    // Nobody runs it. Who does "loads" has nothing loaded, and waits for whoever is here.
    const bool given = !p.wanted_.exchange(false);
    if (!idle || !p.loaded_) return given;
    p.loaded_.reset();
    return true;
  }
}

size_t Slots::unload_locked(size_t count, const EngineProgram* for_whom) {
  std::vector<std::pair<uint64_t, EngineProgram*>> oldest;
  for (EngineProgram* p : programs_) {
    if (p == for_whom) continue;
    const std::unique_lock<std::mutex> idle(p->mutex_, std::try_to_lock);
    if (idle && p->loaded_) oldest.emplace_back(p->last_run_, p);
  }
  std::sort(oldest.begin(), oldest.end());
  size_t done = 0;
  for (const auto& [run, p] : oldest) {
    if (done == count) break;
    const std::unique_lock<std::mutex> idle(p->mutex_, std::try_to_lock);
    if (!idle || !p->loaded_) continue;
    p->loaded_.reset();
    ++done;
  }
  for (EngineProgram* p : programs_) {
    if (done > 0) break;
    if (p != for_whom && unload_one(*p)) ++done;
  }
  return done;
}

}  // namespace aneforge::runtime
