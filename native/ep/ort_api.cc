#include "ep/ort_api.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace aneforge::ep {
namespace {

// The minor number of "1.32.0"; 0 if the text has another form. Asking before GetApi avoids the line that it prints.
uint32_t minor_version(const char* text) {
  if (!text || std::strncmp(text, "1.", 2) != 0) return 0;
  return static_cast<uint32_t>(std::strtoul(text + 2, nullptr, 10));
}

[[noreturn]] void unusable(const std::string& why) { throw Error(Code::kUnsupported, "ANEForge provider: " + why); }

template <class Function>
void take(Function& member, const void* table, int position) {
  static_assert(sizeof(Function) == sizeof(void*), "a table of plain pointers");
  std::memcpy(&member, static_cast<const char*>(table) + static_cast<size_t>(position) * sizeof(void*), sizeof member);
}

// Calls what can be called without an object of ONNX Runtime's: a table in another order would show here, not in a
// session.
bool answers_as_expected(const Api& api) {
  OrtStatus* status = api.CreateStatus(kOrtInvalidArgument, "probe");
  if (!status) return false;
  bool good = api.GetErrorCode(status) == kOrtInvalidArgument && std::strcmp(api.GetErrorMessage(status), "probe") == 0;
  api.ReleaseStatus(status);

  OrtKeyValuePairs* pairs = nullptr;
  api.CreateKeyValuePairs(&pairs);
  if (!pairs) return false;
  api.AddKeyValuePair(pairs, "key", "value");
  const char* value = api.GetKeyValue(pairs, "key");
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  api.GetKeyValuePairs(pairs, &keys, &values, &count);
  good = good && value && std::strcmp(value, "value") == 0 && count == 1 && std::strcmp(keys[0], "key") == 0;
  api.ReleaseKeyValuePairs(pairs);

  const char* build = api.GetBuildInfoString();
  return good && build && std::strncmp(build, "ORT Build Info", 14) == 0;
}

}  // namespace

std::shared_ptr<const Api> Api::bind(const OrtApiBase* base) {
  const char* text = base->GetVersionString();
  const uint32_t minor = minor_version(text);
  if (minor < kOldestOrt) {
    unusable("needs onnxruntime 1." + std::to_string(kOldestOrt) + " or newer, this is " +
             (text ? text : "of unknown version"));
  }
  auto api = std::make_shared<Api>();
  api->version = std::min(minor, kNewestOrt);
  const void* table = base->GetApi(api->version);
  if (!table) unusable("onnxruntime " + std::string(text) + " has no API version " + std::to_string(api->version));

#define ANEFORGE_TAKE(name, position, since, result, arguments) take(api->name, table, position);
  ANEFORGE_ORT_API(ANEFORGE_TAKE)
  table = api->GetEpApi ? api->GetEpApi() : nullptr;
  if (!table) unusable("onnxruntime " + std::string(text) + " was built without plugin providers");
  ANEFORGE_ORT_EP_API(ANEFORGE_TAKE)
#undef ANEFORGE_TAKE

  if (!answers_as_expected(*api)) {
    unusable("the function table of onnxruntime " + std::string(text) + " is not in the published order");
  }
  return api;
}

void Api::fail(OrtStatus* status) const {
  const Error error(GetErrorCode(status) == kOrtInvalidArgument ? Code::kInvalidArgument : Code::kFailed,
                    GetErrorMessage(status));
  ReleaseStatus(status);
  throw error;
}

OrtStatus* Api::status_of_exception() const noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return CreateStatus(e.code() == Code::kInvalidArgument ? kOrtInvalidArgument : kOrtFail, e.what());
  } catch (const std::exception& e) {
    return CreateStatus(kOrtFail, e.what());
  } catch (...) {
    return CreateStatus(kOrtFail, "unknown exception");
  }
}

OrtStatus* status_without_api(const OrtApiBase* base, const char* text) noexcept {
  Api api;
  const void* table = base->GetApi(1);
  if (table) take(api.CreateStatus, table, 0);
  return api.CreateStatus ? api.CreateStatus(kOrtFail, text) : nullptr;
}

}  // namespace aneforge::ep
