// Which steps have a blocked form (see host/blocked.h). Programs that are not well formed are left to the plain
// kernels, which word the error.
#pragma once
#include <vector>

#include "host/blocked_operation.h"
#include "host/kernels.h"
#include "host/window.h"

namespace aneforge::host {

class ImageRecognizer {
 public:
  ImageRecognizer(Graph& graph, const std::vector<std::vector<int32_t>>& consumers);

  // The step at this position, in ascending order of positions; what it gives is blocked from then on (unless
  // plain_out).
  std::optional<ImageOperation> recognize(size_t at);
  // The result of an operation found so far.
  bool is_blocked(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < blocked_.size() && blocked_[static_cast<size_t>(id)];
  }
  // An elementwise step on the image x whose other operand, if any, is known.
  std::optional<Fused> follower(const Step& step, int32_t x);

 private:
  const Value& value(int32_t id) const { return graph_.values[static_cast<size_t>(id)]; }
  bool is_constant(int32_t id) const { return value(graph_.root(id)).constant(); }
  std::optional<vec::ImageLayout> image(int32_t id) const { return id < 0 ? std::nullopt : image_of(value(id).shape); }
  // The one step that reads a value that is no output of the program.
  std::optional<size_t> only_consumer(int32_t id) const;
  // A step with the arguments of another, for the readers of host/kernels.h.
  static Step probe(const Step& step);

  std::optional<ImageOperation> of(size_t at);
  std::optional<ImageOperation> convolution(const Step& step);
  std::optional<ImageOperation> transposed_convolution(const Step& step);
  bool weights_fit(const Step& step, ImageOperation* o);
  std::optional<ImageOperation> pool(const Step& step);
  std::optional<ImageOperation> mean(const Step& step);
  std::optional<ImageOperation> mean_by_product(size_t at);
  std::optional<ImageOperation> same_image(const Step& step);
  std::optional<ImageOperation> repeat(const Step& step);
  std::optional<ImageOperation> pad(const Step& step);
  std::optional<ImageOperation> concat(const Step& step);
  std::optional<ImageOperation> elementwise(const Step& step);
  bool side_operand(int32_t x, int32_t y, bool per_channel, Fused* f);

  Graph& graph_;
  const vec::Numerics numerics_;
  const std::vector<std::vector<int32_t>>& consumers_;
  std::vector<bool> blocked_;  // by value
};

}  // namespace aneforge::host
