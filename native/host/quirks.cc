#include "host/quirks.h"

#include <cmath>

#include "core/fp16.h"
#include "core/status.h"

namespace aneforge::host {
namespace {

constexpr const char* kIds[] = {"Q04", "Q06", "Q08", "Q11", "Q12", "Q13", "Q14",
                                "Q15", "Q16", "Q17", "Q21", "Q26", "Q41"};
constexpr size_t kCount = static_cast<size_t>(Quirk::kCount);
static_assert(sizeof kIds / sizeof *kIds == kCount, "one id for each quirk");

std::string listed() {
  std::string all;
  for (const char* id : kIds) all += (all.empty() ? "" : ",") + std::string(id);
  return all;
}

}  // namespace

std::string QuirkSet::to_string() const {
  std::string s;
  for (size_t i = 0; i < kCount; ++i)
    if (has(static_cast<Quirk>(i))) s += (s.empty() ? "" : ",") + std::string(kIds[i]);
  return s;
}

QuirkSet parse_quirks(const std::string& list) {
  QuirkSet set;
  for (size_t at = 0; at <= list.size();) {
    size_t end = list.find(',', at);
    if (end == std::string::npos) end = list.size();
    std::string id;
    for (char c : list.substr(at, end - at))
      if (c != ' ') id += c;
    at = end + 1;
    if (id.empty()) continue;
    size_t i = 0;
    while (i < kCount && id != kIds[i]) ++i;
    if (i == kCount)
      throw Error(Code::kInvalidArgument, "host backend: no simulation of quirk '" + id + "'; there are: " + listed());
    set.add(static_cast<Quirk>(i));
  }
  return set;
}

float round_like_engine(float x, bool adds_half) {
  if (!(std::fabs(x) < 0x1p23f)) return x;  // whole already, infinite, or NaN
  if (!adds_half || std::fabs(x) < 1024.0f) return std::round(x);
  // Between 1024 and 65504 the sum is exact in binary32; to fp16 with ties away: add half of the last place kept, cut.
  const uint32_t bits = float_bits(x + std::copysign(0.5f, x));
  const float half = bits_float((bits + 0x1000u) & 0xffffe000u);
  return std::trunc(half);
}

}  // namespace aneforge::host
