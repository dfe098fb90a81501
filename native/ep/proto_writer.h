// Writes one protobuf message, field by field. ONNX models are written with it, without the protobuf library.
// Source: protobuf encoding specification (varint, 32-bit, length-delimited).
#pragma once
#include <cstdint>
#include <cstring>
#include <string>

namespace aneforge::ep {

class ProtoWriter {
 public:
  void integer(int field, int64_t value) {
    key(field, 0);
    varint(static_cast<uint64_t>(value));
  }
  void real(int field, float value) {
    key(field, 5);
    char bytes[4];
    std::memcpy(bytes, &value, 4);  // little-endian, as every machine that this library runs on
    out_.append(bytes, 4);
  }
  void bytes(int field, const void* data, size_t size) {
    key(field, 2);
    varint(size);
    if (size) out_.append(static_cast<const char*>(data), size);
  }
  void text(int field, const std::string& value) { bytes(field, value.data(), value.size()); }
  void message(int field, const ProtoWriter& value) { text(field, value.out_); }

  std::string take() { return std::move(out_); }

 private:
  void key(int field, int wire) { varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire)); }
  void varint(uint64_t value) {
    for (; value > 127; value >>= 7) out_.push_back(static_cast<char>(value | 128));
    out_.push_back(static_cast<char>(value));
  }

  std::string out_;
};

}  // namespace aneforge::ep
