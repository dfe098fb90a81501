// Everything, and the table. The including file has set ANEFORGE_V16_<ISA>, ANEFORGE_V16_NS and the compiler's target.
#include "host/vector/depthwise.inl"
#include "host/vector/elementwise.inl"
#include "host/vector/math.inl"
#include "host/vector/move.inl"
#include "host/vector/pool.inl"
#include "host/vector/rows.inl"
#include "host/vector/tile.inl"
#include "host/vector/v16.h"
#include "host/vector/winograd.inl"

namespace aneforge::vec::ANEFORGE_V16_NS {

// Instrumented tiles take minutes to compile; a few small ones show the same mistakes.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kFewTiles = true;
#else
constexpr bool kFewTiles = false;
#endif

inline Kernels make_table(const char* name) {
  Kernels k{};
  k.name = name;
  // The largest tile that the registers hold. Its size never shows in results.
#if defined(ANEFORGE_V16_AVX512)
  constexpr int kBlocks = 2, kPixels = kFewTiles ? 3 : 14;  // 28 sums, 2 weights, 1 or 2 inputs of 32 registers
#elif defined(ANEFORGE_V16_AVX2)
  constexpr int kBlocks = 1,
                kPixels = kFewTiles ? 2 : 6;  // a vector is two registers: 12 sums, 2 weights, 1 input of 16
#elif defined(ANEFORGE_V16_NEON)
  constexpr int kBlocks = 1,
                kPixels = kFewTiles ? 2 : 6;  // a vector is four registers: 24 sums, 4 weights, 1 input of 32
#else
  constexpr int kBlocks = 1, kPixels = 2;
#endif
  k.tile_pixels = kPixels;
  k.tile_blocks = kBlocks;
  fill_tiles<1, kPixels>(k);
  if constexpr (kBlocks > 1) fill_tiles<kBlocks, kPixels>(k);
  fill_elementwise(k);
  k.depthwise = depthwise;
  k.max_pool = max_pool;
  k.average_pool = average_pool;
  k.winograd_input2 = winograd_input2;
  k.winograd_input4 = winograd_input4;
  k.winograd_output2 = winograd_output2;
  k.winograd_output4 = winograd_output4;
  k.finish = finish_blocks;
  k.transpose16 = transpose16;
  k.half_to_float = halves_to_floats;
  k.float_to_half = floats_to_halves;
  k.round = round_floats;
  k.scan = scan_floats;
  k.reduce = reduce_row;
  k.dot = dot_row;
  k.softmax = softmax_row;
  k.softmax_columns = softmax_columns;
  k.layer_norm = layer_norm_row;
  k.reduce_columns = reduce_columns;
  k.narrow_sum_columns = narrow_sum_columns;
  k.gemv = gemv;
  k.gemv_half = gemv_half;
  return k;
}

}  // namespace aneforge::vec::ANEFORGE_V16_NS
