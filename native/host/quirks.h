// Where the engine departs from the plain meaning of an operation, and this backend can follow it. The ids are those of
// the target data (targets/quirks): each row there says what was observed, on which chips, by whom. Here stands what is
// done about it.
#pragma once
#include <cstdint>
#include <string>

namespace aneforge::host {

enum class Quirk : uint8_t {
  kQ04,  // conv with two taps or more, matmul, linear: a sum that rounds beyond ±32752 is ±inf, before the bias
  kQ06,  // reduce_sum, reduce_mean, reduce_l1_norm, reduce_sum_square: every addition rounds to fp16
  kQ08,  // slice with begin > 0 on the last axis: |v| > 4094 is ±inf
  kQ10,  // matmul, linear with 8-bit weights: |activation| > 4094 is ±inf (places.h)
  kQ11,  // NaN at an input port (and in a constant) is +inf
  kQ12,  // an operation that would give NaN gives +0
  kQ13,  // reduce_log_sum_exp subtracts no maximum, sums in fp16, gives 0 when that overflows
  kQ14,  // softplus gives 0 from ln(65504) up
  kQ15,  // floor, ceil, round, then mul by one number: the mul is not done
  kQ16,  // round from |x| = 1024 up: adds a half in fp16 (ties away) and truncates
  kQ17,  // round at ties: away from zero
  kQ21,  // log(0) is -45440
  kQ26,  // softplus(+inf) and softsign(+inf) are 0
  kQ41,  // thresholded_relu keeps x == alpha (as MIL defines it: nothing to do)
  // Only as poison (places.h): the engine's values there are wrong and unknown.
  kQ09,  // concat of two slices with an offset along the width
  kQ31,  // a constant of [1, D, 1, 1], D >= 10240, between two reshapes
  kQ40,  // the engine's own attention beyond its positions
  kCount,
};

class QuirkSet {
 public:
  bool has(Quirk q) const { return bits_ >> static_cast<unsigned>(q) & 1u; }
  void add(Quirk q) { bits_ |= 1u << static_cast<unsigned>(q); }
  bool empty() const { return !bits_; }
  std::string to_string() const;  // "Q04,Q11", in ascending order

 private:
  uint32_t bits_ = 0;
};

// "Q04,Q11" -> set; spaces are ignored, an empty list is empty. Throws Error{kInvalidArgument} for an id without
// simulation (poison: for one that is not of that kind).
QuirkSet parse_quirks(const std::string& list, bool poison = false);

// The arithmetic of the rows that kernels share.
inline constexpr float kAccumulatorBound = 32752.0f;  // Q04, compared after rounding to fp16
inline constexpr float kWidthSliceBound = 4094.0f;    // Q08, Q10
inline constexpr float kLogOfZero = -45440.0f;        // Q21
inline constexpr float kSoftplusBound = 11.09f;       // Q14: no fp16 value lies between this and ln(65504)
float round_like_engine(float x, bool adds_half);     // Q17, and Q16 when adds_half

}  // namespace aneforge::host
