// What the stand-in keeps of each handle that it gave out.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace standin {

enum Kind { kConfig, kCompiler, kOptions, kLibrary, kFunction, kOpOptions, kOperation, kPort, kBuffer, kStream };
constexpr const char* kNames[] = {"config",    "compiler",  "options", "library", "function",
                                  "opoptions", "operation", "port",    "buffer",  "stream"};

struct PortType {
  std::string name;
  uint64_t bytes;
};

// One handle. `parent` is what it was made from and must outlive it where the runtime says so.
struct Object {
  Kind kind;
  Object* parent = nullptr;
  std::set<std::string> done;  // setters that were called
  std::string text;            // a path or a name
  uint32_t program = 0;        // of a library
  std::vector<PortType> inputs, outputs;
  std::map<std::string, Object*> bound;  // buffers of an operation, by port
  Object* encoded = nullptr;             // stream: its operation. operation: its stream
  bool input = false;
  bool lost = false;         // its release failed: still there, of no use, and nobody's user
  std::vector<char> memory;  // of a buffer, and kFence bytes behind it that nobody may write
  std::atomic<bool> busy{false};
};

constexpr size_t kFence = 64;
constexpr char kUnwritten = 0x7f;

inline size_t bytes_of(const Object& buffer) { return buffer.memory.size() - kFence; }
inline bool overrun(const Object& buffer) {
  for (size_t i = bytes_of(buffer); i < buffer.memory.size(); ++i)
    if (buffer.memory[i] != kUnwritten) return true;
  return false;
}

// Everything that was given out and not released.
inline std::set<Object*> live;

inline Object* find(void* p, Kind kind) {
  auto* o = static_cast<Object*>(p);
  return live.count(o) && o->kind == kind && !o->lost ? o : nullptr;
}

inline Object* make(Kind kind, Object* parent) {
  auto* o = new Object{};
  o->kind = kind;
  o->parent = parent;
  live.insert(o);
  return o;
}

inline bool has_children(Object* of, Kind kind) {
  for (Object* o : live)
    if (o->kind == kind && o->parent == of && !o->lost) return true;
  return false;
}

// The release of a handle fails. References are counted ("retain" gives one): what it stands on can be released still.
inline void give_up(void* p) {
  auto* o = static_cast<Object*>(p);
  if (!live.count(o)) return;
  o->lost = true;
  if (o->kind == kStream && o->encoded) o->encoded->encoded = nullptr;
}

}  // namespace standin
