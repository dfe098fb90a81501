#include "runtime/slots.h"

#include <algorithm>
#include <cstdlib>
#include <string>
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
  if (loaded < kMost) return;
  const size_t surplus = loaded - kMost + 1;
  if (unload_locked(surplus, for_whom) < surplus)
    throw Error(Code::kFailed,
                "all " + std::to_string(kMost) + " programs that a process may load on the engine are in use");
}

size_t Slots::unload(size_t count, const EngineProgram* for_whom) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return unload_locked(count, for_whom);
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
  return done;
}

uint64_t Slots::tick() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ++clock_;
}

}  // namespace aneforge::runtime
