// SHA-256 (FIPS 180-4), for the names of programs in a trace.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace aneforge::runtime {

class Sha256 {
 public:
  void add(const void* data, size_t size);
  std::string hex();  // of all that was added; the object is used up

 private:
  void block(const uint8_t* p);

  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t rest_[64];
  uint64_t size_ = 0;
};

}  // namespace aneforge::runtime
