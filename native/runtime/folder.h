// Where the compiler's input stands: it takes paths only.
#pragma once
#include <string>

#include "core/executable.h"

namespace aneforge::runtime {

// A folder of one program, below `root` (empty: the user's caches): model.mil, weights.bin, and cache/, which belongs
// to the runtime. Readable by the user alone; gone with the object. What processes left that died is swept at the first
// one that this process makes.
class Folder {
 public:
  Folder(const std::string& root, const MilFile& file);  // throws Error{kFailed}
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { remove(); }

  std::string text() const { return path_ + "/model.mil"; }
  std::string cache() const { return path_ + "/cache"; }
  void remove() noexcept;

 private:
  std::string path_;
};

}  // namespace aneforge::runtime
