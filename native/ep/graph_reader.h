// Reading OrtGraph, OrtNode and OrtValueInfo: the calls of ort_api.h as values and lists. Errors are thrown.
//
// Nothing that is read may be kept beyond the call of ONNX Runtime's that handed the graph over.
#pragma once
#include <string>
#include <vector>

#include "ep/ort_api.h"

namespace aneforge::ep {

// What is known of a tensor's type. Extents are -1 where unknown; `symbols` then holds the name, or "".
struct TensorType {
  bool is_tensor = false;  // false: a sequence, map, optional, sparse tensor, or nothing is known
  int element = 0;         // onnx.TensorProto.DataType
  bool has_rank = false;
  std::vector<int64_t> dims;
  std::vector<std::string> symbols;
};

class GraphReader {
 public:
  explicit GraphReader(const Api& api) : api(api) {}

  using Values = std::vector<const OrtValueInfo*>;  // an absent optional input or output is a null entry

  std::vector<const OrtNode*> nodes(const OrtGraph* g) const {
    return list(api.Graph_GetNumNodes, api.Graph_GetNodes, g);
  }
  Values inputs(const OrtGraph* g) const { return list(api.Graph_GetNumInputs, api.Graph_GetInputs, g); }
  Values outputs(const OrtGraph* g) const { return list(api.Graph_GetNumOutputs, api.Graph_GetOutputs, g); }
  Values initializers(const OrtGraph* g) const {
    return list(api.Graph_GetNumInitializers, api.Graph_GetInitializers, g);
  }
  const OrtNode* parent(const OrtGraph* g) const { return get(api.Graph_GetParentNode, g); }
  std::string name(const OrtGraph* g) const { return text(api.Graph_GetName, g); }
  std::string model_path(const OrtGraph* g) const { return text(api.Graph_GetModelPath, g); }

  Values inputs(const OrtNode* n) const { return list(api.Node_GetNumInputs, api.Node_GetInputs, n); }
  Values outputs(const OrtNode* n) const { return list(api.Node_GetNumOutputs, api.Node_GetOutputs, n); }
  // What the bodies of a control-flow node use of the graphs around them.
  Values implicit_inputs(const OrtNode* n) const {
    return list(api.Node_GetNumImplicitInputs, api.Node_GetImplicitInputs, n);
  }
  std::vector<const OrtOpAttr*> attributes(const OrtNode* n) const {
    return list(api.Node_GetNumAttributes, api.Node_GetAttributes, n);
  }
  size_t n_bodies(const OrtNode* n) const { return get(api.Node_GetNumSubgraphs, n); }
  std::string name(const OrtNode* n) const { return text(api.Node_GetName, n); }
  std::string op(const OrtNode* n) const { return text(api.Node_GetOperatorType, n); }
  std::string domain(const OrtNode* n) const { return text(api.Node_GetDomain, n); }
  std::string provider(const OrtNode* n) const { return text(api.Node_GetEpName, n); }  // "": not assigned yet
  const OrtGraph* graph(const OrtNode* n) const { return get(api.Node_GetGraph, n); }   // may be null for a parent node

  std::string name(const OrtValueInfo* v) const { return v ? text(api.GetValueInfoName, v) : std::string(); }
  bool is_constant(const OrtValueInfo* v) const { return get(api.ValueInfo_IsConstantInitializer, v); }
  bool is_outer(const OrtValueInfo* v) const { return get(api.ValueInfo_IsFromOuterScope, v); }
  const OrtValue* initial_value(const OrtValueInfo* v) const { return get(api.ValueInfo_GetInitializerValue, v); }
  const OrtTypeInfo* type_info(const OrtValueInfo* v) const { return get(api.GetValueInfoTypeInfo, v); }

  TensorType tensor_type(const OrtValueInfo* v) const { return v ? tensor_type(type_info(v)) : TensorType(); }
  TensorType tensor_type(const OrtTypeInfo* info) const;

  // OrtAttribute, or 0 for a kind that ONNX Runtime does not show.
  int attribute_type(const OrtOpAttr* a) const;
  // The bytes of an attribute; those of strings are zero-terminated, one after another.
  std::string attribute(const OrtOpAttr* a, int type) const;

  const Api& api;

 private:
  // A getter with one result.
  template <class T, class Object>
  T get(OrtStatus* (*getter)(const Object*, T*), const Object* object) const {
    T out{};
    api.check(getter(object, &out));
    return out;
  }
  template <class Object>
  std::string text(OrtStatus* (*getter)(const Object*, const char**), const Object* object) const {
    const char* out = get(getter, object);
    return out ? out : "";
  }
  template <class T, class Object>
  std::vector<T> list(OrtStatus* (*count)(const Object*, size_t*), OrtStatus* (*fill)(const Object*, T*, size_t),
                      const Object* object) const {
    std::vector<T> out(get(count, object));
    if (!out.empty()) api.check(fill(object, out.data(), out.size()));
    return out;
  }
};

}  // namespace aneforge::ep
