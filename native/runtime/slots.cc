#include "runtime/slots.h"

#include <algorithm>
#include <cstdlib>

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
  std::vector<EngineProgram*> oldest;
  for (EngineProgram* p : programs_) {
    if (p == for_whom) continue;  // its lock is held
    const std::unique_lock<std::mutex> idle(p->mutex_, std::try_to_lock);
    if (idle && !p->loaded_) continue;
    ++loaded;
    if (idle) oldest.push_back(p);
  }
  if (loaded < kMost) return;
  std::sort(oldest.begin(), oldest.end(), [](auto* a, auto* b) { return a->last_run_ < b->last_run_; });
  for (EngineProgram* p : oldest) {
    const std::unique_lock<std::mutex> idle(p->mutex_, std::try_to_lock);
    if (!idle) continue;
    p->loaded_.reset();
    if (--loaded < kMost) return;
  }
  throw Error(Code::kFailed,
              "all " + std::to_string(kMost) + " programs that a process may load on the engine are in use");
}

uint64_t Slots::tick() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ++clock_;
}

}  // namespace aneforge::runtime
