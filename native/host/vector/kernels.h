// The table of vector kernels: one per instruction set, all with the same results to the last bit. Plans (conv.h,
// matmul.h, …) are ordinary C++ that walks tensors and calls these; only avx512.cc, avx2.cc, neon.cc and portable.cc
// contain instructions.
//
// Activations are fp32 in memory. In a half-precision program every stored value already is a half: kernels round in
// registers, before they store. Channels live in blocks of 16 (see layout.h); a lane past the last channel holds
// anything, and nothing that is read from it reaches a valid lane.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aneforge::vec {

constexpr int kLanes = 16;
constexpr int kMaxTilePixels = 14;  // pixels of one tile, and its blocks of 16 channels: at most
constexpr int kMaxTileBlocks = 2;

// What happens to a value where the program stores it.
enum class Rounding : uint8_t {
  kNone,       // fp32 programs
  kHalf,       // to the nearest even half, then back
  kHalfNoNan,  // the same, and a NaN becomes +0 (quirk Q12)
};

enum class Elementwise : uint8_t {
  // of x and an operand y
  kAdd,
  kSub,
  kReverseSub,
  kMul,
  kDiv,
  kReverseDiv,
  kMaximum,
  kMinimum,  // a NaN on either side wins
  kPrelu,    // x < 0 ? x * y : x
  // of x alone; alpha, beta where named
  kCopy,
  kRelu,
  kClamp,            // min(beta, max(alpha, x)): a NaN passes
  kLeakyRelu,        // x < 0 ? alpha * x : x
  kClampedRelu,      // min(beta, the same)
  kElu,              // x > 0 ? x : alpha * (exp(x) - 1)
  kThresholdedRelu,  // x < alpha ? 0 : x
  kAffine,           // alpha * x + beta, two roundings to float
  kSigmoid,
  kHardSigmoid,      // min(1, max(0, alpha * x + beta))
  kSilu,             // x * sigmoid(alpha * x)
  kGateSigmoid,      // x * round(sigmoid(x)): two operations of a program, two roundings
  kGateHardSigmoid,  // likewise
  kTanh,
  kScaledTanh,  // alpha * tanh(beta * x)
  kGelu,        // by erf
  kGeluTanh,
  kSoftplus,
  kSoftsign,
  kErf,
  kExp,
  kLog,  // log(x + alpha)
  kSqrt,
  kRsqrt,    // 1 / sqrt(x + alpha)
  kInverse,  // 1 / (x + alpha)
  kSquare,
  kAbs,
  kNegate,
  kFloor,
  kCeil,
  kCount,
};
constexpr bool is_binary(Elementwise op) { return op <= Elementwise::kPrelu; }

// out[i] = round(op(x[i], y[i])) over `vectors` groups of 16. y_step is 16, or 0 when all groups use the same 16 values
// (a scalar, or one value a channel in blocked layout). out may be x; it may be y too.
using ElementwiseFn = void (*)(const float* x, const float* y, ptrdiff_t y_step, float* out, size_t vectors,
                               float alpha, float beta, Rounding rounding);

// What a tile does with its finished sums, in this order and in registers. Everything is optional except the rounding.
struct Finish {
  bool saturate = false;        // quirk Q04: a sum that rounds to a half beyond ±32752 becomes an infinity
  const float* bias = nullptr;  // part of the operation: no rounding before it; 16 floats a block
  Rounding rounding = Rounding::kNone;
  const float* mul_channel = nullptr;  // a multiplication of its own, with its own rounding; one factor a channel
  const float* add_channel = nullptr;  // an add of its own, with its own rounding
  const float* add_tensor = nullptr;   // likewise; strides below
  ptrdiff_t tensor_block = 0, tensor_pixel = 0;
  bool clamp = false;  // min(high, max(low, x)), bounds are halves where the rest is; relu is [0, inf]
  float low = 0, high = 0;
};

// One tile of a convolution or a matrix product: up to kMaxTilePixels pixels × up to kMaxTileBlocks blocks of 16 output
// channels, summed over `blocks × kernel_h × kernel_w × channels` in that order. All strides are in floats.
struct Tile {
  const float* in = nullptr;       // first tap of the first pixel
  const float* weights = nullptr;  // [blocks][kernel_h][kernel_w][channels][tile blocks][16]
  float* out = nullptr;
  ptrdiff_t in_block = 0, in_row = 0, in_tap = 0;
  ptrdiff_t in_pixel = 0;  // used by the kind kAnyStep only
  ptrdiff_t out_block = 0, out_pixel = 0;
  int blocks = 1, kernel_h = 1, kernel_w = 1;
  int channels = kLanes;             // per block, contiguous in memory (kind kPanel: 16 floats apart)
  int last_channels = kLanes;        // of the last block
  const int32_t* offsets = nullptr;  // kScattered: where each of `channels` inputs lies, from `in`; no other loop
  bool accumulate = false;           // add the sums that *out holds from earlier slabs of the same reduction
  const Finish* finish = nullptr;    // null: store the plain sums, more slabs follow
};
using TileFn = void (*)(const Tile&);
// By the distance of neighbouring pixels in floats (blocked layout: 16 times the stride).
enum TileKind {
  kStep16,
  kStep32,
  kAnyStep,  // in_pixel
  kScattered1,
  kScattered2,    // planar input, stride 1 or 2: all taps in one loop over `offsets`; short loops would mispredict
  kScatteredAny,  // likewise, pixels in_pixel apart; tiles of one block only
  kPanel,         // pixels are neighbours, channels 16 floats apart: rows of a matrix packed by 16
  kTileKinds,
};

// Rows of a depthwise convolution on one block of 16 channels.
struct DepthwiseRow {
  const float* in = nullptr;       // first tap of the first pixel
  const float* weights = nullptr;  // [kernel_h][kernel_w][16]
  float* out = nullptr;            // pixels 16 floats apart
  ptrdiff_t in_row = 0, in_tap = 0, in_pixel = 0;
  ptrdiff_t in_next = 0, out_next = 0, tensor_next = 0;  // from one output row to the next
  int kernel_h = 0, kernel_w = 0, pixels = 0, rows = 1;
  const Finish* finish = nullptr;
};

// A pooling window row on one block; the window is already cut to the valid taps.
struct PoolRow {
  const float* in = nullptr;
  float* out = nullptr;  // pixels 16 floats apart
  ptrdiff_t in_row = 0, in_tap = 0, in_pixel = 0;
  int kernel_h = 0, kernel_w = 0, pixels = 0;
  float divisor = 1;  // averages
  Rounding rounding = Rounding::kNone;
};

// The last step of a Winograd tile on one block of 16 channels: sums of products back to 2×2 or 4×4 results.
struct WinogradOutput {
  const float* sums = nullptr;  // (tile + 2)² vectors, sums_step apart
  ptrdiff_t sums_step = 0;
  float* out = nullptr;
  ptrdiff_t out_row = 0, tensor_row = 0;
  int rows = 0, columns = 0;  // of the tile that lie inside the image
  int channels = kLanes;      // valid lanes
  const Finish* finish = nullptr;
};

enum class Reduce : uint8_t { kSum, kMean, kMax, kMin, kSumOfSquares, kSumOfMagnitudes };

struct Scan {
  float low, high;  // over the finite values; low > high: there are none
  bool finite;      // no infinity and no NaN
};

struct Kernels {
  const char* name;
  int tile_pixels, tile_blocks;                                     // the largest tile this machine holds in registers
  TileFn tile[kTileKinds][kMaxTileBlocks + 1][kMaxTilePixels + 1];  // [kind][blocks][pixels]
  ElementwiseFn elementwise[static_cast<size_t>(Elementwise::kCount)];

  void (*depthwise)(const DepthwiseRow&);
  void (*max_pool)(const PoolRow&);  // a NaN in the window wins
  void (*average_pool)(const PoolRow&);

  // Bᵀ d B of one tile: 4×4 or 6×6 inputs, the results out_step apart.
  void (*winograd_input2)(const float* in, ptrdiff_t in_row, float* out, ptrdiff_t out_step);
  void (*winograd_input4)(const float* in, ptrdiff_t in_row, float* out, ptrdiff_t out_step);
  // Aᵀ m A and the end of the operation. False, and nothing written, when a sum is not finite: an infinity becomes NaN
  // or spreads over the whole tile in the transforms, so the tile must be computed directly.
  bool (*winograd_output2)(const WinogradOutput&);
  bool (*winograd_output4)(const WinogradOutput&);

  // What a tile does at its end, over `blocks` blocks of one pixel that lie in memory.
  void (*finish)(const Finish& finish, float* sums, int blocks);

  // Pure moves. 16 rows of 16 floats each; steps in floats.
  void (*transpose16)(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row);
  void (*half_to_float)(const uint16_t* from, float* to, size_t n);
  void (*float_to_half)(const float* from, uint16_t* to, size_t n);
  // to[i] = round(from[i]); may be in place.
  void (*round)(const float* from, float* to, size_t n, Rounding rounding);
  Scan (*scan)(const float* x, size_t n);

  // Row-wise, over n floats of one row. Sums have 4×16 partial sums and a fixed tree, so they do not depend on
  // alignment.
  float (*reduce)(Reduce op, const float* x, size_t n);
  float (*dot)(const float* x, const float* y, size_t n);
  // softmax over one row, the maximum subtracted; one rounding at the end. to may be from.
  void (*softmax)(const float* from, float* to, size_t n, Rounding rounding);
  // The same down 16 columns side by side, rows `step` apart; sums in index order.
  void (*softmax_columns)(const float* from, ptrdiff_t step, float* to, ptrdiff_t to_step, size_t n, Rounding rounding);
  // (x - mean) / sqrt(variance + epsilon) * gamma + beta; gamma and beta may be null. to may be x.
  void (*layer_norm)(const float* x, const float* gamma, const float* beta, float* to, size_t n, float epsilon,
                     Rounding rounding);
  // Down the columns: out[j] = op over i of x[i * step + j], for j in [0, 16 * vectors).
  void (*reduce_columns)(Reduce op, const float* x, size_t count, ptrdiff_t step, float* out, size_t vectors);
  // Adds to the sums so far, in index order, with a rounding to half after every addition (quirk Q06). kSum,
  // kSumOfSquares, kSumOfMagnitudes.
  void (*narrow_sum_columns)(Reduce op, const float* x, size_t count, ptrdiff_t step, float* sums, size_t vectors);

  // rows × [k] times [k][columns]: few rows (1 to 3), weights [columns / 32][k][32], float or half; y row-major with
  // step y_row; four chains (k mod 4) and a fixed tree. `blocks` counts groups of 32 columns.
  void (*gemv)(const float* x, ptrdiff_t x_row, int rows, const float* weights, size_t k, size_t blocks, float* y,
               ptrdiff_t y_row);
  void (*gemv_half)(const float* x, ptrdiff_t x_row, int rows, const uint16_t* weights, size_t k, size_t blocks,
                    float* y, ptrdiff_t y_row);
};

// The best table for this machine, chosen once. The environment variable ANEFORGE_ISA=avx512|avx2|neon|portable narrows
// the choice (a set that the machine lacks is ignored).
const Kernels& kernels();
// A given table, or null where the machine or the build lacks it.
const Kernels* kernels_named(const char* name);

// One per file; null where the file is empty for this architecture.
const Kernels* avx512_kernels();
const Kernels* avx2_kernels();
const Kernels* neon_kernels();
const Kernels* portable_kernels();

}  // namespace aneforge::vec
