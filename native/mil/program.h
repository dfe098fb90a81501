// A MIL program in memory: what the reader (mil/reader.h) makes of the text and the weight blob.
//
// Names and blob data are borrowed from the text and blob given to read(); nothing here outlives them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace aneforge::mil {

enum class Element : uint8_t {
  kFp16,
  kFp32,
  kFp64,
  kBf16,
  kBool,
  kString,
  kInt4,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt1,
  kUInt2,
  kUInt3,
  kUInt4,
  kUInt6,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
};

const char* name_of(Element);
size_t bits_of(Element);  // of one element; 0 for strings
bool is_float(Element);   // fp16, fp32, fp64, bf16

inline constexpr size_t kMaxRank = 8;  // MIL's own limit is 5; view arithmetic of this size is safe everywhere

struct Type {
  Element element = Element::kFp32;
  std::vector<int64_t> shape;  // every dimension from 1 up; empty: a scalar
  int64_t count() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
};
std::string to_string(const Type&);

// A literal, or a record of the weight blob. Elements lie one after another, little-endian, bool as a byte; elements of
// less than a byte are packed from the least significant bit up, across byte borders.
struct Constant {
  Type type;
  const uint8_t* borrowed = nullptr;  // into the blob
  std::vector<uint8_t> owned;         // a literal
  size_t bytes = 0;
  std::vector<std::string> strings;  // of string constants instead
  const uint8_t* data() const { return borrowed ? borrowed : owned.data(); }
};

// One result of an operation, a parameter of the function, or (constant >= 0) something known.
struct Value {
  std::string_view name;  // empty for a literal written in an argument
  Type type;
  int32_t constant = -1;  // position in Program::constants
  int32_t op = -1;        // position in Program::ops of the producer
};

struct Argument {
  std::string_view name;
  std::vector<int32_t> values;  // positions in Program::values; more than one, or `tuple`, for a variadic argument
  bool tuple = false;
};

// `const` is not an operation here: its result is a value with a constant. Attributes other than `name` (operands of
// the older constexpr forms) stand among the arguments.
struct Op {
  std::string_view kind;
  std::string name;  // of the [name = ...] attribute, else of the first result
  std::vector<Argument> arguments;
  std::vector<int32_t> results;
  uint32_t line = 0;
  const Argument* find(std::string_view argument) const {
    for (const Argument& a : arguments)
      if (a.name == argument) return &a;
    return nullptr;
  }
};

struct Program {
  std::string version;  // "1.0", "1.3"
  std::string opset;    // "ios15" … "ios18"
  std::string function;
  std::vector<Value> values;
  std::vector<Constant> constants;
  std::vector<Op> ops;  // in the order of the text: every operand is defined before its use
  std::vector<int32_t> inputs, outputs;
};

}  // namespace aneforge::mil
