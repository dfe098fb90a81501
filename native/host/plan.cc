#include <algorithm>
#include <iterator>
#include <map>

#include "host/program.h"

namespace aneforge::host {
namespace {

constexpr size_t kAlign = 64;

size_t padded(size_t bytes) { return (std::max<size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign; }

// First fit by address, free neighbours joined.
class Arena {
 public:
  size_t take(size_t bytes) {
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < bytes) continue;
      const size_t offset = it->first, rest = it->second - bytes;
      free_.erase(it);
      if (rest) free_.emplace(offset + bytes, rest);
      return offset;
    }
    // The last free block, if it ends where the arena ends, grows.
    size_t offset = end_;
    if (!free_.empty()) {
      auto last = std::prev(free_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        free_.erase(last);
      }
    }
    end_ = offset + bytes;
    return offset;
  }
  void give(size_t offset, size_t bytes) {
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    free_.emplace(offset, bytes);
  }
  size_t size() const { return end_; }

 private:
  std::map<size_t, size_t> free_;
  size_t end_ = 0;
};

}  // namespace

Plan plan(const Graph& graph) {
  const size_t n = graph.values.size(), last_step = graph.steps.size();
  Plan p;
  p.offset.assign(n, Plan::kNone);
  p.scratch_offset.assign(last_step, Plan::kNone);

  // Last step that needs each memory (of the roots; views count for their root). Ports live to the end: inputs because
  // a program may return them, outputs until they are copied out.
  std::vector<size_t> last(n, 0);
  std::vector<bool> used(n, false);
  const auto need = [&](int32_t value, size_t step) {
    const auto r = static_cast<size_t>(graph.root(value));
    used[r] = true;
    last[r] = std::max(last[r], step);
  };
  for (size_t i = 0; i < last_step; ++i) {
    const Step& step = graph.steps[i];
    if (step.dead) continue;
    for (int32_t v : step.reads) need(v, i);
    for (int32_t v : step.results) need(v, i);
  }
  for (int32_t v : graph.inputs) need(v, 0);
  for (int32_t v : graph.outputs) need(v, last_step);

  std::vector<std::vector<size_t>> ends(last_step + 1);
  Arena arena;
  const auto place = [&](int32_t value) {
    const auto r = static_cast<size_t>(value);
    const Value& v = graph.values[r];
    if (v.view_of >= 0 || v.constant() || !used[r] || p.offset[r] != Plan::kNone) return;
    p.offset[r] = arena.take(padded(v.bytes));
    ends[last[r]].push_back(r);
  };
  for (int32_t v : graph.inputs) place(v);
  for (size_t i = 0; i < last_step; ++i) {
    const Step& step = graph.steps[i];
    if (!step.dead) {
      for (int32_t v : step.results) place(v);
      if (step.scratch) {
        const size_t bytes = padded(step.scratch);
        p.scratch_offset[i] = arena.take(bytes);
        arena.give(p.scratch_offset[i], bytes);
      }
    }
    for (size_t r : ends[i]) arena.give(p.offset[r], padded(graph.values[r].bytes));
  }
  p.arena = arena.size() + kAlign;  // slack: kernels may read a whole vector at the end
  return p;
}

}  // namespace aneforge::host
