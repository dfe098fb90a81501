#include "runtime/folder.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>

#include "core/status.h"
#include "runtime/engine.h"

namespace aneforge::runtime {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what, int error) {
  throw Error(Code::kFailed, "the engine's compiler needs a file: " + what + ": " + std::strerror(error));
}

fs::path user_caches() {
  const char* home = std::getenv("HOME");
#ifdef __APPLE__
  if (home && *home) return fs::path(home) / "Library" / "Caches";
#else
  const char* caches = std::getenv("XDG_CACHE_HOME");
  if (caches && *caches) return caches;
  if (home && *home) return fs::path(home) / ".cache";
#endif
  throw Error(Code::kFailed, "the engine's compiler needs a folder for its files, and HOME is not set");
}

// Folders are called <process>-<random>. A process that is gone has no use for its own.
void sweep(const fs::path& root) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, ignored)) {
    char* end = nullptr;
    const std::string name = entry.path().filename().string();
    const long owner = std::strtol(name.c_str(), &end, 10);
    if (owner > 0 && *end == '-' && kill(static_cast<pid_t>(owner), 0) != 0 && errno == ESRCH)
      fs::remove_all(entry.path(), ignored);
  }
}

void write(const std::string& path, const void* data, size_t size) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (!file) fail(path, errno);
  std::setvbuf(file.get(), nullptr, _IONBF, 0);  // one write, no copy
  if (std::fwrite(data, 1, size, file.get()) != size) fail(path, errno);
}

}  // namespace

Folder::Folder(const std::string& root, const MilFile& file) {
  const fs::path above = root.empty() ? user_caches() / "aneforge" / "e5rt" : fs::path(root);
  std::error_code error;
  fs::create_directories(above, error);
  if (error) fail(above.string(), error.value());
  static std::once_flag swept;
  std::call_once(swept, [&] { sweep(above); });
  std::string path = (above / (std::to_string(getpid()) + "-XXXXXX")).string();
  if (!mkdtemp(path.data())) fail(path, errno);  // mode 0700
  path_ = path;
  try {
    if (mkdir(cache().c_str(), 0700) != 0) fail(cache(), errno);
    write(text(), file.text, file.text_size);
    write(path_ + "/weights.bin", file.blob, file.blob_size);
  } catch (...) {
    remove();
    throw;
  }
}

void Folder::remove() noexcept {
  if (path_.empty() || !Engine::ours()) return;  // a forked child's parent may still need it
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  path_.clear();
}

}  // namespace aneforge::runtime
