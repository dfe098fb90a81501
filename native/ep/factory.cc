#include "ep/factory.h"

#include <cstring>

#include "core/version.h"
#include "ep/provider.h"

#if defined(_WIN32)
#define ANEFORGE_EXPORT __declspec(dllexport)
#else
#define ANEFORGE_EXPORT __attribute__((visibility("default")))
#endif

namespace aneforge::ep {
namespace {

constexpr const char* kVendor = "ANEForge";
constexpr uint32_t kAppleVendorId = 0x106B;

#if defined(__APPLE__)
constexpr const char* kDeviceName = "Apple Neural Engine";
#else
constexpr const char* kDeviceName = "ANEForge host emulation";
#endif

Factory& self(OrtEpFactory* factory) { return *static_cast<Factory*>(factory); }

class Pairs {
 public:
  explicit Pairs(const Api& api) : api_(api) { api_.CreateKeyValuePairs(&pairs_); }
  ~Pairs() { api_.ReleaseKeyValuePairs(pairs_); }
  Pairs(const Pairs&) = delete;
  Pairs& operator=(const Pairs&) = delete;

  void add(const char* key, const char* value) { api_.AddKeyValuePair(pairs_, key, value); }
  const OrtKeyValuePairs* get() const { return pairs_; }

 private:
  const Api& api_;
  OrtKeyValuePairs* pairs_ = nullptr;
};

}  // namespace

Factory::Factory(std::shared_ptr<const Api> api) : OrtEpFactory{}, api_(std::move(api)) {
  ort_version_supported = api_->version;
  GetName = [](const OrtEpFactory*) -> const char* { return kProviderName; };
  GetVendor = [](const OrtEpFactory*) -> const char* { return kVendor; };
  GetVendorId = [](const OrtEpFactory*) -> uint32_t { return kAppleVendorId; };
  GetVersion = [](const OrtEpFactory*) -> const char* { return kVersion; };
  GetSupportedDevices = [](OrtEpFactory* factory, const OrtHardwareDevice* const* devices, size_t count,
                           OrtEpDevice** out, size_t capacity, size_t* n_out) -> OrtStatus* {
    *n_out = 0;
    return guarded_ort(*self(factory).api_, [&] {
      if (capacity == 0) return;
      out[0] = self(factory).make_device(devices, count);
      *n_out = 1;
    });
  };
  CreateEp = [](OrtEpFactory* factory, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*, size_t,
                const OrtSessionOptions* options, const OrtLogger* logger, OrtEp** out) -> OrtStatus* {
    *out = nullptr;
    const auto& api = self(factory).api_;
    return guarded_ort(*api, [&] { *out = std::make_unique<Provider>(api, options, logger).release(); });
  };
  ReleaseEp = [](OrtEpFactory*, OrtEp* ep) { std::unique_ptr<Provider>(static_cast<Provider*>(ep)).reset(); };
  // Tensors stay in ONNX Runtime's own CPU memory: no allocator, no transfer, no stream. ONNX Runtime asks all the
  // same.
  CreateAllocator = [](OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*, OrtAllocator** out) -> OrtStatus* {
    *out = nullptr;
    return nullptr;
  };
  ReleaseAllocator = [](OrtEpFactory*, OrtAllocator*) {};
  CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** out) -> OrtStatus* {
    *out = nullptr;
    return nullptr;
  };
  IsStreamAware = [](const OrtEpFactory*) { return false; };
}

Factory::~Factory() {
  if (virtual_npu_) api_->ReleaseHardwareDevice(virtual_npu_);
}

// The NPU that ONNX Runtime found, if it is Apple's; else a virtual one. Never the CPU: then every selection policy,
// even the default one, would pick this provider as soon as the library is registered.
const OrtHardwareDevice* Factory::choose(const OrtHardwareDevice* const* devices, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (api_->HardwareDevice_Type(devices[i]) != kNpu) continue;
    const char* vendor = api_->HardwareDevice_Vendor(devices[i]);
    if (api_->HardwareDevice_VendorId(devices[i]) == kAppleVendorId || (vendor && std::strstr(vendor, "Apple"))) {
      return devices[i];
    }
  }
  if (!virtual_npu_) {
    Pairs metadata(*api_);
    metadata.add("is_virtual", "1");
    metadata.add("Description", kDeviceName);
    api_->check(api_->CreateHardwareDevice(kNpu, kAppleVendorId, 0, kDeviceName, metadata.get(), &virtual_npu_));
  }
  return virtual_npu_;
}

OrtEpDevice* Factory::make_device(const OrtHardwareDevice* const* devices, size_t count) {
  const Pairs none(*api_);  // no default options: ONNX Runtime would warn of each that a user sets
  OrtEpDevice* device = nullptr;
  api_->check(api_->CreateEpDevice(this, choose(devices, count), none.get(), none.get(), &device));
  return device;
}

}  // namespace aneforge::ep

// The two functions that ONNX Runtime looks for -----------------------------------------------------------------------

using namespace aneforge::ep;

extern "C" ANEFORGE_EXPORT OrtStatus* CreateEpFactories(const char* /*registered_name*/, const OrtApiBase* base,
                                                        const OrtLogger*, OrtEpFactory** out, size_t capacity,
                                                        size_t* n_out) noexcept {
  *n_out = 0;
  std::string why;
  try {
    std::shared_ptr<const Api> api = Api::bind(base);
    if (capacity == 0) return api->CreateStatus(kOrtInvalidArgument, "ANEForge provider: no room for a factory");
    out[0] = std::make_unique<Factory>(std::move(api)).release();
    *n_out = 1;
    return nullptr;
  } catch (const std::exception& e) {
    why = e.what();
  } catch (...) {
    why = "ANEForge provider: unknown exception";
  }
  return status_without_api(base, why.c_str());
}

extern "C" ANEFORGE_EXPORT OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  std::unique_ptr<Factory>(static_cast<Factory*>(factory)).reset();
  return nullptr;
}
