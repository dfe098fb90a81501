#include "ep/graph_reader.h"

namespace aneforge::ep {

TensorType GraphReader::tensor_type(const OrtTypeInfo* info) const {
  TensorType type;
  // Asked first: the cast below also accepts sparse tensors.
  if (!info || get(api.GetOnnxTypeFromTypeInfo, info) != kOnnxTensor) return type;
  const OrtTensorTypeAndShapeInfo* tensor = get(api.CastTypeInfoToTensorInfo, info);
  if (!tensor) return type;
  type.is_tensor = true;
  type.element = get(api.GetTensorElementType, tensor);
  type.has_rank = api.TensorTypeAndShape_HasShape(tensor);
  if (!type.has_rank) return type;
  type.dims.resize(get(api.GetDimensionsCount, tensor));
  type.symbols.resize(type.dims.size());
  if (type.dims.empty()) return type;
  std::vector<const char*> names(type.dims.size(), nullptr);
  api.check(api.GetDimensions(tensor, type.dims.data(), type.dims.size()));
  api.check(api.GetSymbolicDimensions(tensor, names.data(), names.size()));
  for (size_t i = 0; i < names.size(); ++i) type.symbols[i] = names[i] ? names[i] : "";
  return type;
}

int GraphReader::attribute_type(const OrtOpAttr* a) const {
  int type = 0;
  if (OrtStatus* status = api.OpAttr_GetType(a, &type)) {  // an error, for type protos and sparse tensors
    api.ReleaseStatus(status);
    return 0;
  }
  return type;
}

std::string GraphReader::attribute(const OrtOpAttr* a, int type) const {
  size_t size = 0;
  char none = 0;
  // Asked with no room it answers with an error and the size.
  if (OrtStatus* status = api.ReadOpAttr(a, type, &none, 0, &size)) api.ReleaseStatus(status);
  std::string bytes(size, '\0');
  if (size) api.check(api.ReadOpAttr(a, type, &bytes[0], bytes.size(), &size));
  return bytes;
}

}  // namespace aneforge::ep
