#include "core/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

namespace aneforge {
namespace {

constexpr size_t kMostThreads = 256;

thread_local bool inside_loop = false;

struct Job {
  void (*fn)(void*, size_t);
  void* user;
  size_t total;
  size_t most_helpers;
  size_t helpers = 0;  // guarded by Workers::mutex
  std::atomic<size_t> next{0};

  void work() {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < total;) fn(user, i);
  }
  bool wants_help() const { return helpers < most_helpers && next.load(std::memory_order_relaxed) < total; }
};

class Workers {
 public:
  Workers() : process_(getpid()) {}

  pid_t process() const { return process_; }

  void run(Job& job) {
    std::list<Job*>::iterator place;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      start(job.most_helpers);
      place = jobs_.insert(jobs_.end(), &job);
    }
    for (size_t i = 0; i < job.most_helpers; ++i) work_.notify_one();
    inside_loop = true;
    job.work();
    inside_loop = false;
    std::unique_lock<std::mutex> lock(mutex_);
    jobs_.erase(place);
    done_.wait(lock, [&] { return job.helpers == 0; });
  }

  void stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }

 private:
  void start(size_t wanted) {
    if (stopping_) return;
    try {
      while (threads_.size() < std::min(wanted, kMostThreads)) threads_.emplace_back([this] { loop(); });
    } catch (const std::system_error&) {
      // Fewer helpers than hoped for: the caller does the rest itself.
    }
  }

  void loop() {
    inside_loop = true;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      Job* job = nullptr;
      work_.wait(lock, [&] {
        if (stopping_) return true;
        auto found = std::find_if(jobs_.begin(), jobs_.end(), [](Job* j) { return j->wants_help(); });
        if (found != jobs_.end()) job = *found;
        return job != nullptr;
      });
      if (!job) return;
      ++job->helpers;
      lock.unlock();
      job->work();
      lock.lock();
      if (--job->helpers == 0) done_.notify_all();
    }
  }

  const pid_t process_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::list<Job*> jobs_;
  std::vector<std::thread> threads_;
  bool stopping_ = false;
};

// Never freed: a thread may still be inside while static objects go. (After a fork the child leaves its parent's copy
// alone: its mutex may be held by a thread that does not exist there.)
std::atomic<Workers*> current{nullptr};

Workers& workers() {
  Workers* seen = current.load(std::memory_order_acquire);
  const pid_t process = getpid();
  while (!seen || seen->process() != process) {
    auto* fresh = new Workers;
    if (current.compare_exchange_strong(seen, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
  }
  return *seen;
}

struct JoinAtExit {
  ~JoinAtExit() {
    Workers* last = current.load(std::memory_order_acquire);
    if (last && last->process() == getpid()) last->stop();
  }
} join_at_exit;

}  // namespace

size_t processor_count() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<size_t>(std::max(1, CPU_COUNT(&set)));
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(size_t threads) : width_(std::min(threads ? threads : processor_count(), kMostThreads)) {}

void ThreadPool::run(size_t total, void (*fn)(void* user, size_t i), void* user) {
  const size_t threads = std::min(width_, total);
  if (threads <= 1 || inside_loop) {
    for (size_t i = 0; i < total; ++i) fn(user, i);
    return;
  }
  Job job{fn, user, total, threads - 1};
  workers().run(job);
}

}  // namespace aneforge
