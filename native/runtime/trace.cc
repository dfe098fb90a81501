#include "runtime/trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "core/version.h"

namespace aneforge::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* kInputPort = "execution_stream_operation_retain_input_port";
constexpr const char* kOutputPort = "execution_stream_operation_retain_output_port";
constexpr uint64_t kMostPort = 64 << 10;    // bytes of one port that are written
constexpr uint64_t kMostPorts = 64 << 20;   // of all ports together
constexpr uint64_t kMostWeights = 8 << 20;  // of one program's weights
constexpr uint64_t kMostRuns = 3;           // of one stream whose ports are written
constexpr uint64_t kMostCalls = 2'000'000;  // about 500 MB

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      out += code;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string base64(const uint8_t* p, size_t size) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((size + 2) / 3 * 4);
  for (size_t i = 0; i < size; i += 3) {
    const uint32_t three =
        uint32_t{p[i]} << 16 | (i + 1 < size ? uint32_t{p[i + 1]} << 8 : 0) | (i + 2 < size ? p[i + 2] : 0);
    for (int k = 0; k < 4; ++k) out += i + static_cast<size_t>(k) <= size ? digits[three >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

bool ends_with(const char* name, const char* end) {
  const size_t n = std::strlen(name), m = std::strlen(end);
  return n >= m && std::strcmp(name + n - m, end) == 0;
}

bool is(const Trace::Call& call, const char* name) { return std::strcmp(call.name, name) == 0; }

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

// A name for what a file holds: FNV-1a, which is enough to tell the programs of one trace apart. Goes on from `hash`;
// adds the size to `bytes`.
uint64_t fnv1a(const fs::path& path, uint64_t hash, uint64_t* bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path.filename().string());
  std::vector<char> some(1 << 20);
  while (file.read(some.data(), static_cast<std::streamsize>(some.size())) || file.gcount() > 0) {
    for (std::streamsize i = 0; i < file.gcount(); ++i)
      hash = (hash ^ static_cast<uint8_t>(some[static_cast<size_t>(i)])) * 0x100000001b3u;
    *bytes += static_cast<uint64_t>(file.gcount());
  }
  return hash;
}

void say(const std::string& why) { std::fprintf(stderr, "aneforge: ANEFORGE_E5RT_TRACE: %s\n", why.c_str()); }

}  // namespace

std::unique_ptr<Trace> Trace::open(const std::string& library) {
  const char* folder = std::getenv("ANEFORGE_E5RT_TRACE");
  if (!folder || !*folder) return nullptr;
  try {
    fs::create_directories(folder);
    int file = -1;
    for (int i = 1; file < 0 && i < 100'000; ++i) {
      const std::string name = i == 1 ? "calls.jsonl" : "calls-" + std::to_string(i) + ".jsonl";
      file = ::open((fs::path(folder) / name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
      if (file < 0 && errno != EEXIST) break;
    }
    if (file < 0) fail("calls.jsonl");
    std::unique_ptr<Trace> trace(new Trace(fs::absolute(folder).string(), file));
    if (const char* home = std::getenv("HOME"); home && std::strlen(home) > 1) trace->folders_.push_back(home);
    utsname system{};
    uname(&system);
    trace->write("{\"trace\": 1, \"version\": " + quoted(kVersion) + ", \"library\": " + quoted(last_part(library)) +
                 ", \"system\": " + quoted(std::string(system.sysname) + " " + system.release + " " + system.machine) +
                 "}\n");
    return trace;
  } catch (const std::exception& error) {
    say(std::string("no trace: ") + error.what());
    return nullptr;
  }
}

Trace::~Trace() {
  if (file_ >= 0) close(file_);
}

void Trace::give_up(const std::string& why) noexcept {
  say("the trace ends here: " + why);
  close(file_);
  file_ = -1;
}

// Without a buffer of ours, so that what was written stands there even if the process dies in the call.
void Trace::write(const std::string& line) {
  for (size_t at = 0; at < line.size();) {
    const ssize_t n = ::write(file_, line.data() + at, line.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("calls.jsonl");
    at += static_cast<size_t>(n);
  }
}

Trace::Call Trace::begin(const char* name, std::initializer_list<Argument> arguments) noexcept {
  Call call;
  call.name = name;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (file_ < 0) return call;
  try {
    write(began(call, arguments));
    if (call.n >= kMostCalls) give_up(std::to_string(call.n) + " calls");
  } catch (const std::exception& error) {
    give_up(error.what());
  }
  call.began = now();
  return call;
}

void Trace::end(const Call& call, int32_t status, bool threw, const std::string& error) noexcept {
  const int64_t took = now() - call.began;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (file_ < 0 || call.n == 0) return;
  try {
    std::string line = ended(call, status, threw, error);
    write(line + ", \"us\": " + std::to_string(took / 1000) + "}\n");
  } catch (const std::exception& problem) {
    give_up(problem.what());
  }
}

std::string Trace::began(Call& call, std::initializer_list<Argument> arguments) {
  call.n = ++calls_;
  const uint64_t thread = threads_.try_emplace(std::this_thread::get_id(), threads_.size() + 1).first->second;
  std::string line = "{\"n\": " + std::to_string(call.n) + ", \"thread\": " + std::to_string(thread) +
                     ", \"call\": " + quoted(call.name) + ", \"arguments\": [";
  std::string extra;
  for (const Argument& a : arguments) {
    if (&a != arguments.begin()) line += ", ";
    line += argument(call, a);
    if (a.kind == Argument::kText && is(call, "e5_compiler_compile"))
      extra = ", \"program\": " + quoted(program(static_cast<const char*>(a.pointer)));
  }
  if (is(call, "execution_stream_execute_sync")) extra = ports(call.subject, true);
  return line + "]" + extra + "}\n";
}

std::string Trace::ended(const Call& call, int32_t status, bool threw, const std::string& error) {
  std::string line = "{\"n\": " + std::to_string(call.n) + ", \"status\": " + std::to_string(status);
  if (threw) line += ", \"threw\": true";
  if (!error.empty()) line += ", \"error\": " + quoted(clean(error));
  if (threw || status != 0) return line;
  uint64_t made = 0;
  const bool pointer = is(call, "buffer_object_get_data_ptr");
  if (call.place && !pointer && !ends_with(call.name, "_release")) {
    if (*call.place) live_[*call.place].push_back(made = ++handles_);
    line += ", \"out\": " + std::to_string(made);
  }
  learn(call, made);
  if (is(call, "execution_stream_execute_sync")) line += ports(call.subject, false);
  return line;
}

std::string Trace::argument(Call& call, const Argument& a) {
  const auto pair = [](const char* kind, const std::string& value) {
    return "[\"" + std::string(kind) + "\", " + value + "]";
  };
  if (a.kind == Argument::kNumber) {
    if (is(call, "buffer_object_alloc") && call.object == 0) call.object = a.number;  // the first: bytes
    return pair("number", std::to_string(a.number));
  }
  if (a.kind == Argument::kText) {
    const std::string text = a.pointer ? static_cast<const char*>(a.pointer) : "";
    if (text.find('/') == std::string::npos) return pair("text", quoted(text));
    const std::string above = fs::path(text).parent_path().string();
    if (std::find(folders_.begin(), folders_.end(), above) == folders_.end()) folders_.insert(folders_.begin(), above);
    if (folders_.size() > 64) folders_.erase(folders_.end() - 2);  // home stays, at the end
    return pair("path", quoted(last_part(text)));
  }
  if (a.kind == Argument::kHandle) {
    const uint64_t number = number_of(a.pointer);
    (call.subject == 0 ? call.subject : call.object) = number;
    return pair("handle", std::to_string(number));
  }
  call.place = static_cast<void**>(const_cast<void*>(a.pointer));
  if (!ends_with(call.name, "_release")) return pair(is(call, "buffer_object_get_data_ptr") ? "pointer" : "out", "0");
  // Forgotten before the call: as soon as it is released, another thread may be given the same address.
  const uint64_t number = number_of(*call.place);
  known_.erase(number);
  if (auto found = live_.find(*call.place); found != live_.end()) {
    found->second.pop_back();
    if (found->second.empty()) live_.erase(found);
  }
  return pair("release", std::to_string(number));
}

uint64_t Trace::number_of(const void* handle) const {
  const auto found = live_.find(handle);
  return found == live_.end() ? 0 : found->second.back();
}

// After a call that succeeded.
void Trace::learn(const Call& call, uint64_t made) {
  if (made) known_[made].made_by = call.name;
  if (is(call, "buffer_object_alloc")) known_[made].bytes = call.object;
  if (is(call, "buffer_object_get_data_ptr")) known_[call.subject].data = *call.place;
  if (is(call, "io_port_bind_buffer_object")) known_[call.subject].buffer = call.object;
  if (is(call, "execution_stream_encode_operation")) known_[call.subject].operation = call.object;
  if (is(call, kInputPort) || is(call, kOutputPort)) known_[made].operation = call.subject;
}

// The bytes of the input or output buffers of what is encoded on a stream, by the number of the port.
std::string Trace::ports(uint64_t stream, bool inputs) {
  Known& of = known_[stream];
  if (inputs) ++of.runs;
  if (of.runs > kMostRuns || port_bytes_ > kMostPorts) return "";
  const std::string made_by = inputs ? kInputPort : kOutputPort;
  std::string text;
  for (const auto& [number, port] : known_) {
    if (port.made_by != made_by || port.operation != of.operation) continue;
    const auto buffer = known_.find(port.buffer);
    if (buffer == known_.end() || !buffer->second.data || buffer->second.bytes > kMostPort) continue;
    const auto* data = static_cast<const uint8_t*>(buffer->second.data);
    port_bytes_ += buffer->second.bytes;
    text +=
        (text.empty() ? "\"" : ", \"") + std::to_string(number) + "\": \"" + base64(data, buffer->second.bytes) + '"';
  }
  return std::string(inputs ? ", \"inputs\": {" : ", \"outputs\": {") + text + "}";
}

// Copies a program into the trace, once; its name there.
std::string Trace::program(const std::string& path) {
  const fs::path weights = fs::path(path).replace_filename("weights.bin");
  uint64_t ignored = 0, bytes = 0;
  char name[17];
  std::snprintf(name, sizeof name, "%016" PRIx64, fnv1a(weights, fnv1a(path, 0xcbf29ce484222325u, &ignored), &bytes));
  const fs::path place = fs::path(folder_) / "programs" / name;
  if (fs::exists(place)) return name;
  fs::create_directories(place);
  fs::copy_file(path, place / "model.mil");
  if (bytes <= kMostWeights) {
    fs::copy_file(weights, place / "weights.bin");
  } else if (!(std::ofstream(place / "weights.json") << "{\"bytes\": " << bytes << "}\n")) {
    fail("weights.json");
  }
  return name;
}

// Without folders: of a path, wherever it stands in the text, only the last part is left.
std::string Trace::clean(std::string text) const {
  for (const std::string& folder : folders_)
    for (size_t at; (at = text.find(folder)) != std::string::npos;) text.replace(at, folder.size(), "<folder>");
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const bool starts =
        text[i] == '/' &&
        (i == 0 || !(std::isalnum(static_cast<unsigned char>(text[i - 1])) || std::strchr("_/>", text[i - 1])));
    const size_t end = starts ? std::min(text.find_first_of(" '\",;:)\n", i), text.size()) : i + 1;
    const std::string part = text.substr(i, end - i);
    out += starts && part.rfind('/') > 0 ? last_part(part) : part;
    i = end;
  }
  return out;
}

}  // namespace aneforge::runtime
