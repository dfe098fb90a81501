#include "mil/program.h"

namespace aneforge::mil {

const char* name_of(Element e) {
  switch (e) {
    case Element::kFp16:
      return "fp16";
    case Element::kFp32:
      return "fp32";
    case Element::kFp64:
      return "fp64";
    case Element::kBf16:
      return "bf16";
    case Element::kBool:
      return "bool";
    case Element::kString:
      return "string";
    case Element::kInt4:
      return "int4";
    case Element::kInt8:
      return "int8";
    case Element::kInt16:
      return "int16";
    case Element::kInt32:
      return "int32";
    case Element::kInt64:
      return "int64";
    case Element::kUInt1:
      return "uint1";
    case Element::kUInt2:
      return "uint2";
    case Element::kUInt3:
      return "uint3";
    case Element::kUInt4:
      return "uint4";
    case Element::kUInt6:
      return "uint6";
    case Element::kUInt8:
      return "uint8";
    case Element::kUInt16:
      return "uint16";
    case Element::kUInt32:
      return "uint32";
    case Element::kUInt64:
      return "uint64";
  }
  return "?";
}

size_t bits_of(Element e) {
  switch (e) {
    case Element::kUInt1:
      return 1;
    case Element::kUInt2:
      return 2;
    case Element::kUInt3:
      return 3;
    case Element::kInt4:
    case Element::kUInt4:
      return 4;
    case Element::kUInt6:
      return 6;
    case Element::kBool:
    case Element::kInt8:
    case Element::kUInt8:
      return 8;
    case Element::kFp16:
    case Element::kBf16:
    case Element::kInt16:
    case Element::kUInt16:
      return 16;
    case Element::kFp32:
    case Element::kInt32:
    case Element::kUInt32:
      return 32;
    case Element::kFp64:
    case Element::kInt64:
    case Element::kUInt64:
      return 64;
    case Element::kString:
      break;
  }
  return 0;
}

bool is_float(Element e) { return e <= Element::kBf16; }

std::string to_string(const Type& t) {
  std::string s = std::string("tensor<") + name_of(t.element) + ", [";
  for (size_t i = 0; i < t.shape.size(); ++i) s += (i ? ", " : "") + std::to_string(t.shape[i]);
  return s + "]>";
}

}  // namespace aneforge::mil
