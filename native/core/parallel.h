// Who runs a loop: ONNX Runtime's pool inside a session (ep/), a pool of our own elsewhere (core/thread_pool.h), or the
// calling thread. Results never depend on it: a task computes whole output elements, in one order of operations.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
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

// f(begin, end) over [0, total) in tasks of at least `grain`. Which element belongs to which task never matters to
// results.
template <class F>
void chunks(Parallel& parallel, int64_t total, int64_t grain, F&& f) {
  if (total <= 0) return;
  const int64_t width = static_cast<int64_t>(parallel.width());
  const int64_t most = width <= 1 ? 1 : width * 4;
  const int64_t wanted = std::clamp<int64_t>((total + grain - 1) / std::max<int64_t>(grain, 1), 1, most);
  const int64_t each = (total + wanted - 1) / wanted;
  const int64_t tasks = (total + each - 1) / each;
  if (tasks == 1) return f(int64_t{0}, total);
  parallel.each(static_cast<size_t>(tasks), [&](size_t i) {
    const int64_t begin = static_cast<int64_t>(i) * each;
    f(begin, std::min(begin + each, total));
  });
}

}  // namespace aneforge
