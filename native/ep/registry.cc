#include "ep/registry.h"

#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "core/ep_api.h"
#include "core/status.h"

namespace aneforge::ep {
namespace {

constexpr size_t kTokensKept = 1024;  // of one instance; each is read right after it was sent

struct Instance {
  std::vector<std::shared_ptr<RegionStats>> regions;
  std::deque<std::string> tokens;
};

struct Registry {
  std::mutex mutex;
  std::shared_ptr<const AfHooks> hooks;
  uint64_t last_ep = 0;
  std::map<uint64_t, Instance> eps;
  std::map<std::string, uint64_t> tokens;
};

// Never destroyed: sessions that are alive when the process ends are released after the destructors of this library.
Registry& registry() {
  static Registry& the_one = *std::make_unique<Registry>().release();
  return the_one;
}

std::atomic<int64_t> live_kernels{0};
std::atomic<int64_t> computes{0};

}  // namespace

// The readers' side (core/ep_api.h) -----------------------------------------------------------------------------------

void install_hooks(const AfHooks* hooks) {
  if (hooks && hooks->abi != AF_ABI) {
    throw Error(Code::kInvalidArgument, "hooks of version " + std::to_string(hooks->abi) +
                                            ", this library speaks version " + std::to_string(AF_ABI));
  }
  if (hooks && !hooks->capability) throw Error(Code::kInvalidArgument, "hooks without a capability function");
  auto copy = hooks ? std::make_shared<const AfHooks>(*hooks) : nullptr;
  const std::lock_guard<std::mutex> lock(registry().mutex);
  registry().hooks = std::move(copy);
}

uint64_t ep_of_token(const char* token) {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  const auto found = registry().tokens.find(token);
  return found == registry().tokens.end() ? 0 : found->second;
}

size_t live_eps(uint64_t* out, size_t capacity) {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  size_t i = 0;
  for (const auto& entry : registry().eps) {
    if (i < capacity) out[i] = entry.first;
    ++i;
  }
  return i;
}

void ep_regions(uint64_t ep, void (*each)(void* context, const AfRegionStats*), void* context) {
  std::vector<std::shared_ptr<RegionStats>> regions;
  {
    const std::lock_guard<std::mutex> lock(registry().mutex);
    const auto found = registry().eps.find(ep);
    if (found != registry().eps.end()) regions = found->second.regions;
  }
  for (const auto& r : regions) {
    const AfRegionStats stats{r->name.c_str(), r->runs.load(), r->saturated.load(), r->nonfinite.load()};
    each(context, &stats);
  }
}

void counters(int64_t out[3]) {
  {
    const std::lock_guard<std::mutex> lock(registry().mutex);
    out[0] = static_cast<int64_t>(registry().eps.size());
  }
  out[1] = live_kernels.load(std::memory_order_relaxed);
  out[2] = computes.load(std::memory_order_relaxed);
}

// The writers' side ---------------------------------------------------------------------------------------------------

std::shared_ptr<const AfHooks> current_hooks() {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  return registry().hooks;
}

uint64_t add_ep() {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  const uint64_t ep = ++registry().last_ep;
  registry().eps[ep];
  return ep;
}

void remove_ep(uint64_t ep) noexcept {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  const auto found = registry().eps.find(ep);
  if (found == registry().eps.end()) return;
  for (const std::string& token : found->second.tokens) {
    const auto bound = registry().tokens.find(token);
    if (bound != registry().tokens.end() && bound->second == ep) registry().tokens.erase(bound);
  }
  registry().eps.erase(found);
}

void bind_token(uint64_t ep, const std::string& token) {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  const auto found = registry().eps.find(ep);
  if (found == registry().eps.end()) return;
  uint64_t& owner = registry().tokens[token];
  if (owner == ep) return;
  owner = ep;
  std::deque<std::string>& kept = found->second.tokens;
  kept.push_back(token);
  if (kept.size() > kTokensKept) {
    const auto oldest = registry().tokens.find(kept.front());
    if (oldest != registry().tokens.end() && oldest->second == ep) registry().tokens.erase(oldest);
    kept.pop_front();
  }
}

std::shared_ptr<RegionStats> add_region(uint64_t ep, const std::string& name) {
  auto stats = std::make_shared<RegionStats>(name);
  const std::lock_guard<std::mutex> lock(registry().mutex);
  const auto found = registry().eps.find(ep);
  if (found != registry().eps.end()) found->second.regions.push_back(stats);
  return stats;
}

void count_kernels(int64_t by) noexcept { live_kernels.fetch_add(by, std::memory_order_relaxed); }
void count_compute() noexcept { computes.fetch_add(1, std::memory_order_relaxed); }

}  // namespace aneforge::ep
