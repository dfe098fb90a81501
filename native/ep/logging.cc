#include "ep/logging.h"

namespace aneforge::ep {

Logger Logger::of_run(const Api& api, const OrtKernelContext* context) noexcept {
  const OrtLogger* logger = nullptr;
  if (OrtStatus* status = api.KernelContext_GetLogger(context, &logger)) {
    api.ReleaseStatus(status);
    logger = nullptr;
  }
  return Logger(api, logger);
}

void Logger::log(OrtSeverity severity, const std::string& text) const noexcept {
  if (!logger_) return;
  if (OrtStatus* status = api_->Logger_LogMessage(logger_, severity, text.c_str(), "aneforge", 0, "ANEForgeProvider")) {
    api_->ReleaseStatus(status);
  }
}

}  // namespace aneforge::ep
