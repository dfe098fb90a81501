// The provider's factory: what ONNX Runtime learns when the library is registered.
#pragma once
#include <memory>

#include "ep/ort_api.h"

namespace aneforge::ep {

class Factory : public OrtEpFactory {
 public:
  explicit Factory(std::shared_ptr<const Api> api);
  ~Factory();
  Factory(const Factory&) = delete;
  Factory& operator=(const Factory&) = delete;

 private:
  OrtEpDevice* make_device(const OrtHardwareDevice* const* devices, size_t count);
  const OrtHardwareDevice* choose(const OrtHardwareDevice* const* devices, size_t count);

  const std::shared_ptr<const Api> api_;
  // A device of our own where ONNX Runtime shows no Neural Engine. Every OrtEpDevice made of it points to it.
  OrtHardwareDevice* virtual_npu_ = nullptr;
};

}  // namespace aneforge::ep
