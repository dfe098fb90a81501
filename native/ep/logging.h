// Messages through ONNX Runtime's logger: the application's log level and sink apply.
#pragma once
#include <string>

#include "ep/ort_api.h"

namespace aneforge::ep {

class Logger {
 public:
  Logger(const Api& api, const OrtLogger* logger) : api_(&api), logger_(logger) {}
  // The logger of the run in flight: it knows the session's own level, the one handed to CreateEp only the process's.
  static Logger of_run(const Api& api, const OrtKernelContext* context) noexcept;

  // A message that cannot be logged is dropped: nothing here may fail.
  void log(OrtSeverity severity, const std::string& text) const noexcept;

 private:
  const Api* api_;
  const OrtLogger* logger_;
};

}  // namespace aneforge::ep
