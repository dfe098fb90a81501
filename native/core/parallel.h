// Who runs a loop: ONNX Runtime's pool inside a session (ep/), a pool of our own elsewhere (core/thread_pool.h), or the
// calling thread. Results never depend on it: a task computes whole output elements, in one order of operations.
#pragma once
#include <cstddef>
#include <type_traits>

namespace aneforge {

class Parallel {
 public:
  virtual ~Parallel() = default;
  // Calls fn(user, i) exactly once for each i in [0, total), from any threads, and returns when all are done. fn must
  // not throw (the frames between may be C).
  virtual void run(size_t total, void (*fn)(void* user, size_t i), void* user) = 0;
  // How many threads may take part: a hint for choosing the number of tasks (2 to 4 per thread). Never a factor in
  // results.
  virtual size_t width() const = 0;

  // parallel.each(n, [&](size_t i) { … });
  template <class F>
  void each(size_t total, F&& body) {
    if (total == 1) {
      body(size_t{0});
      return;
    }
    using Body = std::remove_reference_t<F>;
    run(
        total, [](void* user, size_t i) { (*static_cast<Body*>(user))(i); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }
};

// Everything on the calling thread, in order.
class Serial final : public Parallel {
 public:
  void run(size_t total, void (*fn)(void*, size_t), void* user) override {
    for (size_t i = 0; i < total; ++i) fn(user, i);
  }
  size_t width() const override { return 1; }
};

}  // namespace aneforge
