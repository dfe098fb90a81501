#include "coreml/objc.h"

#include <dlfcn.h>

#include <cstdlib>

namespace aneforge::coreml {
namespace {

void* opened(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    throw Error(Code::kFailed, std::string("Core ML is not here: ") + (why ? why : path));
  }
  return library;
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) throw Error(Code::kFailed, std::string("Core ML is not here: the runtime lacks ") + name);
}

}  // namespace

Runtime::Runtime() {
  const char* other = std::getenv("ANEFORGE_COREML_LIBRARY");
  const bool ours = other && *other;
  void* library = opened(ours ? other : "/usr/lib/libobjc.A.dylib");
  if (!ours) {
    opened("/System/Library/Frameworks/Foundation.framework/Foundation");
    opened("/System/Library/Frameworks/CoreML.framework/CoreML");
  }
  find(library, "objc_getClass", get_class);
  find(library, "object_getClass", class_of);
  find(library, "sel_registerName", register_selector);
  find(library, "class_getMethodImplementation", implementation);
  find(library, "objc_retain", retain);
  find(library, "objc_release", release);
  find(library, "objc_autoreleasePoolPush", push_pool);
  find(library, "objc_autoreleasePoolPop", pop_pool);
}

const Runtime& Runtime::get() {
  static const Runtime* objc = new Runtime();  // never freed: objects may outlive statics
  return *objc;
}

Id Runtime::named(const char* name) const {
  const Id found = get_class(name);
  if (!found) throw Error(Code::kFailed, std::string("Core ML is not here: there is no class ") + name);
  return found;
}

Id Runtime::string(const std::string& text) const {
  return send<Id>(named("NSString"), "stringWithUTF8String:", text.c_str());
}

std::string Runtime::text(Id string) const {
  const char* bytes = string ? send<const char*>(string, "UTF8String") : nullptr;
  return bytes ? bytes : "";
}

void Runtime::fail(const std::string& what, Id error) const {
  const std::string why = error ? text(send<Id>(error, "localizedDescription")) : "";
  throw Error(Code::kFailed, what + (why.empty() ? "" : ": " + why));
}

}  // namespace aneforge::coreml
