#include "host/blocked_recognize.h"

#include <algorithm>
#include <cmath>

#include "host/elementary.h"
#include "host/vector/conv_transpose.h"
#include "host/vector/depthwise.h"
#include "host/vector/grouped.h"

namespace aneforge::host {

using vec::EpilogueStep;
using vec::ImageLayout;

namespace {

Fused fused(const Elementary& e) {
  Fused f;
  f.step.op = e.op;
  f.step.alpha = e.alpha;
  f.step.beta = e.beta;
  return f;
}

// An image that lies down has its two spatial axes exchanged; both images must have one column then.
bool lay_down(const Shape& x, const Shape& out, Window* w) {
  if (!lies_down(x) && !lies_down(out)) return true;
  if (x[3] != 1 || out[3] != 1 || w->kernel[2] != 1) return false;
  for (auto* axes : {&w->in, &w->out, &w->kernel, &w->stride, &w->dilation, &w->before, &w->after})
    std::swap((*axes)[1], (*axes)[2]);
  return true;
}

// Sizes that are ints within the kernels, products of a few of them included.
bool moderate(const Window& w) {
  constexpr int64_t kMost = 1 << 14;
  for (size_t d = 1; d < 3; ++d)
    if (w.extent(d) > kMost || w.stride[d] > kMost || w.before[d] > kMost) return false;
  return w.in[0] == 1 && w.kernel[0] == 1;
}

vec::ConvParams conv_params(const Window& w, int out_channels, int64_t groups) {
  vec::ConvParams p;
  p.out_channels = out_channels;
  p.groups = static_cast<int>(groups);
  p.kernel_h = static_cast<int>(w.kernel[1]);
  p.kernel_w = static_cast<int>(w.kernel[2]);
  p.stride_h = static_cast<int>(w.stride[1]);
  p.stride_w = static_cast<int>(w.stride[2]);
  p.dilation_h = static_cast<int>(w.dilation[1]);
  p.dilation_w = static_cast<int>(w.dilation[2]);
  p.pad_top = static_cast<int>(w.before[1]);
  p.pad_left = static_cast<int>(w.before[2]);
  return p;
}

// Results of so few channels are plain, unless they are so small that nothing is lost.
bool stays_plain(const ImageLayout& out) { return out.channels <= kPlanarChannels && out.height * out.width >= 64; }

}  // namespace

ImageRecognizer::ImageRecognizer(Graph& graph, const std::vector<std::vector<int32_t>>& consumers)
    : graph_(graph), numerics_(numerics_of(graph)), consumers_(consumers), blocked_(graph.values.size(), false) {}

std::optional<ImageOperation> ImageRecognizer::recognize(size_t at) {
  std::optional<ImageOperation> o = of(at);
  if (!o) return o;
  if (o->out < 0) {
    o->step = at;
    o->out = graph_.steps[at].results[0];
    o->word = graph_.steps[at].kind;
  }
  if (!o->plain_out) blocked_[static_cast<size_t>(o->out)] = true;
  return o;
}

std::optional<ImageOperation> ImageRecognizer::of(size_t at) {
  const Step& step = graph_.steps[at];
  if (step.results.size() != 1 || !ordinary(graph_, step.results[0])) return std::nullopt;
  if (step.kind == "reshape")
    if (std::optional<ImageOperation> o = mean_by_product(at)) return o;
  if (!image(step.results[0])) return std::nullopt;
  if (step.kind == "concat") return concat(step);
  const int32_t x = operand_of(step, "x");
  if (!ordinary(graph_, x) || is_constant(x) || !image(x)) return step.find("y") ? elementwise(step) : std::nullopt;
  if (step.kind == "conv") return convolution(step);
  if (step.kind == "conv_transpose") return transposed_convolution(step);
  if (step.kind == "max_pool" || step.kind == "avg_pool") return pool(step);
  if (step.kind == "reduce_mean") return mean(step);
  if (step.kind == "upsample_nearest_neighbor") return repeat(step);
  if (step.kind == "pad") return pad(step);
  if (step.kind == "reshape" || step.kind == "expand_dims" || step.kind == "squeeze") return same_image(step);
  return elementwise(step);
}

std::optional<size_t> ImageRecognizer::only_consumer(int32_t id) const {
  const std::vector<int32_t>& all = consumers_[static_cast<size_t>(id)];
  if (graph_.is_output(id) || all.size() != 1) return std::nullopt;
  const auto at = static_cast<size_t>(all[0]);
  return graph_.steps[at].dead || graph_.steps[at].kernel ? std::nullopt : std::optional<size_t>(at);
}

Step ImageRecognizer::probe(const Step& step) {
  Step p;
  p.kind = step.kind;
  p.name = step.name;
  p.line = step.line;
  p.arguments = step.arguments;
  return p;
}

// Weights and bias of a convolution: known, finite (padding multiplies weights by zero: an infinite one would make NaN
// of it).
bool ImageRecognizer::weights_fit(const Step& step, ImageOperation* o) {
  o->weights = operand_of(step, "weight");
  if (o->weights < 0 || !is_constant(o->weights) || !ordinary(graph_, o->weights)) return false;
  if (step.find("bias")) {
    o->bias = operand_of(step, "bias");
    if (o->bias < 0 || !is_constant(o->bias) || !ordinary(graph_, o->bias)) return false;
    if (value(o->bias).count != o->conv.out_channels) return false;
  }
  const float* p = graph_.floats(o->weights);
  return std::all_of(p, p + value(o->weights).count, [](float v) { return std::isfinite(v); });
}

std::optional<ImageOperation> ImageRecognizer::convolution(const Step& step) {
  const int32_t x = operand_of(step, "x"), weight = operand_of(step, "weight");
  if (weight < 0 || value(weight).shape.size() != value(x).shape.size()) return std::nullopt;
  const Shape& ws = value(weight).shape;
  Step arguments = probe(step);
  Build build(graph_, arguments);
  Window w = read_window(build, {ws.begin() + 2, ws.end()}, "valid");
  const int64_t groups = build.integer("groups", 1);
  const ImageLayout in = *image(x), out = *image(step.results[0]);
  if (!lay_down(value(x).shape, value(step.results[0]).shape, &w) || !moderate(w)) return std::nullopt;
  for (size_t d = 1; d < 3; ++d) w.out[d] = (w.in[d] + w.before[d] + w.after[d] - w.extent(d)) / w.stride[d] + 1;
  if (groups < 1 || ws[1] * groups != in.channels || ws[0] % groups || ws[0] != out.channels || in.batch != out.batch ||
      w.out[1] != out.height || w.out[2] != out.width)
    return std::nullopt;

  ImageOperation o;
  o.in = {x};
  o.is_sum = ws[1] * w.taps() >= 2;
  o.conv = conv_params(w, out.channels, groups);
  // What the last window reaches beyond the input; padding that no window touches needs no halo.
  const auto halo = [&](size_t d) {
    const int64_t beyond = (w.out[d] - 1) * w.stride[d] + w.extent(d) - w.before[d] - w.in[d];
    return static_cast<int>(std::max(w.before[d], beyond));
  };
  o.halo_h = halo(1);
  o.halo_w = halo(2);
  if (vec::DepthwisePlan::supports(o.conv, in))
    o.kind = ImageOperation::Kind::kDepthwise;
  else if (vec::ConvPlan::supports(o.conv, in))
    o.kind = ImageOperation::Kind::kConv;
  else if (vec::GroupedConvPlan::supports(o.conv, in))
    o.kind = ImageOperation::Kind::kGroupedConv;
  else
    return std::nullopt;
  if (!weights_fit(step, &o)) return std::nullopt;
  o.plain_out = o.kind == ImageOperation::Kind::kConv && o.conv.groups == 1 && stays_plain(out);
  return o;
}

std::optional<ImageOperation> ImageRecognizer::transposed_convolution(const Step& step) {
  const int32_t x = operand_of(step, "x"), weight = operand_of(step, "weight");
  if (weight < 0 || value(weight).shape.size() != value(x).shape.size()) return std::nullopt;
  const Shape& ws = value(weight).shape;
  Step arguments = probe(step);
  Build build(graph_, arguments);
  const std::string pad_type = build.text("pad_type", "valid");
  if (pad_type != "valid" && pad_type != "custom") return std::nullopt;
  Window w = read_window(build, {ws.begin() + 2, ws.end()}, "valid");
  const bool free_size = step.find("output_shape") != nullptr;
  const ImageLayout in = *image(x), out = *image(step.results[0]);
  if (!lay_down(value(x).shape, value(step.results[0]).shape, &w) || !moderate(w)) return std::nullopt;
  const int extents[3] = {1, out.height, out.width};
  for (size_t d = 1; d < 3; ++d) {
    const int64_t size = (w.in[d] - 1) * w.stride[d] + w.extent(d) - w.before[d] - w.after[d];
    if (!free_size && size != extents[d]) return std::nullopt;
  }
  if (build.integer("groups", 1) != 1 || ws[0] != in.channels || ws[1] != out.channels || in.batch != out.batch)
    return std::nullopt;

  ImageOperation o;
  o.kind = ImageOperation::Kind::kConvTranspose;
  o.in = {x};
  o.is_sum = ws[0] * w.taps() >= 2;
  o.conv = conv_params(w, out.channels, 1);
  if (!vec::ConvTransposePlan::supports(o.conv) || !weights_fit(step, &o)) return std::nullopt;
  vec::ConvTransposePlan::halo(o.conv, in, out, &o.halo_h, &o.halo_w);
  o.plain_out = stays_plain(out);
  return o;
}

std::optional<ImageOperation> ImageRecognizer::pool(const Step& step) {
  const int32_t x = operand_of(step, "x");
  if (!is_blocked(x)) return std::nullopt;
  Step arguments = probe(step);
  Build build(graph_, arguments);
  Window w = pool_window(build);
  const ImageLayout in = *image(x), out = *image(step.results[0]);
  if (!lay_down(value(x).shape, value(step.results[0]).shape, &w) || !moderate(w)) return std::nullopt;
  if (in.batch != out.batch || in.channels != out.channels || w.out[1] != out.height || w.out[2] != out.width)
    return std::nullopt;
  for (size_t d = 1; d < 3; ++d)  // every window must hold something
    if (w.before[d] >= w.kernel[d] || (w.out[d] - 1) * w.stride[d] - w.before[d] >= w.in[d]) return std::nullopt;
  ImageOperation o;
  o.kind = ImageOperation::Kind::kPool;
  o.in = {x};
  o.pool.average = step.kind == "avg_pool";
  o.pool.count_padding = !build.flag("exclude_padding_from_average", false);
  o.pool.kernel_h = static_cast<int>(w.kernel[1]);
  o.pool.kernel_w = static_cast<int>(w.kernel[2]);
  o.pool.stride_h = static_cast<int>(w.stride[1]);
  o.pool.stride_w = static_cast<int>(w.stride[2]);
  o.pool.pad_top = static_cast<int>(w.before[1]);
  o.pool.pad_left = static_cast<int>(w.before[2]);
  return o;
}

std::optional<ImageOperation> ImageRecognizer::mean(const Step& step) {
  const int32_t x = operand_of(step, "x");
  if (!is_blocked(x) || value(x).shape.size() != 4) return std::nullopt;
  std::optional<std::vector<int64_t>> axes = known_ints(graph_, step, "axes", {});
  const std::optional<bool> keep = known_flag(graph_, step, "keep_dims", false);
  if (!axes || axes->size() != 2 || !keep || !*keep) return std::nullopt;
  for (int64_t& a : *axes) a = a < 0 ? a + 4 : a;
  std::sort(axes->begin(), axes->end());
  if (*axes != std::vector<int64_t>{2, 3}) return std::nullopt;
  const ImageLayout in = *image(x), out = *image(step.results[0]);
  if (out.batch != in.batch || out.channels != in.channels || out.height != 1 || out.width != 1) return std::nullopt;
  ImageOperation o;
  o.kind = ImageOperation::Kind::kMean;
  o.in = {x};
  o.mean.narrow = graph_.settings.has(Quirk::kQ06);
  return o;
}

// A spatial mean as the lowering writes it, because the engine's own reduction is narrow (Q06): reshape to [N C, H W],
// matmul by a column of equal numbers, reshape to [N, C, 1, 1] or [N, C].
std::optional<ImageOperation> ImageRecognizer::mean_by_product(size_t at) {
  const Step& flatten = graph_.steps[at];
  const int32_t x = operand_of(flatten, "x");
  if (!is_blocked(x) || flatten.results.size() != 1 || !ordinary(graph_, flatten.results[0])) return std::nullopt;
  const ImageLayout in = *image(x);
  const int64_t pixels = static_cast<int64_t>(in.height) * in.width;
  const Shape& flat = value(flatten.results[0]).shape;
  if (flat.size() < 2 || flat.back() != pixels || value(x).count != value(flatten.results[0]).count)
    return std::nullopt;
  const std::optional<size_t> second = only_consumer(flatten.results[0]);
  if (!second) return std::nullopt;
  const Step& product = graph_.steps[*second];
  const int32_t y = operand_of(product, "y");
  if (product.kind != "matmul" || operand_of(product, "x") != flatten.results[0] || y < 0 || !is_constant(y) ||
      !ordinary(graph_, y) || !ordinary(graph_, product.results[0]) || value(y).count != pixels)
    return std::nullopt;
  const std::optional<bool> tx = known_flag(graph_, product, "transpose_x", false);
  if (!tx || *tx || value(product.results[0]).count * pixels != value(x).count) return std::nullopt;
  const float* weights = graph_.floats(y);
  for (int64_t i = 1; i < pixels; ++i)
    if (weights[i] != weights[0]) return std::nullopt;
  const std::optional<size_t> third = only_consumer(product.results[0]);
  if (!third) return std::nullopt;
  const Step& last = graph_.steps[*third];
  if (last.kind != "reshape" || operand_of(last, "x") != product.results[0] || !ordinary(graph_, last.results[0]))
    return std::nullopt;
  const Shape& shape = value(last.results[0]).shape;
  const Shape two{in.batch, in.channels}, four{in.batch, in.channels, 1, 1};
  if (shape != two && shape != four) return std::nullopt;
  ImageOperation o;
  o.kind = ImageOperation::Kind::kMean;
  o.in = {x};
  o.out = last.results[0];
  o.step = *third;
  o.word = "spatial_mean";
  o.mean.op = vec::Reduce::kSum;
  o.mean.scale = weights[0];
  o.mean.saturate = numerics_.saturate_sums;
  o.covers = {at, *second};
  return o;
}

// The same image under another shape: [N, C, L] and [N, C, L, 1], for instance.
std::optional<ImageOperation> ImageRecognizer::same_image(const Step& step) {
  const int32_t x = operand_of(step, "x");
  if (!is_blocked(x) || !same_extent(*image(x), *image(step.results[0]))) return std::nullopt;
  ImageOperation o;
  o.in = {x};
  return o;
}

std::optional<ImageOperation> ImageRecognizer::repeat(const Step& step) {
  const int32_t x = operand_of(step, "x");
  if (!is_blocked(x) || value(x).shape.size() != 4) return std::nullopt;
  const std::optional<std::vector<int64_t>> h = known_ints(graph_, step, "scale_factor_height", {1});
  const std::optional<std::vector<int64_t>> w = known_ints(graph_, step, "scale_factor_width", {1});
  if (!h || !w || h->size() != 1 || w->size() != 1) return std::nullopt;  // a factor that is no integer
  const ImageLayout in = *image(x), out = *image(step.results[0]);
  ImageOperation o;
  o.kind = ImageOperation::Kind::kRepeat;
  o.in = {x};
  int64_t down = (*h)[0], across = (*w)[0];
  if (lies_down(value(x).shape)) std::swap(down, across);
  if (down < 1 || across < 1 || in.height * down != out.height || in.width * across != out.width) return std::nullopt;
  o.repeat_h = static_cast<int>(down);
  o.repeat_w = static_cast<int>(across);
  return o;
}

// Spatial padding with a known number.
std::optional<ImageOperation> ImageRecognizer::pad(const Step& step) {
  const int32_t x = operand_of(step, "x");
  if (!is_blocked(x)) return std::nullopt;
  const std::optional<std::vector<int64_t>> sizes = known_ints(graph_, step, "pad", {});
  const std::optional<float> fill = known_number(graph_, step, "constant_val", 0);
  const int32_t mode = operand_of(step, "mode");
  if (!sizes || sizes->empty() || sizes->size() % 2 || !fill || (mode >= 0 && graph_.text(mode) != "constant"))
    return std::nullopt;
  const Shape &xs = value(x).shape, &os = value(step.results[0]).shape;
  if (sizes->size() / 2 > xs.size() || os.size() != xs.size() || (lies_down(xs) != lies_down(os))) return std::nullopt;
  const size_t first = xs.size() - sizes->size() / 2;
  std::vector<int64_t> before(xs.size(), 0);
  for (size_t d = first; d < xs.size(); ++d) {
    const int64_t front = (*sizes)[2 * (d - first)], back = (*sizes)[2 * (d - first) + 1];
    if (front < 0 || back < 0 || os[d] != xs[d] + front + back || (d < 2 && front + back > 0)) return std::nullopt;
    before[d] = front;
  }
  ImageOperation o;
  o.kind = ImageOperation::Kind::kPad;
  o.in = {x};
  o.pad_value = *fill;
  o.pad_left = static_cast<int>(before.back());
  if (xs.size() == 4) o.pad_top = static_cast<int>(before[2]);
  if (lies_down(xs)) std::swap(o.pad_top, o.pad_left);
  return o;
}

std::optional<ImageOperation> ImageRecognizer::concat(const Step& step) {
  const Argument* values = step.find("values");
  const std::optional<std::vector<int64_t>> axis = known_ints(graph_, step, "axis", {});
  const std::optional<bool> interleave = known_flag(graph_, step, "interleave", false);
  if (!values || !axis || axis->size() != 1 || !interleave || *interleave) return std::nullopt;
  const Shape& shape = value(step.results[0]).shape;
  if (((*axis)[0] + static_cast<int64_t>(shape.size())) % static_cast<int64_t>(shape.size()) != 1) return std::nullopt;
  ImageOperation o;
  o.kind = ImageOperation::Kind::kConcat;
  int channels = 0;
  for (size_t i = 0; i < values->values.size(); ++i) {
    const int32_t v = values->values[i];
    if (!is_blocked(v)) return std::nullopt;
    const ImageLayout l = *image(v);
    if (i + 1 < values->values.size() && l.channels % vec::kLanes) return std::nullopt;
    channels += l.channels;
    o.in.push_back(v);
  }
  ImageLayout whole = *image(step.results[0]), first = *image(o.in[0]);
  first.channels = channels;
  if (!same_extent(whole, first)) return std::nullopt;
  return o;
}

std::optional<ImageOperation> ImageRecognizer::elementwise(const Step& step) {
  const std::optional<Elementary> e = elementary(graph_, step);
  if (!e) return std::nullopt;
  int32_t x = operand_of(step, "x"), y = e->binary        ? operand_of(step, "y")
                                         : e->per_channel ? operand_of(step, "alpha")
                                                          : -1;
  const int32_t out = step.results[0];
  Fused f = fused(*e);
  if (e->binary && (!is_blocked(x) || value(x).shape != value(out).shape)) {
    std::swap(x, y);
    f.step.op = *exchanged(e->op);
  }
  if (!is_blocked(x) || value(x).shape != value(out).shape) return std::nullopt;
  if (y >= 0 && !side_operand(x, y, e->per_channel, &f)) return std::nullopt;
  ImageOperation o;
  o.in = {x};
  o.chain.push_back(std::move(f));
  return o;
}

std::optional<Fused> ImageRecognizer::follower(const Step& step, int32_t x) {
  const std::optional<Elementary> e = elementary(graph_, step);
  if (!e || value(step.results[0]).shape != value(x).shape) return std::nullopt;
  Fused f = fused(*e);
  if (!e->binary && !e->per_channel) return f;
  int32_t y = operand_of(step, e->binary ? "y" : "alpha");
  if (operand_of(step, "x") != x) {
    y = operand_of(step, "x");
    f.step.op = *exchanged(e->op);
  }
  if (y == x || !is_constant(y) || !side_operand(x, y, e->per_channel, &f)) return std::nullopt;
  return f;
}

// How y takes part in an operation on the image x.
bool ImageRecognizer::side_operand(int32_t x, int32_t y, bool per_channel, Fused* f) {
  const Shape &xs = value(x).shape, &ys = value(y).shape;
  const int64_t channels = xs[1];
  if (is_constant(y)) {
    const float* p = graph_.floats(y);
    const int64_t n = value(y).count;
    const auto missing = static_cast<int64_t>(xs.size()) - static_cast<int64_t>(ys.size());
    const bool on_channels = per_channel || (missing <= 1 && ys[static_cast<size_t>(1 - missing)] == channels);
    if (missing < 0 && n != 1) return false;
    if (n == 1 && missing >= 0) {
      f->step.operand = EpilogueStep::Operand::kScalar;
    } else if (n == channels && on_channels) {
      f->step.operand = EpilogueStep::Operand::kChannel;
    } else {
      return false;
    }
    f->step.values.assign(p, p + n);
    return true;
  }
  if (per_channel || ys.size() != xs.size()) return false;
  f->operand = y;
  if (ys == xs) {
    f->step.operand = EpilogueStep::Operand::kTensor;
    return true;
  }
  Shape gate(xs.size(), 1);
  gate[0] = xs[0];
  gate[1] = channels;
  if (ys != gate || !is_blocked(y)) return false;
  f->step.operand = EpilogueStep::Operand::kGate;
  return true;
}

}  // namespace aneforge::host
