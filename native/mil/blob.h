// The weight container, version 2 (coremltools 9.0, MILBlob/Blob/StorageFormat.hpp), read in place with every bound
// checked.
#pragma once
#include <cstddef>
#include <cstdint>

#include "mil/program.h"

namespace aneforge::mil {

class Blob {
 public:
  // Throws Error{kCorrupt} for a header that is not version 2. An empty blob is one without records.
  Blob(const uint8_t* data, size_t size);

  struct Record {
    const uint8_t* data;
    size_t bytes;
  };
  // The payload of the record at `offset` (the offset of its metadata, 64 for the first). Throws Error{kCorrupt} unless
  // it lies within the blob and holds exactly `type`.
  Record at(uint64_t offset, const Type& type) const;

 private:
  const uint8_t* data_;
  size_t size_;
};

// Bytes that n elements take, packed; n * bits must not overflow (the reader's shapes do not).
size_t packed_bytes(Element, int64_t n);

}  // namespace aneforge::mil
