#include "host/vector/epilogue.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace aneforge::vec {
namespace {

std::vector<float> padded(const std::vector<float>& values, int channels, float fill) {
  // A block more than there is: channels may be read from the middle of a block on.
  std::vector<float> out(static_cast<size_t>((channels + kLanes - 1) / kLanes + 1) * kLanes, fill);
  for (size_t i = 0; i < values.size() && i < out.size(); ++i) out[i] = values[i];
  return out;
}

}  // namespace

void apply_elementwise(const Kernels& k, Elementwise op, const float* x, const float* y, ptrdiff_t y_step, float* out,
                       size_t n, float alpha, float beta, Rounding rounding) {
  const size_t whole = n / kLanes;
  const ElementwiseFn fn = k.elementwise[static_cast<size_t>(op)];
  fn(x, y, y_step, out, whole, alpha, beta, rounding);
  const size_t done = whole * kLanes;
  if (done == n) return;
  float tail_x[kLanes] = {}, tail_y[kLanes] = {}, tail_out[kLanes];
  const float* tail = y ? y + (y_step ? static_cast<ptrdiff_t>(done) : 0) : nullptr;
  std::memcpy(tail_x, x + done, (n - done) * sizeof(float));
  if (tail) std::memcpy(tail_y, tail, (n - done) * sizeof(float));
  fn(tail_x, tail_y, y_step, tail_out, 1, alpha, beta, rounding);
  std::memcpy(out + done, tail_out, (n - done) * sizeof(float));
}

Epilogue::Epilogue(const Numerics& numerics, int channels, const std::vector<float>& bias,
                   std::vector<EpilogueStep> steps, bool is_sum)
    : numerics_(numerics), steps_(std::move(steps)) {
  using Operand = EpilogueStep::Operand;
  if (!bias.empty()) bias_ = padded(bias, channels, 0.0f);
  pad_values(channels);
  base_.rounding = numerics.rounding;
  base_.saturate = is_sum && numerics.saturate_sums;
  // The longest prefix that a tile can do itself.
  size_t i = 0;
  const auto at = [&](size_t k) { return k < steps_.size() ? &steps_[k] : nullptr; };
  // (Tiles count on finite constants: see finish_tile.)
  const auto by_channel = [&](const EpilogueStep* s, Elementwise op) {
    return s && s->op == op && s->operand == Operand::kChannel &&
           std::all_of(s->values.begin(), s->values.end(), [](float v) { return std::isfinite(v); });
  };
  if (by_channel(at(i), Elementwise::kMul)) factor_step_ = static_cast<int>(i++);
  if (by_channel(at(i), Elementwise::kAdd)) channel_step_ = static_cast<int>(i++);
  if (const EpilogueStep* s = at(i); s && s->op == Elementwise::kAdd && s->operand == Operand::kTensor)
    tensor_step_ = static_cast<int>(i++);
  if (const EpilogueStep* s = at(i); s && (s->op == Elementwise::kRelu || s->op == Elementwise::kClamp)) {
    base_.clamp = true;
    base_.low = s->op == Elementwise::kRelu ? 0.0f : s->alpha;
    base_.high = s->op == Elementwise::kRelu ? INFINITY : s->beta;
    ++i;
  }
  first_rest_ = i;
}

Epilogue::Epilogue(const Numerics& numerics, int channels, std::vector<EpilogueStep> steps)
    : numerics_(numerics), steps_(std::move(steps)) {
  base_.rounding = numerics.rounding;
  pad_values(channels);
}

void Epilogue::pad_values(int channels) {
  for (EpilogueStep& s : steps_) {
    if (s.operand == EpilogueStep::Operand::kChannel) s.values = padded(s.values, channels, 0.0f);
    if (s.operand == EpilogueStep::Operand::kScalar) s.values.assign(kLanes, s.values.at(0));
    if (s.slot >= slots_) slots_ = s.slot + 1;
  }
}

Finish Epilogue::finish(const float* const* operands, int n, int b, int y, int x, int lane) const {
  Finish f = base_;
  const ptrdiff_t channel = static_cast<ptrdiff_t>(b) * kLanes + lane;
  if (!bias_.empty()) f.bias = bias_.data() + channel;
  if (factor_step_ >= 0) f.mul_channel = steps_[factor_step_].values.data() + channel;
  if (channel_step_ >= 0) f.add_channel = steps_[channel_step_].values.data() + channel;
  if (tensor_step_ >= 0) {
    const EpilogueStep& s = steps_[tensor_step_];
    f.add_tensor = operands[s.slot] + s.steps.offset(n, b, y, x) + lane;
    f.tensor_block = s.steps.block;
    f.tensor_pixel = s.steps.pixel;
  }
  return f;
}

void Epilogue::rest(const float* const* operands, int n, int b, int y, int x, const float* from, float* out, int pixels,
                    int lane) const {
  using Operand = EpilogueStep::Operand;
  const Kernels& k = kernels();
  for (size_t i = first_rest_; i < steps_.size(); ++i) {
    const EpilogueStep& s = steps_[i];
    const float* operand = nullptr;
    ptrdiff_t step = 0;
    switch (s.operand) {
      case Operand::kNone:
        break;
      case Operand::kScalar:
        operand = s.values.data();
        break;
      case Operand::kChannel:
        operand = s.values.data() + static_cast<ptrdiff_t>(b) * kLanes + lane;
        break;
      case Operand::kRow:
        break;  // not of images
      case Operand::kGate:
        operand = operands[s.slot] + s.steps.offset(n, b, 0, 0) + lane;
        break;
      case Operand::kTensor:
        operand = operands[s.slot] + s.steps.offset(n, b, y, x) + lane;
        step = s.steps.pixel;
        break;
    }
    k.elementwise[static_cast<size_t>(s.op)](from, operand, step, out, static_cast<size_t>(pixels), s.alpha, s.beta,
                                             numerics_.rounding);
    from = out;
  }
}

void Epilogue::rest_of_channel(int channel, float* values, size_t n) const {
  using Operand = EpilogueStep::Operand;
  const Kernels& k = kernels();
  for (size_t i = first_rest_; i < steps_.size(); ++i) {
    const EpilogueStep& s = steps_[i];
    float number[kLanes];
    if (s.operand == Operand::kScalar || s.operand == Operand::kChannel)
      std::fill_n(number, kLanes, s.values[s.operand == Operand::kChannel ? static_cast<size_t>(channel) : 0]);
    apply_elementwise(k, s.op, values, s.operand == Operand::kNone ? nullptr : number, 0, values, n, s.alpha, s.beta,
                      numerics_.rounding);
  }
}

Epilogue Epilogue::with_channels(const std::vector<int>& channel_of) const {
  Epilogue e = *this;
  const int lanes = static_cast<int>(channel_of.size());
  const auto spread = [&](const std::vector<float>& from) {
    std::vector<float> to;
    for (int c : channel_of) to.push_back(from[static_cast<size_t>(c)]);
    return padded(to, lanes, 0.0f);
  };
  if (!bias_.empty()) e.bias_ = spread(bias_);
  for (EpilogueStep& s : e.steps_)
    if (s.operand == EpilogueStep::Operand::kChannel) s.values = spread(s.values);
  return e;
}

void Epilogue::rest_across(const float* const* operands, int n, int row, int b, const float* from, float* out,
                           size_t count) const {
  using Operand = EpilogueStep::Operand;
  const Kernels& k = kernels();
  for (size_t i = first_rest_; i < steps_.size(); ++i) {
    const EpilogueStep& s = steps_[i];
    const float* operand = nullptr;
    ptrdiff_t step = kLanes;
    float number[kLanes];
    if (s.operand == Operand::kRow) {
      std::fill_n(number, kLanes, operands[s.slot][s.steps.offset(n, 0, 0, row)]);
      operand = number, step = 0;
    }
    if (s.operand == Operand::kScalar) operand = s.values.data(), step = 0;
    if (s.operand == Operand::kChannel) operand = s.values.data() + static_cast<ptrdiff_t>(b) * kLanes;
    if (s.operand == Operand::kTensor) operand = operands[s.slot] + s.steps.offset(n, b, 0, row);
    apply_elementwise(k, s.op, from, operand, step, out, count, s.alpha, s.beta, numerics_.rounding);
    from = out;
  }
}

bool Epilogue::operands_dense(ptrdiff_t row) const {
  for (const EpilogueStep& s : steps_)
    if (s.operand == EpilogueStep::Operand::kTensor && s.steps.row != row) return false;
  return true;
}

}  // namespace aneforge::vec
