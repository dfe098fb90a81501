#include "host/quirks.h"

#include <cmath>

#include "core/fp16.h"
#include "core/status.h"

namespace aneforge::host {
namespace {

constexpr const char* kIds[] = {"Q04", "Q06", "Q08", "Q10", "Q11", "Q12", "Q13", "Q14", "Q15",
                                "Q16", "Q17", "Q21", "Q26", "Q41", "Q09", "Q31", "Q40"};
constexpr size_t kFirstPoison = static_cast<size_t>(Quirk::kQ09);
constexpr size_t kCount = static_cast<size_t>(Quirk::kCount);
static_assert(sizeof kIds / sizeof *kIds == kCount, "one id for each quirk");

std::string listed(size_t first, size_t last) {
  std::string all;
  for (size_t i = first; i < last; ++i) all += (all.empty() ? "" : ",") + std::string(kIds[i]);
  return all;
}

}  // namespace

std::string QuirkSet::to_string() const {
  std::string s;
  for (size_t i = 0; i < kCount; ++i)
    if (has(static_cast<Quirk>(i))) s += (s.empty() ? "" : ",") + std::string(kIds[i]);
  return s;
}

QuirkSet parse_quirks(const std::string& list, bool poison) {
  const size_t first = poison ? kFirstPoison : 0, last = poison ? kCount : kFirstPoison;
  QuirkSet set;
  for (size_t at = 0; at <= list.size();) {
    size_t end = list.find(',', at);
    if (end == std::string::npos) end = list.size();
    std::string id;
    for (char c : list.substr(at, end - at))
      if (c != ' ') id += c;
    at = end + 1;
    if (id.empty()) continue;
    size_t i = first;
    while (i < last && id != kIds[i]) ++i;
    if (i == last)
      throw Error(Code::kInvalidArgument, std::string("host backend: no ") + (poison ? "poison" : "simulation") +
                                              " of quirk '" + id + "'; there are: " + listed(first, last));
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
