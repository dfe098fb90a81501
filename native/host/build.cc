#include <algorithm>

#include "core/status.h"
#include "host/kernels.h"

namespace aneforge::host {

void Build::fail(const std::string& what) const {
  throw Error(Code::kCorrupt, "program text, line " + std::to_string(step_.line) + ": " + step_.kind + " '" +
                                  step_.name + "': " + what);
}

void Build::unsupported(const std::string& what) const {
  throw Error(Code::kUnsupported, "host backend: " + step_.kind + " '" + step_.name + "': " + what);
}

int32_t Build::operand(const char* name) const {
  const Argument* a = step_.find(name);
  if (!a) fail(std::string("argument '") + name + "' is missing");
  if (a->values.size() != 1) fail(std::string("argument '") + name + "' must be one value");
  return a->values[0];
}

int32_t Build::read_any(const char* name) {
  const int32_t id = operand(name);
  if (at(id).layout != Layout::kPlain) unsupported("operand in a blocked layout");
  if (at(id).declared == mil::Element::kString) fail(std::string("argument '") + name + "' must be a tensor");
  step_.reads.push_back(id);
  return id;
}

int32_t Build::read(const char* name, Storage storage) {
  const int32_t id = read_any(name);
  if (at(id).storage != storage) fail(std::string("argument '") + name + "' has type " + mil::name_of(at(id).declared));
  return id;
}

std::vector<int32_t> Build::read_all(const char* name) {
  const Argument* a = step_.find(name);
  if (!a || a->values.empty()) fail(std::string("argument '") + name + "' is missing");
  for (int32_t id : a->values) {
    if (at(id).layout != Layout::kPlain) unsupported("operand in a blocked layout");
    if (at(id).declared == mil::Element::kString) fail(std::string("argument '") + name + "' must hold tensors");
    step_.reads.push_back(id);
  }
  return a->values;
}

std::vector<int64_t> Build::ints(const char* name) const {
  const int32_t id = operand(name);
  const int32_t* p = graph_.ints(id);
  return {p, p + at(id).count};
}
std::vector<int64_t> Build::ints(const char* name, std::vector<int64_t> absent) const {
  return given(name) ? ints(name) : std::move(absent);
}
int64_t Build::integer(const char* name) const {
  const std::vector<int64_t> v = ints(name);
  if (v.size() != 1) fail(std::string("argument '") + name + "' must be one number");
  return v[0];
}
int64_t Build::integer(const char* name, int64_t absent) const { return given(name) ? integer(name) : absent; }

float Build::number(const char* name) const {
  const int32_t id = operand(name);
  if (at(id).count != 1) fail(std::string("argument '") + name + "' must be one number");
  return *graph_.floats(id);
}
float Build::number(const char* name, float absent) const { return given(name) ? number(name) : absent; }

std::vector<int64_t> Build::flags(const char* name) const {
  if (!given(name)) return {};
  const int32_t id = operand(name);
  if (at(id).storage != Storage::kBool) fail(std::string("argument '") + name + "' must be of type bool");
  const auto* p = static_cast<const uint8_t*>(graph_.known(id));
  return {p, p + at(id).count};
}
bool Build::flag(const char* name, bool absent) const {
  if (!given(name)) return absent;
  const std::vector<int64_t> v = flags(name);
  if (v.size() != 1) fail(std::string("argument '") + name + "' must be one bool");
  return v[0] != 0;
}

std::string Build::text(const char* name) const { return graph_.text(operand(name)); }
std::string Build::text(const char* name, const char* absent) const { return given(name) ? text(name) : absent; }

int64_t Build::axis(const char* name, int64_t absent, size_t rank) const {
  const int64_t r = static_cast<int64_t>(rank);
  const int64_t a = integer(name, absent);
  if (a < -r || a >= r)
    fail(std::string("argument '") + name + "' = " + std::to_string(a) + " is no axis of rank " + std::to_string(r));
  return a < 0 ? a + r : a;
}

std::vector<int64_t> Build::axes(const char* name, size_t rank) const {
  const int64_t r = static_cast<int64_t>(rank);
  std::vector<int64_t> axes;
  if (given(name)) {
    axes = ints(name);
    for (int64_t& a : axes) {
      if (a < -r || a >= r)
        fail(std::string("argument '") + name + "' holds " + std::to_string(a) + ", no axis of rank " +
             std::to_string(r));
      if (a < 0) a += r;
    }
    std::sort(axes.begin(), axes.end());
    if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
      fail(std::string("argument '") + name + "' names an axis twice");
  } else {
    for (int64_t i = 0; i < r; ++i) axes.push_back(i);
  }
  return axes;
}

void Build::expect(const Shape& shape, Storage storage, size_t i) const {
  if (i >= step_.results.size()) fail("has fewer results than it must");
  const Value& v = at(result(i));
  if (v.shape != shape) fail("declared with shape " + to_string(v.shape) + ", computes " + to_string(shape));
  if (v.storage != storage || v.declared == mil::Element::kString)
    fail(std::string("declared with type ") + mil::name_of(v.declared) + ", computes another");
}

void Build::expect_results(size_t n) const {
  if (step_.results.size() != n)
    fail("has " + std::to_string(step_.results.size()) + " results, not " + std::to_string(n));
}

Finish Build::finish(bool exact, size_t i) const {
  for (int32_t v : step_.reads) exact &= at(v).storage != Storage::kFloat || at(v).half;
  return graph_.finish(result(i), exact);
}

std::unique_ptr<Kernel> Build::view(int32_t of, size_t i) {
  Value& v = graph_.values[static_cast<size_t>(result(i))];
  const Value& source = at(of);
  if (v.count != source.count || v.storage != source.storage) fail("cannot hold the same elements as its operand");
  if (v.half && !source.half) {
    // A view cannot round. (No writer declares a reshape from fp32 to fp16.)
    unsupported("changes the element type");
  }
  v.view_of = of;
  return nullptr;
}

const KernelTable& kernel_table() {
  static const KernelTable table = [] {
    KernelTable t;
    register_elementwise(t);
    register_activation(t);
    register_compare(t);
    register_conv(t);
    register_matmul(t);
    register_pool(t);
    register_reduce(t);
    register_sort(t);
    register_normalize(t);
    register_shape(t);
    register_rearrange(t);
    register_gather(t);
    register_image(t);
    register_constexpr(t);
    return t;
  }();
  return table;
}

}  // namespace aneforge::host
