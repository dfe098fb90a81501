// What the caller of compile() may ask of this backend.
#pragma once
#include <string>

#include "core/executable.h"
#include "host/quirks.h"

namespace aneforge::host {

enum class Numerics : uint8_t {
  kFp32,    // no rounding at all: the reference
  kFp16,    // fp16 where the program stores fp16; fp32 inside an operation
  kEngine,  // as kFp16, plus the quirks that are switched on
};

// How 3×3 convolutions with stride 1 are computed (host/vector/winograd.h).
enum class Convolution : uint8_t {
  kAuto,  // F(2×2) in programs of halves, directly in fp32
  kDirect,
  kWinograd,  // F(4×4) where it pays, else F(2×2): the fastest, with more values that round to a neighbouring half
};

// Options (all are strings):
//   numerics  engine (default) | fp16 | fp32
//   quirks    comma list of ids, e.g. "Q04,Q11"; read in engine numerics only. Absent: Q04,Q06,Q11,Q12
//   poison    comma list of ids; where one is triggered, results become NaN (places.h). Engine numerics only
//   conv      auto (default) | direct | winograd
//   kernels   fast (default) | plain: plain keeps to the loops that define every operation (no layouts, no fusion)
struct Settings {
  Numerics numerics = Numerics::kEngine;
  QuirkSet quirks, poison;
  bool plain = false;
  Convolution convolution = Convolution::kAuto;

  bool rounds() const { return numerics != Numerics::kFp32; }
  bool has(Quirk q) const { return numerics == Numerics::kEngine && quirks.has(q); }
};

// Throws Error{kInvalidArgument} for an unknown option, word or quirk.
Settings parse_settings(const Options& options);
const char* name_of(Numerics);

}  // namespace aneforge::host
