#include "mil/blob.h"

#include <string>

#include "core/status.h"

namespace aneforge::mil {
namespace {

constexpr size_t kHeader = 64, kRecord = 64;
constexpr uint32_t kSentinel = 0xDEADBEEF;

uint64_t little(const uint8_t* p, size_t n) {
  uint64_t v = 0;
  for (size_t i = 0; i < n; ++i) v |= static_cast<uint64_t>(p[i]) << (8 * i);
  return v;
}

[[noreturn]] void corrupt(uint64_t offset, const std::string& what) {
  throw Error(Code::kCorrupt, "weight blob, record at " + std::to_string(offset) + ": " + what);
}

// The container's own numbers, not the DataType numbers of MIL.proto. 0: cannot stand in a blob.
uint32_t code_of(Element e) {
  switch (e) {
    case Element::kFp16:
      return 1;
    case Element::kFp32:
      return 2;
    case Element::kUInt8:
      return 3;
    case Element::kInt8:
      return 4;
    case Element::kBf16:
      return 5;
    case Element::kInt16:
      return 6;
    case Element::kUInt16:
      return 7;
    case Element::kInt4:
      return 8;
    case Element::kUInt1:
      return 9;
    case Element::kUInt2:
      return 10;
    case Element::kUInt4:
      return 11;
    case Element::kUInt3:
      return 12;
    case Element::kUInt6:
      return 13;
    case Element::kInt32:
      return 14;
    case Element::kUInt32:
      return 15;
    default:
      return 0;
  }
}

}  // namespace

size_t packed_bytes(Element e, int64_t n) { return (static_cast<size_t>(n) * bits_of(e) + 7) / 8; }

Blob::Blob(const uint8_t* data, size_t size) : data_(data), size_(size) {
  if (size == 0) return;
  if (size < kHeader) throw Error(Code::kCorrupt, "weight blob: shorter than its header");
  if (const uint64_t version = little(data + 4, 4); version != 2)
    throw Error(Code::kCorrupt, "weight blob: version " + std::to_string(version) + ", not 2");
}

Blob::Record Blob::at(uint64_t offset, const Type& type) const {
  if (size_ < kHeader + kRecord || offset < kHeader || offset > size_ - kRecord)
    corrupt(offset, "outside the blob of " + std::to_string(size_) + " bytes");
  const uint8_t* record = data_ + offset;
  if (little(record, 4) != kSentinel) corrupt(offset, "no record starts there");
  const uint32_t code = code_of(type.element);
  if (code == 0 || little(record + 4, 4) != code)
    corrupt(offset, "holds another element type than " + std::string(name_of(type.element)));
  const uint64_t bytes = little(record + 8, 8), begin = little(record + 16, 8);
  if (begin < offset + kRecord || begin > size_ || bytes > size_ - begin)
    corrupt(offset, "its data lies outside the blob");
  if (bytes != packed_bytes(type.element, type.count()))
    corrupt(offset, "holds " + std::to_string(bytes) + " bytes, " + to_string(type) + " takes " +
                        std::to_string(packed_bytes(type.element, type.count())));
  return Record{data_ + begin, static_cast<size_t>(bytes)};
}

}  // namespace aneforge::mil
