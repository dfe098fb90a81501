// What follows a convolution, a pool or a matrix product in the same pass over memory. Fusion is exact: every operation
// of the program that ends up here keeps its own rounding.
//
// The steps are a list. As many of them as have the form [* channel] [+ channel] [+ tensor] [clamp] are done in
// registers by the tile (struct Finish); the others run over the tile's results while they are in the first-level
// cache.
#pragma once
#include <cstddef>
#include <vector>

#include "host/vector/kernels.h"
#include "host/vector/layout.h"

namespace aneforge::vec {

// How the program computes; decided once for a program.
struct Numerics {
  Rounding rounding = Rounding::kNone;
  bool saturate_sums = false;  // quirk Q04
};

// Steps of a tensor in floats: of an image layout, or of a row-major matrix (block 16, pixel = its row length).
struct Steps {
  ptrdiff_t image = 0, block = 0, row = 0, pixel = 0, origin = 0;
  static Steps of(const ImageLayout& l) { return {l.image(), l.block(), l.row(), l.pixel(), l.offset(0, 0, 0, 0)}; }
  ptrdiff_t offset(int n, int b, int y, int x) const { return origin + n * image + b * block + y * row + x * pixel; }
};

// An elementwise kernel over any number of floats (the kernels themselves take whole vectors). y_step is 16, or 0: the
// same 16 values throughout, or null for operations of one operand.
void apply_elementwise(const Kernels& kernels, Elementwise op, const float* x, const float* y, ptrdiff_t y_step,
                       float* out, size_t n, float alpha, float beta, Rounding rounding);

struct EpilogueStep {
  enum class Operand { kNone, kScalar, kChannel, kTensor, kGate, kRow };
  Elementwise op = Elementwise::kCopy;
  float alpha = 0, beta = 0;
  Operand operand = Operand::kNone;
  std::vector<float> values;  // kScalar: one; kChannel: one a channel, known when the plan is made
  // Given at run time, by slot. kTensor: a value of the same shape. kGate: one of shape [N, C, 1, 1] (images only).
  // kRow: one number a row (matrices only).
  int slot = -1;
  Steps steps;
};

class Epilogue {
 public:
  Epilogue() = default;
  // bias: one a channel, or empty; it joins the sum before its first rounding. saturate: the result is a sum of
  // products (quirk Q04 applies when the numerics say so).
  Epilogue(const Numerics& numerics, int channels, const std::vector<float>& bias, std::vector<EpilogueStep> steps,
           bool is_sum);
  // The steps alone, of a chain of operations on values that are stored already: all of them are the rest.
  Epilogue(const Numerics& numerics, int channels, std::vector<EpilogueStep> steps);

  // The in-register part for the tile that begins at pixel (y, x) of block b. `operands` are the run-time slots. With a
  // lane, the 16 channels begin there and reach into the next block: only those before it are right in tensors.
  Finish finish(const float* const* operands, int n, int b, int y, int x, int lane = 0) const;
  // The rest, over `pixels` neighbouring values of one block; from may be out.
  bool has_rest() const { return first_rest_ < steps_.size(); }
  void rest(const float* const* operands, int n, int b, int y, int x, const float* from, float* out, int pixels,
            int lane = 0) const;
  // The same over neighbouring pixels of one channel of a planar image; no run-time operands.
  void rest_of_channel(int channel, float* values, size_t n) const;
  // With lane i taking the place of channel_of[i].
  Epilogue with_channels(const std::vector<int>& channel_of) const;
  // The same across the columns of a row-major matrix: `count` neighbouring results of one row, from block b on.
  void rest_across(const float* const* operands, int n, int row, int b, const float* from, float* out,
                   size_t count) const;
  // Highest slot + 1.
  int slots() const { return slots_; }
  // All tensor operands have rows of this step (without halos, several rows may then be taken as one).
  bool operands_dense(ptrdiff_t row) const;
  // Of the tensor that is added in registers: the step to the next row.
  ptrdiff_t tensor_row() const { return tensor_step_ >= 0 ? steps_[tensor_step_].steps.row : 0; }
  const Numerics& numerics() const { return numerics_; }

 private:
  void pad_values(int channels);

  Numerics numerics_;
  std::vector<float> bias_;  // padded to whole blocks
  std::vector<EpilogueStep> steps_;
  Finish base_;
  int factor_step_ = -1, channel_step_ = -1, tensor_step_ = -1;  // indices of the steps done in registers
  size_t first_rest_ = 0;
  int slots_ = 0;
};

}  // namespace aneforge::vec
