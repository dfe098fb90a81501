#include "mil/reader.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "core/fp16.h"
#include "core/status.h"
#include "mil/blob.h"
#include "mil/numbers.h"

namespace aneforge::mil {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;  // keeps every product of sizes below in 64 bits

struct ElementName {
  std::string_view name;
  Element element;
};
constexpr ElementName kElements[] = {
    {"fp16", Element::kFp16},     {"fp32", Element::kFp32},     {"fp64", Element::kFp64},
    {"bf16", Element::kBf16},     {"bool", Element::kBool},     {"string", Element::kString},
    {"int4", Element::kInt4},     {"int8", Element::kInt8},     {"int16", Element::kInt16},
    {"int32", Element::kInt32},   {"int64", Element::kInt64},   {"uint1", Element::kUInt1},
    {"uint2", Element::kUInt2},   {"uint3", Element::kUInt3},   {"uint4", Element::kUInt4},
    {"uint6", Element::kUInt6},   {"uint8", Element::kUInt8},   {"uint16", Element::kUInt16},
    {"uint32", Element::kUInt32}, {"uint64", Element::kUInt64},
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The text, read forward.
class Cursor {
 public:
  Cursor(const char* begin, size_t size) : begin_(begin), at_(begin), end_(begin + size) {}

  [[noreturn]] void fail(const std::string& what, Code code = Code::kCorrupt) const {
    size_t line = 1, column = 1;
    for (const char* p = begin_; p < at_; ++p) {
      if (*p == '\n') {
        ++line;
        column = 1;
      } else {
        ++column;
      }
    }
    throw Error(code,
                "program text, line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what);
  }

  void skip() {
    for (; at_ < end_; ++at_) {
      if (*at_ == '/' && end_ - at_ > 1 && at_[1] == '/') {
        while (at_ < end_ && *at_ != '\n') ++at_;
        if (at_ == end_) return;
      }
      if (*at_ == '\n') ++line_;
      if (*at_ != ' ' && *at_ != '\t' && *at_ != '\r' && *at_ != '\n') return;
    }
  }
  char peek() {
    skip();
    return at_ < end_ ? *at_ : '\0';
  }
  bool accept(char c) {
    if (peek() != c || at_ == end_) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "'");
  }
  bool at_end() {
    skip();
    return at_ == end_;
  }
  bool at_name() { return is_letter(peek()); }

  std::string_view name(const char* what) {
    skip();
    const char* from = at_;
    if (at_ < end_ && is_letter(*at_))
      for (++at_; at_ < end_ && (is_letter(*at_) || is_digit(*at_) || *at_ == '@'); ++at_) {
      }
    if (from == at_) fail(std::string("expected ") + what);
    return {from, static_cast<size_t>(at_ - from)};
  }
  void word(const char* wanted) {
    skip();
    const char* from = at_;
    if (!at_name() || name(wanted) != wanted) {
      at_ = from;
      fail(std::string("expected '") + wanted + "'");
    }
  }

  // A number, or one of the words true, false, inf, nan.
  std::string_view atom() {
    skip();
    const char* from = at_;
    if (at_ < end_ && (*at_ == '-' || *at_ == '+')) ++at_;
    const bool hex = end_ - at_ > 1 && at_[0] == '0' && (at_[1] == 'x' || at_[1] == 'X');
    for (; at_ < end_; ++at_) {
      if (is_letter(*at_) || is_digit(*at_) || *at_ == '.') continue;
      if ((*at_ == '-' || *at_ == '+') && at_ > from) {
        const char before = at_[-1];
        if (before == 'p' || before == 'P' || (!hex && (before == 'e' || before == 'E'))) continue;
      }
      break;
    }
    if (from == at_) fail("expected a number");
    return {from, static_cast<size_t>(at_ - from)};
  }

  std::string quoted() {
    expect('"');
    std::string s;
    for (; at_ < end_ && *at_ != '"'; ++at_) {
      if (*at_ == '\n') ++line_;
      if (*at_ == '\\' && end_ - at_ > 1) {
        ++at_;
        s += *at_ == 'n' ? '\n' : *at_ == 't' ? '\t' : *at_;
      } else {
        s += *at_;
      }
    }
    if (at_ == end_) fail("a string without end");
    ++at_;
    return s;
  }

  // From '[' to its ']', whatever is between.
  void skip_attributes() {
    expect('[');
    for (size_t depth = 1; depth > 0;) {
      const char c = peek();
      if (at_ == end_) fail("an attribute list without end");
      if (c == '"') {
        quoted();
        continue;
      }
      depth += c == '[';
      depth -= c == ']';
      ++at_;
    }
  }

  const char* mark() const { return at_; }
  void back(const char* mark) { at_ = mark; }
  uint32_t line() const { return line_; }

 private:
  const char* begin_;
  const char* at_;
  const char* end_;
  uint32_t line_ = 1;
};

// Appends elements to a literal in the layout that Constant describes.
class Packer {
 public:
  Packer(Cursor& cursor, Constant& c) : cursor_(cursor), constant_(c), bits_(bits_of(c.type.element)) {}

  void add(std::string_view atom) {
    const Element e = constant_.type.element;
    if (is_float(e)) {
      double v = 0;
      if (!parse_float(atom, &v)) cursor_.fail("'" + std::string(atom) + "' is not a number");
      switch (e) {
        case Element::kFp16:
          return bytes(double_to_half(v));
        case Element::kFp32:
          return bytes(static_cast<float>(v));
        case Element::kFp64:
          return bytes(v);
        default:
          return bytes(bf16(v));
      }
    }
    if (e == Element::kBool) {
      if (atom != "true" && atom != "false") cursor_.fail("'" + std::string(atom) + "' is not true or false");
      return bytes(static_cast<uint8_t>(atom == "true"));
    }
    long long v = 0;
    if (!parse_int(atom, &v)) cursor_.fail("'" + std::string(atom) + "' is not an integer of 64 bits");
    const bool is_signed = e >= Element::kInt4 && e <= Element::kInt64;
    if (bits_ < 64) {
      const long long low = is_signed ? -(1LL << (bits_ - 1)) : 0;
      const long long high = is_signed ? (1LL << (bits_ - 1)) - 1 : (1LL << bits_) - 1;
      if (v < low || v > high) cursor_.fail(std::string(atom) + " does not fit " + name_of(e));
    } else if (!is_signed && v < 0) {
      cursor_.fail(std::string(atom) + " does not fit " + name_of(e));
    }
    const auto u = static_cast<uint64_t>(v);
    for (size_t i = 0; i < bits_; ++i, ++used_) {
      if (used_ % 8 == 0) constant_.owned.push_back(0);
      constant_.owned.back() |= static_cast<uint8_t>(((u >> i) & 1) << (used_ % 8));
    }
  }

 private:
  static uint16_t bf16(double d) {
    if (d != d) return 0x7fc0;
    const uint32_t u = float_bits(double_to_odd_float(d));
    return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  template <class T>
  void bytes(T v) {
    uint8_t raw[sizeof(T)];
    std::memcpy(raw, &v, sizeof v);
    constant_.owned.insert(constant_.owned.end(), raw, raw + sizeof v);
  }

  Cursor& cursor_;
  Constant& constant_;
  size_t bits_, used_ = 0;
};

class Reader {
 public:
  explicit Reader(const MilFile& file) : cursor_(file.text, file.text_size), blob_(file.blob, file.blob_size) {}

  Program read() {
    cursor_.word("program");
    cursor_.expect('(');
    program_.version = std::string(cursor_.atom());
    cursor_.expect(')');
    if (cursor_.peek() == '[') cursor_.skip_attributes();
    cursor_.expect('{');
    function();
    if (cursor_.at_name()) cursor_.fail("a program of several functions", Code::kUnsupported);
    cursor_.expect('}');
    if (!cursor_.at_end()) cursor_.fail("text after the program's end");
    return std::move(program_);
  }

 private:
  void function() {
    cursor_.word("func");
    program_.function = std::string(cursor_.name("the function's name"));
    cursor_.expect('<');
    program_.opset = std::string(cursor_.name("an opset"));
    cursor_.expect('>');
    cursor_.expect('(');
    if (!cursor_.accept(')')) {
      do {
        Type t = type();
        program_.inputs.push_back(define(cursor_.name("a parameter's name"), std::move(t)));
      } while (cursor_.accept(','));
      cursor_.expect(')');
    }
    if (cursor_.peek() == '[') cursor_.fail("attributes of a function (flexible shapes)", Code::kUnsupported);
    cursor_.expect('{');
    while (cursor_.peek() != '}') statement();
    cursor_.expect('}');
    cursor_.expect('-');
    cursor_.expect('>');
    cursor_.expect('(');
    if (cursor_.accept(')')) cursor_.fail("a function without results");
    do {
      program_.outputs.push_back(use(cursor_.name("a result's name")));
    } while (cursor_.accept(','));
    cursor_.expect(')');
    cursor_.expect(';');
  }

  Element element(std::string_view word) {
    for (const ElementName& e : kElements)
      if (e.name == word) return e.element;
    if (word == "list" || word == "tuple" || word == "dict" || word == "state")
      cursor_.fail("a value of type " + std::string(word), Code::kUnsupported);
    cursor_.fail("'" + std::string(word) + "' is not a type");
  }

  Type type() {
    Type t;
    const std::string_view word = cursor_.name("a type");
    if (word != "tensor") {
      t.element = element(word);
      return t;
    }
    cursor_.expect('<');
    t.element = element(cursor_.name("an element type"));
    cursor_.expect(',');
    cursor_.expect('[');
    if (!cursor_.accept(']')) {
      int64_t count = 1;
      do {
        if (cursor_.peek() == '?') cursor_.fail("a flexible dimension", Code::kUnsupported);
        long long d = 0;
        if (!parse_int(cursor_.atom(), &d) || d < 0) cursor_.fail("expected a dimension");
        if (d == 0) cursor_.fail("a dimension of 0", Code::kUnsupported);
        if (t.shape.size() == kMaxRank) cursor_.fail("a rank above 8", Code::kUnsupported);
        if (d > std::numeric_limits<int32_t>::max() || d > kMostElements / count)
          cursor_.fail("a tensor too large", Code::kUnsupported);
        count *= d;
        t.shape.push_back(d);
      } while (cursor_.accept(','));
      cursor_.expect(']');
    }
    cursor_.expect('>');
    return t;
  }

  // The part of a value after its type: "(" literal ")".
  int32_t literal(Type t) {
    Constant c;
    c.type = std::move(t);
    cursor_.expect('(');
    const int64_t wanted = c.type.count();
    if (cursor_.peek() == 'B') {
      blob_reference(c);
    } else {
      Packer packer(cursor_, c);
      const bool text = c.type.element == Element::kString;
      int64_t got = 0;
      size_t depth = 0;
      do {  // lists may nest; their elements in order are what counts
        while (cursor_.accept('[')) {
          if (++depth > kMaxRank) cursor_.fail("lists nested too deep");
        }
        if (cursor_.peek() != ']') {
          if (++got > wanted) cursor_.fail("more elements than " + to_string(c.type) + " has");
          if (text) {
            c.strings.push_back(cursor_.quoted());
          } else {
            packer.add(cursor_.atom());
          }
        }
        while (depth > 0 && cursor_.accept(']')) --depth;
      } while (cursor_.accept(','));
      if (depth != 0) cursor_.fail("expected ']'");
      if (got != wanted) cursor_.fail("fewer elements than " + to_string(c.type) + " has");
      c.bytes = c.owned.size();
    }
    cursor_.expect(')');
    program_.constants.push_back(std::move(c));
    return static_cast<int32_t>(program_.constants.size() - 1);
  }

  void blob_reference(Constant& c) {
    cursor_.word("BLOBFILE");
    cursor_.expect('(');
    bool have_path = false, have_offset = false;
    unsigned long long offset = 0;
    do {
      const std::string_view key = cursor_.name("path or offset");
      cursor_.expect('=');
      const Type t = type();
      if (!t.shape.empty()) cursor_.fail("expected a scalar");
      cursor_.expect('(');
      if (key == "path" && t.element == Element::kString) {
        std::string path = cursor_.quoted();
        if (path_.empty()) path_ = path;
        if (path != path_) cursor_.fail("a second weight file, " + path, Code::kUnsupported);
        have_path = true;
      } else if (key == "offset" && t.element == Element::kUInt64) {
        long long v = 0;
        if (!parse_int(cursor_.atom(), &v) || v < 0) cursor_.fail("expected an offset");
        offset = static_cast<unsigned long long>(v);
        have_offset = true;
      } else {
        cursor_.fail("expected path = string(...) and offset = uint64(...)");
      }
      cursor_.expect(')');
    } while (cursor_.accept(','));
    cursor_.expect(')');
    if (!have_path || !have_offset) cursor_.fail("BLOBFILE takes path and offset");
    try {
      const Blob::Record record = blob_.at(offset, c.type);
      c.borrowed = record.data;
      c.bytes = record.bytes;
    } catch (const Error& e) {
      cursor_.fail(e.what(), e.code());
    }
  }

  int32_t define(std::string_view name, Type t) {
    const auto id = static_cast<int32_t>(program_.values.size());
    if (!names_.emplace(name, id).second) cursor_.fail("'" + std::string(name) + "' is defined twice");
    Value v;
    v.name = name;
    v.type = std::move(t);
    program_.values.push_back(std::move(v));
    return id;
  }
  int32_t use(std::string_view name) {
    const auto found = names_.find(name);
    if (found == names_.end()) cursor_.fail("'" + std::string(name) + "' is not defined");
    return found->second;
  }

  // A variable's name or a value written out.
  int32_t binding() {
    const char* mark = cursor_.mark();
    const std::string_view word = cursor_.name("a name or a value");
    const char next = cursor_.peek();
    if (next != '(' && next != '<') return use(word);
    cursor_.back(mark);
    Type t = type();
    return immediate(std::move(t));
  }
  int32_t immediate(Type t) {
    Value v;
    v.type = t;
    v.constant = literal(std::move(t));
    program_.values.push_back(std::move(v));
    return static_cast<int32_t>(program_.values.size() - 1);
  }

  void statement() {
    Op op;
    struct Result {
      std::string_view name;
      Type type;
    };
    std::vector<Result> results;
    do {
      Type t = type();
      results.push_back({cursor_.name("a variable's name"), std::move(t)});
    } while (cursor_.accept(','));
    cursor_.expect('=');
    op.line = cursor_.line();
    op.kind = cursor_.name("an operation");
    cursor_.expect('(');
    if (!cursor_.accept(')')) {
      do {
        Argument a;
        a.name = cursor_.name("an argument's name");
        if (op.find(a.name)) cursor_.fail("argument '" + std::string(a.name) + "' is given twice");
        cursor_.expect('=');
        if (cursor_.accept('(')) {
          a.tuple = true;
          do {
            a.values.push_back(binding());
          } while (cursor_.accept(','));
          cursor_.expect(')');
        } else {
          a.values.push_back(binding());
        }
        op.arguments.push_back(std::move(a));
      } while (cursor_.accept(','));
      cursor_.expect(')');
    }
    op.name = std::string(results[0].name);
    if (cursor_.accept('[')) {
      if (!cursor_.accept(']')) {
        do {
          Argument a;
          a.name = cursor_.name("an attribute's name");
          cursor_.expect('=');
          const int32_t value = immediate(type());
          a.values.push_back(value);
          const Value& v = program_.values[static_cast<size_t>(value)];
          if (a.name == "name") {
            if (v.type.element == Element::kString && v.type.shape.empty())
              op.name = program_.constants[static_cast<size_t>(v.constant)].strings[0];
          } else {
            if (op.find(a.name)) cursor_.fail("argument '" + std::string(a.name) + "' is given twice");
            op.arguments.push_back(std::move(a));
          }
        } while (cursor_.accept(','));
        cursor_.expect(']');
      }
    }
    cursor_.expect(';');
    const auto index = static_cast<int32_t>(program_.ops.size());
    const bool is_const = op.kind == "const";
    for (Result& r : results) {
      const int32_t id = define(r.name, std::move(r.type));
      program_.values[static_cast<size_t>(id)].op = is_const ? -1 : index;
      op.results.push_back(id);
    }
    if (!is_const) {
      program_.ops.push_back(std::move(op));
      return;
    }
    const Argument* val = op.find("val");
    if (op.results.size() != 1 || !val || val->values.size() != 1) cursor_.fail("const takes one attribute val");
    Value& result = program_.values[static_cast<size_t>(op.results[0])];
    const Value& given = program_.values[static_cast<size_t>(val->values[0])];
    if (given.constant < 0) cursor_.fail("the val of a const must be written out");
    if (given.type.element != result.type.element || given.type.shape != result.type.shape)
      cursor_.fail("const declared " + to_string(result.type) + " holds " + to_string(given.type));
    result.constant = given.constant;
  }

  Cursor cursor_;
  Blob blob_;
  Program program_;
  std::unordered_map<std::string_view, int32_t> names_;
  std::string path_;
};

}  // namespace

Program read(const MilFile& file) { return Reader(file).read(); }

}  // namespace aneforge::mil
