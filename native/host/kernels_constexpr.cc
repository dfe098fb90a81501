// Compressed weights. All operands are known, so these run once, while the program is compiled.
#include "host/iterate.h"
#include "host/kernels.h"

namespace aneforge::host {
namespace {

const float* as_floats(Build& b, const char* name, std::vector<float>* buffer) {
  const Value& v = b.value(name);
  if (v.storage == Storage::kFloat) return b.floats(name);
  for (int64_t i : b.ints(name)) buffer->push_back(static_cast<float>(i));
  return buffer->data();
}

// What is computed when the kernel is made; run() hands it over.
std::unique_ptr<Kernel> known_result(Build& b, std::vector<float> values) {
  const int32_t out = b.result();
  b.finish()(values.data(), static_cast<int64_t>(values.size()));
  return kernel([out, values = std::move(values)](const Frame& frame) {
    std::copy(values.begin(), values.end(), frame.out(out));
  });
}

// scale * (data - zero_point), one pair a tensor or one for each position of `axis`.
std::unique_ptr<Kernel> make_affine_dequantize(Build& b) {
  b.expect_results(1);
  const Shape& shape = b.shape("quantized_data");
  b.expect(shape);
  const std::vector<int64_t> data = b.ints("quantized_data");
  const int64_t channels_of_scale = b.value("scale").count,
                channels_of_zero = b.given("zero_point") ? b.value("zero_point").count : 1;
  int64_t length = 1, inner = 1;
  if (channels_of_scale != 1 || channels_of_zero != 1) {
    const auto axis = static_cast<size_t>(b.axis("axis", 0, shape.size()));
    length = shape[axis];
    inner = count_of({shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()});
  }
  b.require(
      (channels_of_scale == 1 || channels_of_scale == length) && (channels_of_zero == 1 || channels_of_zero == length),
      "scale and zero_point must have one value, or one for each position of axis");
  std::vector<float> held, none;
  const float *scale = as_floats(b, "scale", &held),
              *zero = b.given("zero_point") ? as_floats(b, "zero_point", &none) : nullptr;
  std::vector<float> out(data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    const int64_t c = static_cast<int64_t>(i) / inner % length;
    out[i] = scale[channels_of_scale == 1 ? 0 : c] *
             (static_cast<float>(data[i]) - (zero ? zero[channels_of_zero == 1 ? 0 : c] : 0));
  }
  return known_result(b, std::move(out));
}

// Block extents are data.shape / scale.shape on every axis.
std::unique_ptr<Kernel> make_blockwise_shift_scale(Build& b) {
  b.expect_results(1);
  const Shape &shape = b.shape("data"), &blocks = b.shape("scale");
  b.expect(shape);
  b.require(blocks.size() == shape.size(), "scale must have the rank of data");
  for (size_t d = 0; d < shape.size(); ++d) b.require(shape[d] % blocks[d] == 0, "blocks do not divide an axis");
  const bool shifted = b.given("offset");
  b.require(!shifted || b.shape("offset") == blocks, "offset must have the shape of scale");
  const std::vector<int64_t> data = b.ints("data");
  std::vector<float> held, none;
  const float *scale = as_floats(b, "scale", &held), *offset = shifted ? as_floats(b, "offset", &none) : nullptr;
  const std::vector<int64_t> strides = dense_strides(shape), block_strides = dense_strides(blocks);
  std::vector<float> out(data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    int64_t block = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      block += static_cast<int64_t>(i) / strides[d] % shape[d] / (shape[d] / blocks[d]) * block_strides[d];
    out[i] = scale[block] * (static_cast<float>(data[i]) - (offset ? offset[block] : 0));
  }
  return known_result(b, std::move(out));
}

// ios18: indices have the result's shape, lut is [groups…, entries, vector]. ios16: indices are packed bits in uint8,
// the shape is an argument of its own, lut is flat.
std::unique_ptr<Kernel> make_lut_to_dense(Build& b) {
  b.expect_results(1);
  std::vector<float> held;
  const float* lut = as_floats(b, "lut", &held);
  const Shape& table = b.shape("lut");
  if (b.given("shape")) {
    const std::vector<int64_t> given = b.ints("shape");
    const Shape shape(given.begin(), given.end());
    b.expect(shape);
    int64_t bits = 0;
    while (bits < 8 && (int64_t{1} << bits) < b.value("lut").count) ++bits;
    b.require(bits >= 1 && (int64_t{1} << bits) == b.value("lut").count,
              "lut must have 2 to 256 entries, a power of two");
    const std::vector<int64_t> packed = b.ints("indices");
    const int64_t count = count_of(shape);
    b.require(static_cast<int64_t>(packed.size()) == (count * bits + 7) / 8, "indices hold another number of elements");
    std::vector<float> out(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      int64_t index = 0;
      for (int64_t k = 0; k < bits; ++k) {
        const int64_t bit = i * bits + k;
        index |= (packed[static_cast<size_t>(bit / 8)] >> (bit % 8) & 1) << k;
      }
      out[static_cast<size_t>(i)] = lut[index];
    }
    return known_result(b, std::move(out));
  }
  const Shape& shape = b.shape("indices");
  b.expect(shape);
  b.require(table.size() == shape.size() + 2, "lut must have two axes more than indices");
  if (table.back() != 1) b.unsupported("vector palettes");
  const int64_t entries = table[shape.size()];
  for (size_t d = 0; d < shape.size(); ++d) b.require(shape[d] % table[d] == 0, "groups do not divide an axis");
  const std::vector<int64_t> indices = b.ints("indices"), strides = dense_strides(shape),
                             group_strides = dense_strides(table);
  std::vector<float> out(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    int64_t at = indices[i];
    b.require(at >= 0 && at < entries, "an index lies outside lut");
    for (size_t d = 0; d < shape.size(); ++d)
      at += static_cast<int64_t>(i) / strides[d] % shape[d] / (shape[d] / table[d]) * group_strides[d];
    out[i] = lut[at];
  }
  return known_result(b, std::move(out));
}

// ios18: mask has the result's shape. ios16: mask is packed bits in uint8, the shape is an argument of its own.
std::unique_ptr<Kernel> make_sparse_to_dense(Build& b) {
  b.expect_results(1);
  std::vector<float> held;
  const float* nonzero = as_floats(b, "nonzero_data", &held);
  const std::vector<int64_t> mask = b.ints("mask");
  Shape shape = b.shape("mask");
  const bool packed = b.given("shape");
  if (packed) {
    const std::vector<int64_t> given = b.ints("shape");
    shape.assign(given.begin(), given.end());
  }
  b.expect(shape);
  const int64_t count = count_of(shape);
  if (packed) b.require(static_cast<int64_t>(mask.size()) == (count + 7) / 8, "mask holds another number of elements");
  std::vector<float> out(static_cast<size_t>(count));
  int64_t used = 0;
  const int64_t have = b.value("nonzero_data").count;
  for (int64_t i = 0; i < count; ++i) {
    const bool keep = packed ? mask[static_cast<size_t>(i / 8)] >> (i % 8) & 1 : mask[static_cast<size_t>(i)] != 0;
    if (!keep) continue;
    b.require(used < have, "mask keeps more elements than nonzero_data has");
    out[static_cast<size_t>(i)] = nonzero[used++];
  }
  b.require(used == have, "mask keeps fewer elements than nonzero_data has");
  return known_result(b, std::move(out));
}

}  // namespace

void register_constexpr(KernelTable& t) {
  t["constexpr_affine_dequantize"] = make_affine_dequantize;
  t["constexpr_blockwise_shift_scale"] = make_blockwise_shift_scale;
  t["constexpr_lut_to_dense"] = make_lut_to_dense;
  t["constexpr_sparse_to_dense"] = make_sparse_to_dense;
}

}  // namespace aneforge::host
