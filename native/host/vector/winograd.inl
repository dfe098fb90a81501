// Transforms of Winograd's minimal filtering F(2×2, 3×3) and F(4×4, 3×3), 16 channels at once: no lane crosses.
#pragma once
#include "host/vector/tile.inl"

namespace aneforge::vec::ANEFORGE_V16_NS {

// Bᵀ d for one column of 4.
V16_INLINE void input_column(const V (&d)[4], V (&o)[4]) {
  o[0] = sub(d[0], d[2]);
  o[1] = add(d[1], d[2]);
  o[2] = sub(d[2], d[1]);
  o[3] = sub(d[1], d[3]);
}
// … of 6.
V16_INLINE void input_column(const V (&d)[6], V (&o)[6]) {
  const V four = splat(4.0f), minus_five = splat(-5.0f);
  o[0] = fma(four, d[0], fma(minus_five, d[2], d[4]));
  const V p = fma(splat(-4.0f), d[2], d[4]), q = fma(splat(-4.0f), d[1], d[3]);
  o[1] = add(p, q);
  o[2] = sub(p, q);
  const V r = sub(d[4], d[2]), t = mul(splat(2.0f), sub(d[3], d[1]));
  o[3] = add(r, t);
  o[4] = sub(r, t);
  o[5] = fma(four, d[1], fma(minus_five, d[3], d[5]));
}
// Aᵀ m for one column.
V16_INLINE void output_column(const V (&m)[4], V (&o)[2]) {
  o[0] = add(add(m[0], m[1]), m[2]);
  o[1] = sub(sub(m[1], m[2]), m[3]);
}
V16_INLINE void output_column(const V (&m)[6], V (&o)[4]) {
  const V a = add(m[1], m[2]), b = sub(m[1], m[2]), c = add(m[3], m[4]), d = sub(m[3], m[4]);
  o[0] = add(add(m[0], a), c);
  o[1] = fma(splat(2.0f), d, b);
  o[2] = fma(splat(4.0f), c, a);
  o[3] = add(fma(splat(8.0f), d, b), m[5]);
}

template <int Size>
V16_INLINE void winograd_input(const float* in, ptrdiff_t in_row, float* out, ptrdiff_t out_step) {
  V columns[Size][Size];  // [column][row]
  V16_UNROLL(6)
  for (int x = 0; x < Size; ++x) {
    V d[Size];
    V16_UNROLL(6)
    for (int y = 0; y < Size; ++y) d[y] = load(in + y * in_row + x * kLanes);
    input_column(d, columns[x]);
  }
  V16_UNROLL(6)
  for (int y = 0; y < Size; ++y) {
    V d[Size], o[Size];
    V16_UNROLL(6)
    for (int x = 0; x < Size; ++x) d[x] = columns[x][y];
    input_column(d, o);
    V16_UNROLL(6)
    for (int x = 0; x < Size; ++x) store(out + (y * Size + x) * out_step, o[x]);
  }
}
inline void winograd_input2(const float* in, ptrdiff_t in_row, float* out, ptrdiff_t out_step) {
  winograd_input<4>(in, in_row, out, out_step);
}
inline void winograd_input4(const float* in, ptrdiff_t in_row, float* out, ptrdiff_t out_step) {
  winograd_input<6>(in, in_row, out, out_step);
}

template <int Tile>
V16_INLINE bool winograd_output(const WinogradOutput& w) {
  constexpr int kSize = Tile + 2;
  V columns[kSize][Tile];
  V16_UNROLL(6)
  for (int x = 0; x < kSize; ++x) {
    V m[kSize];
    V16_UNROLL(6)
    for (int y = 0; y < kSize; ++y) m[y] = load(w.sums + (y * kSize + x) * w.sums_step);
    output_column(m, columns[x]);
  }
  V results[Tile][Tile];
  V check = splat(0.0f);
  V16_UNROLL(4)
  for (int y = 0; y < Tile; ++y) {
    V m[kSize];
    V16_UNROLL(6)
    for (int x = 0; x < kSize; ++x) m[x] = columns[x][y];
    output_column(m, results[y]);
    V16_UNROLL(4)
    for (int x = 0; x < Tile; ++x) check = fma(results[y][x], splat(0.0f), check);  // 0, or NaN for what is not finite
  }
  // Lanes past the last channel hold anything: they must not count.
  float lanes[kLanes];
  store(lanes, check);
  float spoiled = 0;
  for (int c = 0; c < w.channels; ++c) spoiled += lanes[c];
  if (spoiled != 0.0f || spoiled != spoiled) return false;
  Finish f = *w.finish;
  for (int y = 0; y < w.rows; ++y) {
    float* out = w.out + y * w.out_row;
    if (w.columns == Tile) {
      V acc[Tile][1];
      V16_UNROLL(4)
      for (int x = 0; x < Tile; ++x) acc[x][0] = results[y][x];
      finish_tile(acc, f);
      V16_UNROLL(4)
      for (int x = 0; x < Tile; ++x) store(out + x * kLanes, acc[x][0]);
    } else {
      Finish g = f;
      for (int x = 0; x < w.columns; ++x) {
        V acc[1][1] = {{results[y][x]}};
        finish_tile(acc, g);
        store(out + x * kLanes, acc[0][0]);
        if (g.add_tensor) g.add_tensor += g.tensor_pixel;
      }
    }
    if (f.add_tensor) f.add_tensor += w.tensor_row;
  }
  return true;
}
inline bool winograd_output2(const WinogradOutput& w) { return winograd_output<2>(w); }
inline bool winograd_output4(const WinogradOutput& w) { return winograd_output<4>(w); }

}  // namespace aneforge::vec::ANEFORGE_V16_NS
