#include <cmath>
#include <cstring>
#include <limits>

#include "core/fp16.h"
#include "core/status.h"
#include "host/program.h"

namespace aneforge::host {
namespace {

template <class T>
T load(const uint8_t* p, int64_t i) {
  T v;
  std::memcpy(&v, p + static_cast<size_t>(i) * sizeof(T), sizeof v);
  return v;
}

void widen_floats(const mil::Constant& c, float* to, int64_t n) {
  const uint8_t* p = c.data();
  switch (c.type.element) {
    case mil::Element::kFp16:
      for (int64_t i = 0; i < n; ++i) to[i] = half_to_float(load<uint16_t>(p, i));
      break;
    case mil::Element::kFp32:
      if (n > 0) std::memcpy(to, p, static_cast<size_t>(n) * sizeof(float));
      break;
    case mil::Element::kFp64:
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(load<double>(p, i));
      break;
    default:  // bf16
      for (int64_t i = 0; i < n; ++i) to[i] = bits_float(static_cast<uint32_t>(load<uint16_t>(p, i)) << 16);
      break;
  }
}

void widen_packed(const mil::Constant& c, int32_t* to, int64_t n, size_t bits, bool is_signed) {
  const uint8_t* p = c.data();
  for (int64_t i = 0; i < n; ++i) {
    uint32_t v = 0;
    const size_t first = static_cast<size_t>(i) * bits;
    for (size_t b = 0; b < bits; ++b) v |= static_cast<uint32_t>(p[(first + b) / 8] >> ((first + b) % 8) & 1u) << b;
    to[i] = is_signed && (v >> (bits - 1)) ? static_cast<int32_t>(v) - (1 << bits) : static_cast<int32_t>(v);
  }
}

// 64-bit integers and uint32 stand for shapes and slice ends here: what int32 cannot hold is "to the end" in either
// direction.
template <class T>
int32_t narrowed(T v) {
  if (v > static_cast<T>(std::numeric_limits<int32_t>::max())) return std::numeric_limits<int32_t>::max();
  if constexpr (std::is_signed_v<T>) {
    if (v < static_cast<T>(std::numeric_limits<int32_t>::min())) return std::numeric_limits<int32_t>::min();
  }
  return static_cast<int32_t>(v);
}

void widen_ints(const mil::Constant& c, int32_t* to, int64_t n) {
  const uint8_t* p = c.data();
  switch (c.type.element) {
    case mil::Element::kInt8:
      for (int64_t i = 0; i < n; ++i) to[i] = load<int8_t>(p, i);
      break;
    case mil::Element::kUInt8:
      for (int64_t i = 0; i < n; ++i) to[i] = p[i];
      break;
    case mil::Element::kInt16:
      for (int64_t i = 0; i < n; ++i) to[i] = load<int16_t>(p, i);
      break;
    case mil::Element::kUInt16:
      for (int64_t i = 0; i < n; ++i) to[i] = load<uint16_t>(p, i);
      break;
    case mil::Element::kInt32:
      if (n > 0) std::memcpy(to, p, static_cast<size_t>(n) * sizeof(int32_t));
      break;
    case mil::Element::kUInt32:
      for (int64_t i = 0; i < n; ++i) to[i] = narrowed(load<uint32_t>(p, i));
      break;
    case mil::Element::kInt64:
      for (int64_t i = 0; i < n; ++i) to[i] = narrowed(load<int64_t>(p, i));
      break;
    case mil::Element::kUInt64:
      for (int64_t i = 0; i < n; ++i) to[i] = narrowed(load<uint64_t>(p, i));
      break;
    default:
      widen_packed(c, to, n, mil::bits_of(c.type.element), c.type.element == mil::Element::kInt4);
      break;
  }
}

// 64-byte aligned and with slack behind, as the arena's values are: kernels may read whole vectors.
std::shared_ptr<void> allocate(size_t bytes) {
  const size_t whole = (bytes + 63) / 64 * 64 + 64;
  void* p = nullptr;
  if (posix_memalign(&p, 64, whole) != 0) throw std::bad_alloc();
  std::memset(static_cast<char*>(p) + bytes, 0, whole - bytes);
  return std::shared_ptr<void>(p, [](void* q) { std::free(q); });
}

}  // namespace

int64_t count_of(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

std::string to_string(const Shape& shape) {
  std::string s = "[";
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + "]";
}

size_t bytes_of(Storage s) { return s == Storage::kBool ? 1 : 4; }

Storage storage_of(mil::Element e) {
  if (e == mil::Element::kString) throw Error(Code::kUnsupported, "host backend: a string tensor at run time");
  if (e == mil::Element::kBool) return Storage::kBool;
  return mil::is_float(e) ? Storage::kFloat : Storage::kInt;
}

const Argument* Step::find(std::string_view argument) const {
  for (const Argument& a : arguments)
    if (a.name == argument) return &a;
  return nullptr;
}

int32_t Graph::add_value(std::string name, mil::Element declared, Shape shape) {
  Value v;
  v.name = std::move(name);
  v.declared = declared;
  v.storage = declared == mil::Element::kString ? Storage::kInt : storage_of(declared);
  v.half = declared == mil::Element::kFp16 && settings.rounds();
  v.shape = std::move(shape);
  v.count = count_of(v.shape);
  v.bytes = static_cast<size_t>(v.count) * bytes_of(v.storage);
  values.push_back(std::move(v));
  return static_cast<int32_t>(values.size() - 1);
}

void Graph::insert(size_t before, Step step) {
  steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(before), std::move(step));
  for (size_t i = before; i < steps.size(); ++i)
    if (!steps[i].dead)
      for (int32_t r : steps[i].results) values[static_cast<size_t>(r)].producer = static_cast<int32_t>(i);
}

std::vector<std::vector<int32_t>> Graph::consumers() const {
  std::vector<std::vector<int32_t>> all(values.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].dead) continue;
    const auto note = [&](int32_t v) {
      auto& list = all[static_cast<size_t>(v)];
      if (list.empty() || list.back() != static_cast<int32_t>(i)) list.push_back(static_cast<int32_t>(i));
    };
    for (const Argument& a : steps[i].arguments)
      for (int32_t v : a.values) note(v);
    for (int32_t v : steps[i].reads) note(v);
  }
  return all;
}

bool Graph::is_output(int32_t value) const {
  for (int32_t o : outputs)
    if (o == value) return true;
  return false;
}

int32_t Graph::root(int32_t value) const {
  while (values[static_cast<size_t>(value)].view_of >= 0) value = values[static_cast<size_t>(value)].view_of;
  return value;
}

const void* Graph::known(int32_t id) {
  const Value& owner = values[static_cast<size_t>(root(id))];
  if (owner.known) return owner.known.get();
  Value& v = values[static_cast<size_t>(root(id))];
  if (!v.source || v.declared == mil::Element::kString)
    throw Error(Code::kUnsupported, "host backend: '" + v.name + "' must be a constant here");
  std::shared_ptr<void> data = allocate(v.bytes);
  if (v.storage == Storage::kFloat) {
    auto* to = static_cast<float*>(data.get());
    widen_floats(*v.source, to, v.count);
    if (settings.has(Quirk::kQ11))
      for (int64_t i = 0; i < v.count; ++i)
        if (to[i] != to[i]) to[i] = std::numeric_limits<float>::infinity();
  } else if (v.storage == Storage::kInt) {
    widen_ints(*v.source, static_cast<int32_t*>(data.get()), v.count);
  } else {
    auto* to = static_cast<uint8_t*>(data.get());
    for (int64_t i = 0; i < v.count; ++i) to[i] = v.source->data()[i] != 0;
  }
  v.known = std::move(data);
  return v.known.get();
}

const float* Graph::floats(int32_t id) {
  const Value& v = values[static_cast<size_t>(id)];
  if (v.storage != Storage::kFloat)
    throw Error(Code::kCorrupt, "host backend: '" + v.name + "' must be of a float type here");
  return static_cast<const float*>(known(id));
}

const int32_t* Graph::ints(int32_t id) {
  const Value& v = values[static_cast<size_t>(id)];
  if (v.storage != Storage::kInt)
    throw Error(Code::kCorrupt, "host backend: '" + v.name + "' must be of an integer type here");
  return static_cast<const int32_t*>(known(id));
}

std::string Graph::text(int32_t id) const {
  const Value& v = values[static_cast<size_t>(id)];
  if (!v.source || v.source->strings.size() != 1)
    throw Error(Code::kCorrupt, "host backend: '" + v.name + "' must be a string here");
  return v.source->strings[0];
}

Finish Graph::finish(int32_t result, bool exact) const {
  const Value& v = values[static_cast<size_t>(result)];
  Finish f;
  f.half = v.half && !exact;
  f.no_nan = settings.has(Quirk::kQ12);
  return f;
}

void Finish::operator()(float* p, int64_t n) const {
  if (half) {
    for (int64_t i = 0; i < n; ++i) p[i] = round_to_half(p[i]);
  }
  if (no_nan) {
    for (int64_t i = 0; i < n; ++i) p[i] = p[i] == p[i] ? p[i] : 0.0f;
  }
}

}  // namespace aneforge::host
