// ONNX Runtime's C interface, as far as this provider needs it. No header of ONNX Runtime is used: its interface is two
// tables of function pointers that only ever grow at their end, so that a position and a signature are all it takes to
// call one.
//
// The positions are data (ANEFORGE_ORT_API, ANEFORGE_ORT_EP_API); tests/native/test_ep_interop.py reads them from this
// file and checks them against the installed library. To use another function, add a row; the member of Api comes of
// itself. Source of positions, signatures and versions: onnxruntime_c_api.h and onnxruntime_ep_c_api.h of API
// version 29.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/status.h"

namespace aneforge::ep {

// Opaque handles ------------------------------------------------------------------------------------------------------

struct OrtStatus;
struct OrtLogger;
struct OrtValue;
struct OrtTypeInfo;
struct OrtMemoryInfo;
struct OrtSequenceTypeInfo;
struct OrtOptionalTypeInfo;
struct OrtTensorTypeAndShapeInfo;
struct OrtKernelContext;
struct OrtSessionOptions;
struct OrtKeyValuePairs;
struct OrtHardwareDevice;
struct OrtEpDevice;
struct OrtGraph;
struct OrtNode;
struct OrtValueInfo;
struct OrtOpAttr;
struct OrtEpGraphSupportInfo;
struct OrtNodeComputeContext;
struct OrtRunOptions;
struct OrtAllocator;
struct OrtDataTransferImpl;
struct OrtSyncStreamImpl;
struct OrtMemoryDevice;

// Enumerations: the values that are used here -------------------------------------------------------------------------

enum OrtCode : int { kOrtFail = 1, kOrtInvalidArgument = 2 };
enum OrtSeverity : int { kVerbose = 0, kInfo = 1, kWarning = 2, kError = 3 };
enum OrtDeviceType : int { kCpu = 0, kGpu = 1, kNpu = 2 };
enum OrtOnnxType : int { kOnnxTensor = 1, kOnnxSequence = 2, kOnnxOptional = 6 };
// Not the numbers of onnx.AttributeProto.
enum OrtAttribute : int {
  kAttrInt = 1,
  kAttrInts,
  kAttrFloat,
  kAttrFloats,
  kAttrString,
  kAttrStrings,
  kAttrGraph,
  kAttrTensor
};

// The entry that the library is handed, and the structs that it fills -------------------------------------------------
//
// Each of the latter begins with the negotiated version: ONNX Runtime reads no member younger than that. A null member
// means "not implemented".

struct OrtApiBase {
  const void* (*GetApi)(uint32_t version);  // null, and a line on stderr, for a version that it does not know
  const char* (*GetVersionString)();        // "1.32.0"
};

struct OrtNodeFusionOptions {
  uint32_t ort_version_supported;
  bool drop_constant_initializers;
};

struct OrtNodeComputeInfo {
  uint32_t ort_version_supported;
  OrtStatus* (*CreateState)(OrtNodeComputeInfo*, OrtNodeComputeContext*, void** state);
  OrtStatus* (*Compute)(OrtNodeComputeInfo*, void* state, OrtKernelContext*);
  void (*ReleaseState)(OrtNodeComputeInfo*, void* state);
};

struct OrtEp {
  uint32_t ort_version_supported;
  const char* (*GetName)(const OrtEp*);
  OrtStatus* (*GetCapability)(OrtEp*, const OrtGraph*, OrtEpGraphSupportInfo*);
  OrtStatus* (*Compile)(OrtEp*, const OrtGraph** graphs, const OrtNode** fused, size_t count,
                        OrtNodeComputeInfo** infos, OrtNode** ep_context_nodes);
  void (*ReleaseNodeComputeInfos)(OrtEp*, OrtNodeComputeInfo** infos, size_t count);
  OrtStatus* (*GetPreferredDataLayout)(OrtEp*, int* layout);
  OrtStatus* (*ShouldConvertDataLayoutForOp)(OrtEp*, const char* domain, const char* op, int layout, int* convert);
  OrtStatus* (*SetDynamicOptions)(OrtEp*, const char* const* keys, const char* const* values, size_t count);
  OrtStatus* (*OnRunStart)(OrtEp*, const OrtRunOptions*);
  OrtStatus* (*OnRunEnd)(OrtEp*, const OrtRunOptions*, bool sync);
  OrtStatus* (*CreateAllocator)(OrtEp*, const OrtMemoryInfo*, OrtAllocator**);
  OrtStatus* (*CreateSyncStreamForDevice)(OrtEp*, const OrtMemoryDevice*, OrtSyncStreamImpl**);
  const char* (*GetCompiledModelCompatibilityInfo)(OrtEp*, const OrtGraph*);
  void* GetKernelRegistry;                                             // 1.24, not implemented
  OrtStatus* (*IsConcurrentRunSupported)(OrtEp*, bool* is_supported);  // 1.24
  void* since_1_25[11];                                                // up to 1.29, none implemented
};
static_assert(sizeof(OrtEp) == 26 * sizeof(void*), "OrtEp of API version 29");

struct OrtEpFactory {
  uint32_t ort_version_supported;
  const char* (*GetName)(const OrtEpFactory*);
  const char* (*GetVendor)(const OrtEpFactory*);
  OrtStatus* (*GetSupportedDevices)(OrtEpFactory*, const OrtHardwareDevice* const* devices, size_t count,
                                    OrtEpDevice** out, size_t capacity, size_t* n_out);
  OrtStatus* (*CreateEp)(OrtEpFactory*, const OrtHardwareDevice* const* devices,
                         const OrtKeyValuePairs* const* metadata, size_t count, const OrtSessionOptions*,
                         const OrtLogger*, OrtEp** out);
  void (*ReleaseEp)(OrtEpFactory*, OrtEp*);
  uint32_t (*GetVendorId)(const OrtEpFactory*);
  const char* (*GetVersion)(const OrtEpFactory*);
  OrtStatus* (*ValidateCompiledModelCompatibilityInfo)(OrtEpFactory*, const OrtHardwareDevice* const*, size_t,
                                                       const char*, int*);
  OrtStatus* (*CreateAllocator)(OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*, OrtAllocator**);
  void (*ReleaseAllocator)(OrtEpFactory*, OrtAllocator*);
  OrtStatus* (*CreateDataTransfer)(OrtEpFactory*, OrtDataTransferImpl**);
  bool (*IsStreamAware)(const OrtEpFactory*);
  OrtStatus* (*CreateSyncStreamForDevice)(OrtEpFactory*, const OrtMemoryDevice*, const OrtKeyValuePairs*,
                                          OrtSyncStreamImpl**);
  void* since_1_24[7];  // up to 1.28, none implemented
};
static_assert(sizeof(OrtEpFactory) == 21 * sizeof(void*), "OrtEpFactory of API version 29");

// The tables ----------------------------------------------------------------------------------------------------------
//
// X(name, position, first version 1.x that has it, result, arguments)

#define ANEFORGE_ORT_API(X)                                                                                          \
  X(CreateStatus, 0, 1, OrtStatus*, (int code, const char* text))                                                    \
  X(GetErrorCode, 1, 1, int, (const OrtStatus*))                                                                     \
  X(GetErrorMessage, 2, 1, const char*, (const OrtStatus*))                                                          \
  X(GetTensorMutableData, 51, 1, OrtStatus*, (OrtValue*, void** out))                                                \
  X(CastTypeInfoToTensorInfo, 55, 1, OrtStatus*, (const OrtTypeInfo*, const OrtTensorTypeAndShapeInfo** borrowed))   \
  X(GetOnnxTypeFromTypeInfo, 56, 1, OrtStatus*, (const OrtTypeInfo*, int* out))                                      \
  X(GetTensorElementType, 60, 1, OrtStatus*, (const OrtTensorTypeAndShapeInfo*, int* out))                           \
  X(GetDimensionsCount, 61, 1, OrtStatus*, (const OrtTensorTypeAndShapeInfo*, size_t* out))                          \
  X(GetDimensions, 62, 1, OrtStatus*, (const OrtTensorTypeAndShapeInfo*, int64_t* out, size_t count))                \
  X(GetSymbolicDimensions, 63, 1, OrtStatus*, (const OrtTensorTypeAndShapeInfo*, const char** out, size_t count))    \
  X(KernelContext_GetInput, 90, 1, OrtStatus*, (const OrtKernelContext*, size_t index, const OrtValue** out))        \
  X(KernelContext_GetOutput, 91, 1, OrtStatus*,                                                                      \
    (OrtKernelContext*, size_t index, const int64_t* dims, size_t rank, OrtValue** out))                             \
  X(ReleaseStatus, 93, 1, void, (OrtStatus*))                                                                        \
  X(ReleaseValue, 96, 1, void, (OrtValue*))                                                                          \
  X(ReleaseTypeInfo, 98, 1, void, (OrtTypeInfo*))                                                                    \
  X(CastTypeInfoToSequenceTypeInfo, 104, 2, OrtStatus*, (const OrtTypeInfo*, const OrtSequenceTypeInfo** borrowed))  \
  X(GetSequenceElementType, 107, 2, OrtStatus*, (const OrtSequenceTypeInfo*, OrtTypeInfo** owned))                   \
  X(GetStringTensorElementLength, 127, 5, OrtStatus*, (const OrtValue*, size_t index, size_t* out))                  \
  X(GetStringTensorElement, 128, 5, OrtStatus*, (const OrtValue*, size_t size, size_t index, void* out))             \
  X(KernelContext_GetLogger, 246, 15, OrtStatus*, (const OrtKernelContext*, const OrtLogger** out))                  \
  X(Logger_LogMessage, 247, 15, OrtStatus*,                                                                          \
    (const OrtLogger*, int severity, const char* text, const char* file, int line, const char* function))            \
  X(CastTypeInfoToOptionalTypeInfo, 250, 15, OrtStatus*, (const OrtTypeInfo*, const OrtOptionalTypeInfo** borrowed)) \
  X(GetOptionalContainedTypeInfo, 251, 15, OrtStatus*, (const OrtOptionalTypeInfo*, OrtTypeInfo** owned))            \
  X(GetBuildInfoString, 254, 15, const char*, ())                                                                    \
  X(ReadOpAttr, 272, 17, OrtStatus*, (const OrtOpAttr*, int type, void* out, size_t size, size_t* needed))           \
  X(KernelContext_ParallelFor, 274, 17, OrtStatus*,                                                                  \
    (const OrtKernelContext*, void (*fn)(void* user, size_t i), size_t total, size_t num_batch, void* user))         \
  X(GetValueInfoName, 289, 22, OrtStatus*, (const OrtValueInfo*, const char** out))                                  \
  X(GetValueInfoTypeInfo, 290, 22, OrtStatus*, (const OrtValueInfo*, const OrtTypeInfo** borrowed))                  \
  X(CreateKeyValuePairs, 295, 22, void, (OrtKeyValuePairs * *out))                                                   \
  X(AddKeyValuePair, 296, 22, void, (OrtKeyValuePairs*, const char* key, const char* value))                         \
  X(GetKeyValue, 297, 22, const char*, (const OrtKeyValuePairs*, const char* key))                                   \
  X(GetKeyValuePairs, 298, 22, void,                                                                                 \
    (const OrtKeyValuePairs*, const char* const** keys, const char* const** values, size_t* count))                  \
  X(ReleaseKeyValuePairs, 300, 22, void, (OrtKeyValuePairs*))                                                        \
  X(HardwareDevice_Type, 307, 22, int, (const OrtHardwareDevice*))                                                   \
  X(HardwareDevice_VendorId, 308, 22, uint32_t, (const OrtHardwareDevice*))                                          \
  X(HardwareDevice_Vendor, 309, 22, const char*, (const OrtHardwareDevice*))                                         \
  X(GetEpApi, 317, 22, const void*, ())                                                                              \
  X(GetTensorSizeInBytes, 318, 23, OrtStatus*, (const OrtValue*, size_t* out))                                       \
  X(ValueInfo_GetInitializerValue, 326, 23, OrtStatus*, (const OrtValueInfo*, const OrtValue** borrowed))            \
  X(ValueInfo_IsConstantInitializer, 331, 23, OrtStatus*, (const OrtValueInfo*, bool* out))                          \
  X(ValueInfo_IsFromOuterScope, 332, 23, OrtStatus*, (const OrtValueInfo*, bool* out))                               \
  X(Graph_GetName, 333, 23, OrtStatus*, (const OrtGraph*, const char** out))                                         \
  X(Graph_GetModelPath, 334, 23, OrtStatus*, (const OrtGraph*, const char** out))                                    \
  X(Graph_GetOnnxIRVersion, 335, 23, OrtStatus*, (const OrtGraph*, int64_t* out))                                    \
  X(Graph_GetNumOperatorSets, 336, 23, OrtStatus*, (const OrtGraph*, size_t* out))                                   \
  X(Graph_GetOperatorSets, 337, 23, OrtStatus*,                                                                      \
    (const OrtGraph*, const char** domains, int64_t* versions, size_t count))                                        \
  X(Graph_GetNumInputs, 338, 23, OrtStatus*, (const OrtGraph*, size_t* out))                                         \
  X(Graph_GetInputs, 339, 23, OrtStatus*, (const OrtGraph*, const OrtValueInfo** out, size_t count))                 \
  X(Graph_GetNumOutputs, 340, 23, OrtStatus*, (const OrtGraph*, size_t* out))                                        \
  X(Graph_GetOutputs, 341, 23, OrtStatus*, (const OrtGraph*, const OrtValueInfo** out, size_t count))                \
  X(Graph_GetNumInitializers, 342, 23, OrtStatus*, (const OrtGraph*, size_t* out))                                   \
  X(Graph_GetInitializers, 343, 23, OrtStatus*, (const OrtGraph*, const OrtValueInfo** out, size_t count))           \
  X(Graph_GetNumNodes, 344, 23, OrtStatus*, (const OrtGraph*, size_t* out))                                          \
  X(Graph_GetNodes, 345, 23, OrtStatus*, (const OrtGraph*, const OrtNode** out, size_t count))                       \
  X(Graph_GetParentNode, 346, 23, OrtStatus*, (const OrtGraph*, const OrtNode** out))                                \
  X(Node_GetName, 349, 23, OrtStatus*, (const OrtNode*, const char** out))                                           \
  X(Node_GetOperatorType, 350, 23, OrtStatus*, (const OrtNode*, const char** out))                                   \
  X(Node_GetDomain, 351, 23, OrtStatus*, (const OrtNode*, const char** out))                                         \
  X(Node_GetNumInputs, 353, 23, OrtStatus*, (const OrtNode*, size_t* out))                                           \
  X(Node_GetInputs, 354, 23, OrtStatus*, (const OrtNode*, const OrtValueInfo** out, size_t count))                   \
  X(Node_GetNumOutputs, 355, 23, OrtStatus*, (const OrtNode*, size_t* out))                                          \
  X(Node_GetOutputs, 356, 23, OrtStatus*, (const OrtNode*, const OrtValueInfo** out, size_t count))                  \
  X(Node_GetNumImplicitInputs, 357, 23, OrtStatus*, (const OrtNode*, size_t* out))                                   \
  X(Node_GetImplicitInputs, 358, 23, OrtStatus*, (const OrtNode*, const OrtValueInfo** out, size_t count))           \
  X(Node_GetNumAttributes, 359, 23, OrtStatus*, (const OrtNode*, size_t* out))                                       \
  X(Node_GetAttributes, 360, 23, OrtStatus*, (const OrtNode*, const OrtOpAttr** out, size_t count))                  \
  X(OpAttr_GetTensorAttributeAsOrtValue, 362, 23, OrtStatus*, (const OrtOpAttr*, OrtValue** owned))                  \
  X(OpAttr_GetType, 363, 23, OrtStatus*, (const OrtOpAttr*, int* out))                                               \
  X(OpAttr_GetName, 364, 23, OrtStatus*, (const OrtOpAttr*, const char** out))                                       \
  X(Node_GetNumSubgraphs, 365, 23, OrtStatus*, (const OrtNode*, size_t* out))                                        \
  X(Node_GetSubgraphs, 366, 23, OrtStatus*,                                                                          \
    (const OrtNode*, const OrtGraph** out, size_t count, const char** attribute_names))                              \
  X(Node_GetGraph, 367, 23, OrtStatus*, (const OrtNode*, const OrtGraph** out))                                      \
  X(Node_GetEpName, 368, 23, OrtStatus*, (const OrtNode*, const char** out))                                         \
  X(GetTensorData, 378, 23, OrtStatus*, (const OrtValue*, const void** out))                                         \
  X(GetSessionOptionsConfigEntries, 379, 23, OrtStatus*, (const OrtSessionOptions*, OrtKeyValuePairs** owned))       \
  X(TensorTypeAndShape_HasShape, 390, 24, bool, (const OrtTensorTypeAndShapeInfo*))                                  \
  X(GetTensorElementTypeAndShapeDataReference, 414, 24, OrtStatus*,                                                  \
    (const OrtValue*, int* type, const int64_t** dims, size_t* rank))

#define ANEFORGE_ORT_EP_API(X)                                                                                   \
  X(CreateEpDevice, 0, 22, OrtStatus*,                                                                           \
    (OrtEpFactory*, const OrtHardwareDevice*, const OrtKeyValuePairs* metadata, const OrtKeyValuePairs* options, \
     OrtEpDevice** out))                                                                                         \
  X(ReleaseEpDevice, 1, 22, void, (OrtEpDevice*))                                                                \
  X(EpGraphSupportInfo_AddNodesToFuse, 2, 23, OrtStatus*,                                                        \
    (OrtEpGraphSupportInfo*, const OrtNode* const* nodes, size_t count, const OrtNodeFusionOptions*))            \
  X(CreateHardwareDevice, 16, 24, OrtStatus*,                                                                    \
    (int type, uint32_t vendor_id, uint32_t device_id, const char* vendor, const OrtKeyValuePairs* metadata,     \
     OrtHardwareDevice** out))                                                                                   \
  X(ReleaseHardwareDevice, 17, 24, void, (OrtHardwareDevice*))

// The binding ---------------------------------------------------------------------------------------------------------

inline constexpr uint32_t kOldestOrt = 24;  // virtual devices and shapes by reference came with 1.24
inline constexpr uint32_t kNewestOrt = 29;  // the newest whose order was read; newer libraries are asked for this one

#define ANEFORGE_CHECK(name, position, since, result, arguments) \
  static_assert(since <= kOldestOrt, #name " is used without asking whether this onnxruntime has it");
ANEFORGE_ORT_API(ANEFORGE_CHECK)
ANEFORGE_ORT_EP_API(ANEFORGE_CHECK)
#undef ANEFORGE_CHECK

// The functions by name. One for each factory: a process may hold more than one ONNX Runtime.
struct Api {
  uint32_t version = 0;  // negotiated; goes into every ort_version_supported
#define ANEFORGE_MEMBER(name, position, since, result, arguments) result(*name) arguments = nullptr;
  ANEFORGE_ORT_API(ANEFORGE_MEMBER)
  ANEFORGE_ORT_EP_API(ANEFORGE_MEMBER)
#undef ANEFORGE_MEMBER

  // Negotiates, fills in the functions, and tries those that are harmless to try. Throws Error{kUnsupported} when this
  // ONNX Runtime is too old or does not behave as its version says.
  static std::shared_ptr<const Api> bind(const OrtApiBase* base);

  // Throws what the status says, and releases it.
  void check(OrtStatus* status) const {
    if (status) fail(status);
  }
  // To be called inside a catch block: the exception in flight as a status, never of the code EP_FAIL, on which ONNX
  // Runtime's Python class would rebuild the session on the CPU without a word.
  OrtStatus* status_of_exception() const noexcept;

 private:
  [[noreturn]] void fail(OrtStatus* status) const;
};

// A status for an ONNX Runtime that bind() refused; null would mean success. Made with the first table there ever was.
OrtStatus* status_without_api(const OrtApiBase* base, const char* text) noexcept;

// Every function that ONNX Runtime calls runs in here: an exception that got into its frames would end the process.
template <class Body>
OrtStatus* guarded_ort(const Api& api, Body&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (...) {
    return api.status_of_exception();
  }
}

}  // namespace aneforge::ep
