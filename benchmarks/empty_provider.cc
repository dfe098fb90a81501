// A provider that does nothing, for benchmarks/boundary.py: what a fused node costs ONNX Runtime itself. It claims the
// whole graph as one node, and its Compute asks for that node's outputs (which makes ONNX Runtime allocate or bind
// them, and nothing after it would run otherwise) and returns. What is in them is what was there before.
#include <memory>
#include <vector>

#include "ep/graph_reader.h"
#include "ep/ort_api.h"

namespace {

using namespace aneforge::ep;

constexpr const char* kName = "EmptyProvider";

struct Empty final : OrtNodeComputeInfo {
  std::shared_ptr<const Api> api;
  std::vector<std::vector<int64_t>> outputs;

  Empty(std::shared_ptr<const Api> given, const OrtNode* fused) : OrtNodeComputeInfo{}, api(std::move(given)) {
    const GraphReader read(*api);
    for (const OrtValueInfo* v : read.outputs(fused)) outputs.push_back(read.tensor_type(v).dims);
    ort_version_supported = api->version;
    CreateState = [](OrtNodeComputeInfo*, OrtNodeComputeContext*, void** state) -> OrtStatus* {
      *state = nullptr;
      return nullptr;
    };
    ReleaseState = [](OrtNodeComputeInfo*, void*) {};
    Compute = [](OrtNodeComputeInfo* info, void*, OrtKernelContext* context) -> OrtStatus* {
      const Empty& self = *static_cast<Empty*>(info);
      for (size_t i = 0; i < self.outputs.size(); ++i) {
        OrtValue* value = nullptr;
        const std::vector<int64_t>& dims = self.outputs[i];
        if (OrtStatus* failed = self.api->KernelContext_GetOutput(context, i, dims.data(), dims.size(), &value))
          return failed;
      }
      return nullptr;
    };
  }
};

struct EmptyEp final : OrtEp {
  std::shared_ptr<const Api> api;

  explicit EmptyEp(std::shared_ptr<const Api> given) : OrtEp{}, api(std::move(given)) {
    ort_version_supported = api->version;
    GetName = [](const OrtEp*) { return kName; };
    GetCapability = [](OrtEp* ep, const OrtGraph* graph, OrtEpGraphSupportInfo* info) -> OrtStatus* {
      const Api& api = *static_cast<EmptyEp*>(ep)->api;
      return guarded_ort(api, [&] {
        const std::vector<const OrtNode*> nodes = GraphReader(api).nodes(graph);
        const OrtNodeFusionOptions options{api.version, true};
        api.check(api.EpGraphSupportInfo_AddNodesToFuse(info, nodes.data(), nodes.size(), &options));
      });
    };
    Compile = [](OrtEp* ep, const OrtGraph**, const OrtNode** fused, size_t count, OrtNodeComputeInfo** infos,
                 OrtNode**) -> OrtStatus* {
      const auto& api = static_cast<EmptyEp*>(ep)->api;
      return guarded_ort(*api, [&] {
        for (size_t i = 0; i < count; ++i) infos[i] = new Empty(api, fused[i]);
      });
    };
    ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** infos, size_t count) {
      for (size_t i = 0; i < count; ++i) delete static_cast<Empty*>(infos[i]);
    };
  }
};

struct EmptyFactory final : OrtEpFactory {
  std::shared_ptr<const Api> api;

  explicit EmptyFactory(std::shared_ptr<const Api> given) : OrtEpFactory{}, api(std::move(given)) {
    ort_version_supported = api->version;
    GetName = [](const OrtEpFactory*) { return kName; };
    GetVendor = [](const OrtEpFactory*) { return "benchmarks"; };
    GetVendorId = [](const OrtEpFactory*) -> uint32_t { return 0; };
    GetVersion = [](const OrtEpFactory*) { return "1.0.0"; };
    GetSupportedDevices = [](OrtEpFactory* factory, const OrtHardwareDevice* const* devices, size_t count,
                             OrtEpDevice** out, size_t, size_t* n_out) -> OrtStatus* {
      const Api& api = *static_cast<EmptyFactory*>(factory)->api;
      *n_out = 0;
      return guarded_ort(api, [&] {
        for (size_t i = 0; i < count && *n_out == 0; ++i) {
          if (api.HardwareDevice_Type(devices[i]) != kCpu) continue;
          OrtKeyValuePairs* none = nullptr;
          api.CreateKeyValuePairs(&none);
          OrtStatus* failed = api.CreateEpDevice(factory, devices[i], none, none, out);
          api.ReleaseKeyValuePairs(none);
          api.check(failed);
          *n_out = 1;
        }
      });
    };
    CreateEp = [](OrtEpFactory* factory, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*, size_t,
                  const OrtSessionOptions*, const OrtLogger*, OrtEp** out) -> OrtStatus* {
      *out = new EmptyEp(static_cast<EmptyFactory*>(factory)->api);
      return nullptr;
    };
    ReleaseEp = [](OrtEpFactory*, OrtEp* ep) { delete static_cast<EmptyEp*>(ep); };
    CreateAllocator = [](OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*, OrtAllocator** out) {
      *out = nullptr;
      return static_cast<OrtStatus*>(nullptr);
    };
    ReleaseAllocator = [](OrtEpFactory*, OrtAllocator*) {};
    CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** out) {
      *out = nullptr;
      return static_cast<OrtStatus*>(nullptr);
    };
    IsStreamAware = [](const OrtEpFactory*) { return false; };
  }
};

}  // namespace

extern "C" __attribute__((visibility("default"))) OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base,
                                                                               const OrtLogger*, OrtEpFactory** out,
                                                                               size_t, size_t* n_out) noexcept {
  try {
    out[0] = new EmptyFactory(Api::bind(base));
    *n_out = 1;
    return nullptr;
  } catch (const std::exception& error) {
    return status_without_api(base, error.what());
  }
}

extern "C" __attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  delete static_cast<EmptyFactory*>(factory);
  return nullptr;
}
