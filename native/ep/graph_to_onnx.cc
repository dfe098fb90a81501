#include "ep/graph_to_onnx.h"

#include <cstring>
#include <map>
#include <set>
#include <unordered_set>

#include "ep/graph_reader.h"
#include "ep/proto_writer.h"

namespace aneforge::ep {
namespace {

// Field numbers of onnx.proto3, by message.
namespace field {
enum Model { kIrVersion = 1, kProducer = 2, kGraph = 7, kOpset = 8 };
enum Opset { kDomain = 1, kVersion = 2 };
enum Graph { kNode = 1, kGraphName = 2, kInitializer = 5, kInput = 11, kOutput = 12, kValueInfo = 13 };
enum Node {
  kNodeInput = 1,
  kNodeOutput = 2,
  kNodeName = 3,
  kOpType = 4,
  kAttribute = 5,
  kNodeDoc = 6,
  kNodeDomain = 7
};
enum Attribute {
  kAttributeName = 1,
  kF = 2,
  kI = 3,
  kS = 4,
  kT = 5,
  kG = 6,
  kFloats = 7,
  kInts = 8,
  kStrings = 9,
  kAttributeType = 20
};
enum Tensor {
  kDims = 1,
  kDataType = 2,
  kStringData = 6,
  kTensorName = 8,
  kRaw = 9,
  kTensorDoc = 12,
  kExternal = 13,
  kLocation = 14
};
enum Entry { kKey = 1, kValue = 2 };
enum ValueInfo { kValueName = 1, kType = 2, kValueDoc = 3 };
enum Type { kTensorType = 1, kSequenceType = 4, kOptionalType = 9 };
enum TensorTypeProto { kElementType = 1, kShape = 2 };
enum Nested { kElement = 1 };
enum Shape { kDim = 1 };
enum Dim { kDimValue = 1, kDimParam = 2 };
}  // namespace field

// onnx.AttributeProto.AttributeType
enum { kFloat = 1, kInt = 2, kString = 3, kTensor = 4, kGraph = 5, kFloatList = 6, kIntList = 7, kStringList = 8 };
constexpr int kStringElement = 8;  // onnx.TensorProto.STRING
constexpr int kExternalData = 1;   // onnx.TensorProto.EXTERNAL
constexpr const char* kOuter = "@outer";

class Writer {
 public:
  explicit Writer(const Api& api) : read_(api) {}

  std::string model(const OrtGraph* graph) {
    ProtoWriter graph_proto = this->graph(graph, /*outermost=*/true);  // first: collects the domains
    ProtoWriter out;
    int64_t ir_version = 0;
    read_.api.check(read_.api.Graph_GetOnnxIRVersion(graph, &ir_version));
    out.integer(field::kIrVersion, ir_version);
    out.text(field::kProducer, "aneforge");
    const std::map<std::string, int64_t> known = opsets(graph);
    domains_.insert("");
    for (const std::string& domain : domains_) {
      const auto found = known.find(domain);
      ProtoWriter opset;
      opset.text(field::kDomain, domain);
      opset.integer(field::kVersion, found == known.end() ? 1 : found->second);
      out.message(field::kOpset, opset);
    }
    out.message(field::kGraph, graph_proto);
    return out.take();
  }

 private:
  using Names = std::unordered_set<std::string>;

  std::map<std::string, int64_t> opsets(const OrtGraph* graph) const {
    size_t count = 0;
    read_.api.check(read_.api.Graph_GetNumOperatorSets(graph, &count));
    std::vector<const char*> domains(count, nullptr);
    std::vector<int64_t> versions(count);
    if (count) read_.api.check(read_.api.Graph_GetOperatorSets(graph, domains.data(), versions.data(), count));
    std::map<std::string, int64_t> out;
    for (size_t i = 0; i < count; ++i) out[standard(domains[i] ? domains[i] : "")] = versions[i];
    return out;
  }
  static std::string standard(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

  ProtoWriter graph(const OrtGraph* g, bool outermost) {
    ProtoWriter out;
    const std::vector<const OrtNode*> nodes = read_.nodes(g);
    for (const OrtNode* n : nodes) out.message(field::kNode, node(n));
    const std::string name = read_.name(g);
    out.text(field::kGraphName, name.empty() ? "graph" : name);

    Names described;  // in the list of inputs, or with its tensor
    for (const OrtValueInfo* v : read_.inputs(g)) {
      out.message(field::kInput, value_info(v, nullptr));
      described.insert(read_.name(v));
    }
    for (const OrtValueInfo* v : read_.initializers(g)) {
      const std::string value_name = read_.name(v);
      if (!read_.is_constant(v) && described.insert(value_name).second)
        out.message(field::kInput, value_info(v, nullptr));
      out.message(field::kInitializer, initializer(v, nullptr));
      described.insert(value_name);
    }
    if (outermost) {
      for (const OrtNode* n : nodes) {
        outer_values(out, read_.inputs(n), described);
        outer_values(out, read_.implicit_inputs(n), described);
      }
    }
    for (const OrtValueInfo* v : read_.outputs(g)) {
      out.message(field::kOutput, value_info(v, nullptr));
      described.insert(read_.name(v));
    }
    for (const OrtNode* n : nodes) {
      for (const OrtValueInfo* v : read_.outputs(n)) {
        if (v && described.insert(read_.name(v)).second) out.message(field::kValueInfo, value_info(v, nullptr));
      }
    }
    return out;
  }

  // The graphs around are not written, so what comes from there has to be. Constants of theirs are not among the
  // initializers that ONNX Runtime lists for a body.
  void outer_values(ProtoWriter& out, const GraphReader::Values& values, Names& described) {
    for (const OrtValueInfo* v : values) {
      if (!v || !read_.is_outer(v) || !described.insert(read_.name(v)).second) continue;
      if (read_.is_constant(v)) {
        out.message(field::kInitializer, initializer(v, kOuter));
      } else {
        out.message(field::kInput, value_info(v, kOuter));
      }
    }
  }

  ProtoWriter node(const OrtNode* n) {
    ProtoWriter out;
    names(out, field::kNodeInput, read_.inputs(n));
    names(out, field::kNodeOutput, read_.outputs(n));
    out.text(field::kNodeName, read_.name(n));
    out.text(field::kOpType, read_.op(n));
    for (const OrtOpAttr* a : read_.attributes(n)) {
      const int type = read_.attribute_type(a);
      if (type != kAttrGraph) out.message(field::kAttribute, attribute(a, type));
    }
    bodies(out, n);
    const std::string provider = read_.provider(n);
    if (!provider.empty()) out.text(field::kNodeDoc, "@ep:" + provider);
    const std::string domain = standard(read_.domain(n));
    domains_.insert(domain);
    if (!domain.empty()) out.text(field::kNodeDomain, domain);
    return out;
  }

  // Absent ones are empty names; those at the end are left away.
  void names(ProtoWriter& out, int at, GraphReader::Values values) const {
    while (!values.empty() && !values.back()) values.pop_back();
    for (const OrtValueInfo* v : values) out.text(at, read_.name(v));
  }

  // ONNX Runtime shows graphs on the node only, not as attributes.
  void bodies(ProtoWriter& out, const OrtNode* n) {
    std::vector<const OrtGraph*> graphs(read_.n_bodies(n), nullptr);
    if (graphs.empty()) return;
    std::vector<const char*> attribute_names(graphs.size(), nullptr);
    read_.api.check(read_.api.Node_GetSubgraphs(n, graphs.data(), graphs.size(), attribute_names.data()));
    for (size_t i = 0; i < graphs.size(); ++i) {
      ProtoWriter a;
      a.text(field::kAttributeName, attribute_names[i] ? attribute_names[i] : "");
      a.message(field::kG, graph(graphs[i], /*outermost=*/false));
      a.integer(field::kAttributeType, kGraph);
      out.message(field::kAttribute, a);
    }
  }

  template <class T>
  static std::vector<T> numbers(const std::string& bytes) {
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
  }

  ProtoWriter attribute(const OrtOpAttr* a, int type) const {
    ProtoWriter out;
    const char* name = nullptr;
    read_.api.check(read_.api.OpAttr_GetName(a, &name));
    out.text(field::kAttributeName, name);
    int onnx_type = 0;
    switch (type) {
      case kAttrInt:
        onnx_type = kInt;
        for (int64_t v : numbers<int64_t>(read_.attribute(a, type))) out.integer(field::kI, v);
        break;
      case kAttrFloat:
        onnx_type = kFloat;
        for (float v : numbers<float>(read_.attribute(a, type))) out.real(field::kF, v);
        break;
      case kAttrString:
        onnx_type = kString;
        out.text(field::kS, read_.attribute(a, type));
        break;
      case kAttrInts:
        onnx_type = kIntList;
        for (int64_t v : numbers<int64_t>(read_.attribute(a, type))) out.integer(field::kInts, v);
        break;
      case kAttrFloats:
        onnx_type = kFloatList;
        for (float v : numbers<float>(read_.attribute(a, type))) out.real(field::kFloats, v);
        break;
      case kAttrStrings: {
        onnx_type = kStringList;
        const std::string bytes = read_.attribute(a, type);
        for (size_t at = 0; at < bytes.size();) {
          const std::string one(bytes.c_str() + at);
          out.text(field::kStrings, one);
          at += one.size() + 1;
        }
        break;
      }
      case kAttrTensor: {
        OrtValue* copy = nullptr;
        if (OrtStatus* status = read_.api.OpAttr_GetTensorAttributeAsOrtValue(a, &copy)) {
          read_.api.ReleaseStatus(status);  // an element type that ONNX Runtime does not compute with: UNDEFINED
          break;
        }
        onnx_type = kTensor;
        const std::unique_ptr<OrtValue, void (*)(OrtValue*)> owner(copy, read_.api.ReleaseValue);
        out.message(field::kT, tensor("", copy, /*in_place=*/true, nullptr));
        break;
      }
      default:
        break;  // a kind that cannot be read: UNDEFINED, which no operator takes for its default
    }
    out.integer(field::kAttributeType, onnx_type);
    return out;
  }

  ProtoWriter initializer(const OrtValueInfo* v, const char* doc) const {
    const std::string name = read_.name(v);
    const OrtValue* value = read_.initial_value(v);
    if (!value) throw Error(Code::kFailed, "onnxruntime shows no data for initializer '" + name + "'");
    return tensor(name, value, /*in_place=*/false, doc);
  }

  // in_place: whatever the size, because the value is gone before the bytes are read.
  ProtoWriter tensor(const std::string& name, const OrtValue* value, bool in_place, const char* doc) const {
    const Api& api = read_.api;
    int element = 0;
    const int64_t* dims = nullptr;
    size_t rank = 0;
    api.check(api.GetTensorElementTypeAndShapeDataReference(value, &element, &dims, &rank));
    ProtoWriter out;
    for (size_t i = 0; i < rank; ++i) out.integer(field::kDims, dims[i]);
    out.integer(field::kDataType, element);
    if (!name.empty()) out.text(field::kTensorName, name);
    if (doc) out.text(field::kTensorDoc, doc);
    if (element == kStringElement) {
      strings(out, value, element_count(dims, rank));
      return out;
    }
    const void* data = nullptr;
    size_t size = 0;
    api.check(api.GetTensorData(value, &data));
    api.check(api.GetTensorSizeInBytes(value, &size));
    if (in_place || size <= kInlineBytes) {
      out.bytes(field::kRaw, data, size);
      return out;
    }
    entry(out, "location", "@mem");
    entry(out, "offset", std::to_string(reinterpret_cast<uintptr_t>(data)));
    entry(out, "length", std::to_string(size));
    out.integer(field::kLocation, kExternalData);
    return out;
  }
  static size_t element_count(const int64_t* dims, size_t rank) {
    size_t count = 1;
    for (size_t i = 0; i < rank; ++i) count *= static_cast<size_t>(dims[i]);
    return count;
  }
  static void entry(ProtoWriter& out, const char* key, const std::string& value) {
    ProtoWriter e;
    e.text(field::kKey, key);
    e.text(field::kValue, value);
    out.message(field::kExternal, e);
  }
  void strings(ProtoWriter& out, const OrtValue* value, size_t count) const {
    for (size_t i = 0; i < count; ++i) {
      size_t size = 0;
      read_.api.check(read_.api.GetStringTensorElementLength(value, i, &size));
      std::string one(size, '\0');
      read_.api.check(read_.api.GetStringTensorElement(value, size, i, &one[0]));
      out.text(field::kStringData, one);
    }
  }

  ProtoWriter value_info(const OrtValueInfo* v, const char* doc) const {
    ProtoWriter out;
    out.text(field::kValueName, read_.name(v));
    ProtoWriter type;
    if (type_proto(read_.type_info(v), type)) out.message(field::kType, type);
    if (doc) out.text(field::kValueDoc, doc);
    return out;
  }

  // False when there is nothing to say.
  bool type_proto(const OrtTypeInfo* info, ProtoWriter& out) const {
    const Api& api = read_.api;
    int kind = 0;
    if (info) api.check(api.GetOnnxTypeFromTypeInfo(info, &kind));
    OrtTypeInfo* inner = nullptr;
    if (kind == kOnnxTensor) {
      return tensor_type(read_.tensor_type(info), out);
    }
    if (kind == kOnnxSequence) {
      const OrtSequenceTypeInfo* sequence = nullptr;
      api.check(api.CastTypeInfoToSequenceTypeInfo(info, &sequence));
      if (sequence) api.check(api.GetSequenceElementType(sequence, &inner));
    } else if (kind == kOnnxOptional) {
      const OrtOptionalTypeInfo* optional = nullptr;
      api.check(api.CastTypeInfoToOptionalTypeInfo(info, &optional));
      if (optional) api.check(api.GetOptionalContainedTypeInfo(optional, &inner));
    }
    if (!inner) return false;
    const std::unique_ptr<OrtTypeInfo, void (*)(OrtTypeInfo*)> owner(inner, api.ReleaseTypeInfo);
    ProtoWriter element, nested;
    if (!type_proto(inner, element)) return false;
    nested.message(field::kElement, element);
    out.message(kind == kOnnxSequence ? field::kSequenceType : field::kOptionalType, nested);
    return true;
  }

  static bool tensor_type(const TensorType& type, ProtoWriter& out) {
    if (!type.is_tensor) return false;
    ProtoWriter tensor;
    tensor.integer(field::kElementType, type.element);
    if (type.has_rank) {
      ProtoWriter shape;
      for (size_t i = 0; i < type.dims.size(); ++i) {
        ProtoWriter dim;
        if (type.dims[i] >= 0) {
          dim.integer(field::kDimValue, type.dims[i]);
        } else if (!type.symbols[i].empty()) {
          dim.text(field::kDimParam, type.symbols[i]);
        }
        shape.message(field::kDim, dim);
      }
      tensor.message(field::kShape, shape);
    }
    out.message(field::kTensorType, tensor);
    return true;
  }

  GraphReader read_;
  std::set<std::string> domains_;
};

}  // namespace

std::string graph_to_onnx(const Api& api, const OrtGraph* graph) { return Writer(api).model(graph); }

}  // namespace aneforge::ep
