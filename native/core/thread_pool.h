// Threads for programs that run outside an ONNX Runtime session. One pool a process, started by the first loop that
// wants helpers, blocked on a condition variable while there is nothing to do (a second pool that spins would starve
// the first).
//
// A loop started from inside a loop runs on the thread that starts it. Concurrent callers share the workers. In a
// forked child the pool is made anew. Workers are joined when the library is unloaded or the process exits; loops after
// that run on their caller.
#pragma once
#include <cstddef>

#include "core/parallel.h"

namespace aneforge {

// Processors this process may use, at least 1.
size_t processor_count();

class ThreadPool final : public Parallel {
 public:
  // threads: how many take part, the caller included; 0 = as many as there are processors.
  explicit ThreadPool(size_t threads = 0);
  void run(size_t total, void (*fn)(void* user, size_t i), void* user) override;
  size_t width() const override { return width_; }

 private:
  size_t width_;
};

}  // namespace aneforge
