#include "host/vector/conv.h"

#include <algorithm>
#include <utility>

#include "host/vector/scratch.h"

namespace aneforge::vec {
namespace {

// A reduction is cut into slabs of about this many products; slab sums are added in order. Short partial sums keep the
// fp32 error near that of blocked summation, and a slab's weights stay in the second-level cache. Constant: it decides
// results.
constexpr int kSlabProducts = 1024;
// Weights of a layer that stay in cache while rows go by.
constexpr size_t kCachedWeightBytes = 256 << 10;
constexpr int kFlatUnit = kMaxTilePixels * 8;

int ceil_div(int a, int b) { return (a + b - 1) / b; }

}  // namespace

bool ConvPlan::supports(const ConvParams& p, const ImageLayout& in) {
  if (in.channels % p.groups || p.out_channels % p.groups) return false;
  if (p.groups == 1) return true;
  return !in.planar && (in.channels / p.groups) % kLanes == 0 && (p.out_channels / p.groups) % kLanes == 0;
}

ConvPlan::ConvPlan(const ConvParams& p, const ImageLayout& in, const ImageLayout& out, const float* weights,
                   Epilogue epilogue, Keep keep, const ConvGrid& grid)
    : params_(p), in_(in), out_(out), grid_(grid), epilogue_(std::move(epilogue)), kernels_(kernels()) {
  const bool whole = grid.height == 0;
  if (whole) grid_.height = out.height, grid_.width = out.width;
  if (out.planar && grid_.channels.empty())
    for (int c = 0; c < out.channels; ++c) grid_.channels.push_back(c * out.block());
  const int in_channels = in.channels / p.groups, out_channels = p.out_channels / p.groups;
  const int out_blocks = ceil_div(out_channels, kLanes);
  in_blocks_ = in.planar ? in_channels : ceil_div(in_channels, kLanes);

  tile_.in_block = in.block();
  tile_.in_row = in.row() * p.dilation_h;
  tile_.in_tap = in.pixel() * p.dilation_w;
  tile_.in_pixel = in.pixel() * p.stride_w;
  tile_.out_block = out.block();
  tile_.out_pixel = out.pixel() * grid_.step_x;
  tile_.kernel_h = p.kernel_h;
  tile_.kernel_w = p.kernel_w;
  tile_.channels = in.planar ? 1 : kLanes;
  last_channels_ = in.planar ? 1 : in_channels - (in_blocks_ - 1) * kLanes;
  kind_ = tile_.in_pixel == 16 ? kStep16 : tile_.in_pixel == 32 ? kStep32 : kAnyStep;

  const int taps = p.kernel_h * p.kernel_w, products_per_block = taps * (in.planar ? 1 : kLanes);
  slabs_ = ceil_div(in_blocks_, std::max(1, kSlabProducts / products_per_block));
  slab_blocks_ = ceil_div(in_blocks_, slabs_);
  slabs_ = ceil_div(in_blocks_, slab_blocks_);
  if (in.planar && slabs_ == 1 && p.stride_w <= 2) {
    kind_ = p.stride_w == 1 ? kScattered1 : kScattered2;
    for (int c = 0; c < in_blocks_; ++c)
      for (int ky = 0; ky < p.kernel_h; ++ky)
        for (int kx = 0; kx < p.kernel_w; ++kx)
          offsets_.push_back(static_cast<int32_t>(c * tile_.in_block + ky * tile_.in_row + kx * tile_.in_tap));
    tile_.channels = static_cast<int>(offsets_.size());
  }
  floats_per_in_block_ = static_cast<size_t>(products_per_block) * kLanes;

  // Pack [output group][input block][kh][kw][channel][block in group][16].
  const size_t reduction = static_cast<size_t>(in_channels) * taps;
  weights_ = Aligned<float>(reduction * kLanes * out_blocks * p.groups);
  size_t at = 0;
  for (int g = 0; g < p.groups; ++g) {
    for (int b = 0; b < out_blocks; b += kernels_.tile_blocks) {
      Group group{g * out_blocks + b, std::min(kernels_.tile_blocks, out_blocks - b), g * in_blocks_, at};
      float* w = weights_.data() + at;
      for (int ib = 0; ib < in_blocks_; ++ib) {
        const int channels = in.planar ? 1 : std::min(kLanes, in_channels - ib * kLanes);
        for (int tap = 0; tap < taps; ++tap)
          for (int c = 0; c < channels; ++c)
            for (int ob = 0; ob < group.blocks; ++ob)
              for (int lane = 0; lane < kLanes; ++lane) {
                const int o = (b + ob) * kLanes + lane, i = in.planar ? ib : ib * kLanes + c;
                *w++ = o < out_channels
                           ? weights[(static_cast<size_t>(g * out_channels + o) * in_channels + i) * taps + tap]
                           : 0.0f;
              }
      }
      at = static_cast<size_t>(w - weights_.data());
      groups_.push_back(group);
    }
  }

  weight_count_ = weights_.size();
  if (keep == Keep::kHalves) {
    half_weights_ = Aligned<uint16_t>(weight_count_);
    kernels_.float_to_half(weights_.data(), half_weights_.data(), weight_count_);
    weights_ = Aligned<float>();
  }

  flat_ = whole && taps == 1 && p.stride_h == 1 && p.stride_w == 1 && !in.planar && !in.has_halo() && !out.has_halo() &&
          p.pad_top == 0 && p.pad_left == 0 && epilogue_.operands_dense(out.row());
  if (flat_) {
    unit_pixels_ = kFlatUnit;
    units_per_image_ = ceil_div(out.height * out.width, kFlatUnit);
  } else {
    unit_pixels_ = grid_.width;
    units_per_image_ = grid_.height;
  }
  units_ = units_per_image_ * out.batch;
  // Where all weights fit, a few rows at a time go through all groups, so the input is read once; else each group's
  // weights are read once.
  unit_chunk_ = units_;
  if (weight_count_ * sizeof(float) <= kCachedWeightBytes)
    unit_chunk_ =
        std::max(1, static_cast<int>((64 << 10) / (sizeof(float) * kLanes * in_blocks_ * std::max(1, unit_pixels_))));
}

void ConvPlan::run(const float* in, float* out, const float* const* operands, Parallel& parallel) const {
  const int groups = static_cast<int>(groups_.size());
  int group_parts = 1, unit_parts = 1;
  const double products = static_cast<double>(weight_count_) * grid_.height * grid_.width * out_.batch;
  if (const int wanted = task_count(parallel, products, kProductsOfATask); wanted > 1) {
    // Cut along what is larger in memory, so that less is read twice.
    if (weight_count_ > in_.floats()) {
      group_parts = std::min(groups, wanted);
      unit_parts = std::min(units_, ceil_div(wanted, group_parts));
    } else {
      unit_parts = std::min(units_, wanted);
      group_parts = std::min(groups, ceil_div(wanted, unit_parts));
    }
  }
  parallel.each(static_cast<size_t>(group_parts) * unit_parts, [&](size_t task) {
    const int gp = static_cast<int>(task) / unit_parts, up = static_cast<int>(task) % unit_parts;
    const auto cut = [](int total, int part, int parts) {
      return static_cast<int>(static_cast<int64_t>(total) * part / parts);
    };
    run_task(in, out, operands, cut(groups, gp, group_parts), cut(groups, gp + 1, group_parts),
             cut(units_, up, unit_parts), cut(units_, up + 1, unit_parts));
  });
}

void ConvPlan::run_task(const float* in, float* out, const float* const* operands, int g0, int g1, int unit0,
                        int unit1) const {
  for (int chunk = unit0; chunk < unit1; chunk += unit_chunk_) {
    const int chunk_end = std::min(unit1, chunk + unit_chunk_);
    for (int g = g0; g < g1; ++g)
      for (int slab = 0; slab < slabs_; ++slab) {
        const float* weights = weights_of(groups_[g], slab);
        for (int unit = chunk; unit < chunk_end; ++unit) {
          const int n = unit / units_per_image_, u = unit % units_per_image_;
          const Run run = flat_
                              ? Run{n, 0, u * kFlatUnit, std::min(kFlatUnit, out_.height * out_.width - u * kFlatUnit)}
                              : Run{n, u, 0, grid_.width};
          run_pixels(groups_[g], slab, weights, in, out, operands, run);
        }
      }
  }
}

void ConvPlan::run_some(const float* in, float* out, const float* const* operands, const std::vector<Run>& runs) const {
  for (const Group& group : groups_)
    for (int slab = 0; slab < slabs_; ++slab) {
      const float* weights = weights_of(group, slab);
      for (const Run& run : runs) run_pixels(group, slab, weights, in, out, operands, run);
    }
}

const float* ConvPlan::weights_of(const Group& group, int slab) const {
  const int first = slab * slab_blocks_, end = std::min(in_blocks_, first + slab_blocks_);
  const size_t at = group.weights + floats_per_in_block_ * first * group.blocks;
  if (!half_weights_.size()) return weights_.data() + at;
  // The last input block may have fewer channels than the others.
  const size_t rest = in_.planar ? 0 : floats_per_in_block_ / kLanes * (kLanes - last_channels_);
  const size_t count = (floats_per_in_block_ * (end - first) - (end == in_blocks_ ? rest : 0)) * group.blocks;
  float* wide = thread_scratch(count);
  kernels_.half_to_float(half_weights_.data() + at, wide, count);
  return wide;
}

void ConvPlan::run_pixels(const Group& group, int slab, const float* weights, const float* in, float* out,
                          const float* const* operands, const Run& run) const {
  const int n = run.n, y = run.y, x = run.x, pixels = run.pixels;
  const int first = slab * slab_blocks_, blocks = std::min(slab_blocks_, in_blocks_ - first);
  const int out_y = grid_.y + y * grid_.step_y, out_x = grid_.x + x * grid_.step_x;
  const bool last_slab = slab + 1 == slabs_;
  Tile t = tile_;
  t.in = in + in_.offset(n, group.in_block + first, y * params_.stride_h - params_.pad_top,
                         x * params_.stride_w - params_.pad_left);
  t.weights = weights;
  t.blocks = blocks;
  t.last_channels = first + blocks == in_blocks_ ? last_channels_ : t.channels;
  t.offsets = offsets_.data();
  t.accumulate = slab > 0;
  Finish finish;
  if (last_slab) {
    finish = epilogue_.finish(operands, n, group.first_block, out_y, out_x);
    finish.tensor_pixel *= grid_.step_x;
    t.finish = &finish;
  }
  float* to = out + out_.offset(n, group.first_block, out_y, out_x);
  if (out_.planar) return run_planar(slab, t, to, pixels);
  const int tiles = ceil_div(pixels, kernels_.tile_pixels);
  int done = 0;
  for (int i = 0; i < tiles; ++i) {
    const int count = ceil_div(pixels - done, tiles - i);
    t.out = to;
    kernels_.tile[kind_][group.blocks][count](t);
    if (last_slab && epilogue_.has_rest())
      run_rest(group, operands, Run{n, out_y, out_x + done * grid_.step_x, count}, to);
    done += count;
    t.in += count * tile_.in_pixel;
    to += count * tile_.out_pixel;
    if (finish.add_tensor) finish.add_tensor += count * finish.tensor_pixel;
  }
}

// Tiles give blocks of channels: they are turned into rows of each channel, and these are finished and stored.
void ConvPlan::run_planar(int slab, Tile t, float* out, int pixels) const {
  constexpr int kRow = kMaxTilePixels * 8;
  const int channels = static_cast<int>(grid_.channels.size());
  const ptrdiff_t step = tile_.out_pixel;
  float sums[kMaxTilePixels * kLanes], rows[kLanes][kRow];
  t.out = sums;
  t.out_pixel = kLanes;
  for (int first = 0; first < pixels; first += kRow, out += kRow * step) {
    const int row = std::min(kRow, pixels - first), tiles = ceil_div(row, kernels_.tile_pixels);
    for (int i = 0, done = 0; i < tiles; ++i) {
      const int count = ceil_div(row - done, tiles - i);
      if (slab > 0)
        for (int c = 0; c < channels; ++c)
          for (int p = 0; p < count; ++p) sums[p * kLanes + c] = out[grid_.channels[c] + (done + p) * step];
      kernels_.tile[kind_][1][count](t);
      for (int c = 0; c < channels; ++c)
        for (int p = 0; p < count; ++p) rows[c][done + p] = sums[p * kLanes + c];
      t.in += count * tile_.in_pixel;
      done += count;
    }
    for (int c = 0; c < channels; ++c) {
      if (slab + 1 == slabs_) epilogue_.rest_of_channel(c, rows[c], static_cast<size_t>(row));
      float* to = out + grid_.channels[c];
      for (int p = 0; p < row; ++p) to[p * step] = rows[c][p];
    }
  }
}

void ConvPlan::run_rest(const Group& group, const float* const* operands, const Run& r, float* out) const {
  for (int b = 0; b < group.blocks; ++b, out += tile_.out_block) {
    if (grid_.step_x == 1) {
      epilogue_.rest(operands, r.n, group.first_block + b, r.y, r.x, out, out, r.pixels);
      continue;
    }
    for (int p = 0; p < r.pixels; ++p) {
      float* pixel = out + p * tile_.out_pixel;
      epilogue_.rest(operands, r.n, group.first_block + b, r.y, r.x + p * grid_.step_x, pixel, pixel, 1);
    }
  }
}

}  // namespace aneforge::vec
