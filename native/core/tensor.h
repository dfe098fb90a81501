// Tensors at the boundary of an executable: element types and borrowed views.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace aneforge {

// The numbers are ONNX's TensorProto.DataType, which ONNX Runtime uses too.
enum class DType : int32_t {
  kUndefined = 0,
  kFloat32 = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUInt32 = 12,
  kUInt64 = 13,
};

// Bytes of one element; 0 for types that have none here (string, undefined).
size_t element_size(DType);
// MIL's name of the type: "fp16", "fp32", "int32", "bool", …
const char* mil_name(DType);

// A borrowed, dense, row-major tensor. Data may have any alignment that its element type has.
struct ConstTensorView {
  DType dtype = DType::kUndefined;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  const void* data = nullptr;
};
struct TensorView {
  DType dtype = DType::kUndefined;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  void* data = nullptr;
};

int64_t element_count(const int64_t* dims, size_t rank);

}  // namespace aneforge
