// Channels to space and back. Block-major (space_to_depth, depth_to_space: ONNX's DCR) and channel-major
// (pixel_shuffle, pixel_unshuffle: CRD) differ only in where the block's two axes stand among the channels.
#include "host/move.h"

namespace aneforge::host {
namespace {

struct Axis {
  int64_t size, stride;
};

std::unique_ptr<Kernel> rearranged(Build& b, const Shape& shape, const std::vector<Axis>& axes) {
  b.expect_results(1);
  const int32_t x = b.read_any("x");
  expect_same_type(b, "x", shape);
  Strided<1> walk;
  for (const Axis& a : axes) walk.push(a.size, {a.stride});
  return strided_copy(b, x, walk);
}

std::unique_ptr<Kernel> to_space(Build& b, const char* factor_name, bool block_major) {
  const Shape& in = b.shape("x");
  const int64_t f = b.integer(factor_name);
  b.require(in.size() == 4 && f >= 1 && in[1] % (f * f) == 0, "x must be [n, C * f * f, H, W]");
  const int64_t n = in[0], c = in[1] / (f * f), h = in[2], w = in[3], plane = h * w;
  // x is [n, f, f, c, h, w] or [n, c, f, f, h, w]; the result [n, c, h, f, w, f].
  const int64_t channel = block_major ? plane : f * f * plane, across = block_major ? c * plane : plane,
                down = f * across;
  return rearranged(b, {n, c, h * f, w * f},
                    {{n, in[1] * plane}, {c, channel}, {h, w}, {f, down}, {w, 1}, {f, across}});
}

std::unique_ptr<Kernel> to_depth(Build& b, const char* factor_name, bool block_major) {
  const Shape& in = b.shape("x");
  const int64_t f = b.integer(factor_name);
  b.require(in.size() == 4 && f >= 1 && in[2] % f == 0 && in[3] % f == 0, "x must be [n, C, H * f, W * f]");
  const int64_t n = in[0], c = in[1], h = in[2] / f, w = in[3] / f, width = in[3], plane = in[2] * in[3];
  const Axis batch{n, c * plane}, channel{c, plane}, down{f, width}, across{f, 1}, rows{h, f * width}, columns{w, f};
  const Shape shape{n, c * f * f, h, w};
  if (block_major) return rearranged(b, shape, {batch, down, across, channel, rows, columns});
  return rearranged(b, shape, {batch, channel, down, across, rows, columns});
}

std::unique_ptr<Kernel> make_depth_to_space(Build& b) { return to_space(b, "block_size", true); }
std::unique_ptr<Kernel> make_space_to_depth(Build& b) { return to_depth(b, "block_size", true); }
std::unique_ptr<Kernel> make_pixel_shuffle(Build& b) { return to_space(b, "upscale_factor", false); }
std::unique_ptr<Kernel> make_pixel_unshuffle(Build& b) { return to_depth(b, "downscale_factor", false); }

}  // namespace

void register_rearrange(KernelTable& t) {
  t["depth_to_space"] = make_depth_to_space;
  t["space_to_depth"] = make_space_to_depth;
  t["pixel_shuffle"] = make_pixel_shuffle;
  t["pixel_unshuffle"] = make_pixel_unshuffle;
}

}  // namespace aneforge::host
