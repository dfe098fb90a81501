// What the process knows of its provider instances: numbers, tokens, regions, counters, and the hooks that compile for
// them. Behind core/ep_api.h for the readers; this is the writers' side.
//
// One lock guards it, and it is never held while anything outside is called.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "core/c_api.h"

namespace aneforge::ep {

// Written by Compute on any thread, read by reports.
struct RegionStats {
  explicit RegionStats(std::string region) : name(std::move(region)) {}
  const std::string name;
  std::atomic<uint64_t> runs{0}, saturated{0}, nonfinite{0};
};

// The hooks in force, or null. A copy: they may be replaced while a call is under way.
std::shared_ptr<const AfHooks> current_hooks();

uint64_t add_ep();  // never 0, never the same twice
void remove_ep(uint64_t ep) noexcept;
void bind_token(uint64_t ep, const std::string& token);
std::shared_ptr<RegionStats> add_region(uint64_t ep, const std::string& name);

void count_kernels(int64_t by) noexcept;
void count_compute() noexcept;

}  // namespace aneforge::ep
