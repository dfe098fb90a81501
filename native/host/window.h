// Sliding windows over one to three spatial dimensions: what conv, conv_transpose and the pools share. Missing
// dimensions stand in front with extent 1.
#pragma once
#include <array>

#include "host/kernels.h"

namespace aneforge::host {

struct Window {
  size_t rank = 0;  // spatial dimensions the program has
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  std::array<int64_t, 3> before{0, 0, 0}, after{0, 0, 0};  // padding; `after` may be larger than any window needs

  int64_t in_plane() const { return in[0] * in[1] * in[2]; }
  int64_t out_plane() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t extent(size_t d) const { return (kernel[d] - 1) * dilation[d] + 1; }
};

// Reads strides, dilations, pad_type, pad of x (rank 3 to 5), for a window of `kernel_sizes`. out is not filled in.
Window read_window(Build& b, const std::vector<int64_t>& kernel_sizes, const char* default_pad_type);
// Of a pool, out filled in.
Window pool_window(Build& b);
// N, C, then the spatial part of `out`.
Shape window_result(const Window& w, int64_t n, int64_t channels);

// Positions i in [0, n) for which begin + i * step lies within [0, limit).
struct Valid {
  int64_t from, to;
};
inline Valid valid_range(int64_t begin, int64_t step, int64_t limit, int64_t n) {
  const int64_t from = begin >= 0 ? 0 : (-begin + step - 1) / step;
  const int64_t to = begin >= limit ? 0 : (limit - begin + step - 1) / step;
  return {from, to < n ? to : n};
}

}  // namespace aneforge::host
