// What was called, for somebody who has no Mac: with ANEFORGE_E5RT_TRACE=<folder> in the environment when the runtime
// is opened, every call of it is written there, with the programs and the bytes of the first runs.
// tests/standin/replay.py plays it.
//
//   calls.jsonl (calls-2.jsonl … of further processes): one JSON object a line. First
//     {"trace": 1, "version", "library", "system"}
//   before a call
//     {"n", "thread", "call", "arguments": [[kind, value] …], "program"?, "inputs"?}
//   and after it; a call without such a line did not return
//     {"n", "status", "us", "out"?, "error"?, "threw"?, "outputs"?}
//   programs/<hash of text and weights>/: model.mil; weights.bin, or where it is large weights.json {"bytes"}
//
// Kinds of arguments: "handle" (a number of its own for each that was given out; 0 none), "release" (a handle), "out",
// "pointer" (the place of one that is no handle), "text", "path" (its last part alone), "number". Port buffers are
// base64.
//
// Neither the user's name nor a folder is written: a path keeps its last part. A trace that cannot be written ends,
// with a line on stderr, and no call fails for it.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace aneforge::runtime {

class Trace {
 public:
  // An argument of a call as it stands in the C signature.
  struct Argument {
    enum Kind { kHandle, kPlace, kText, kNumber } kind;
    const void* pointer = nullptr;
    uint64_t number = 0;

    Argument(void* p) : kind(kHandle), pointer(p) {}
    Argument(void** p) : kind(kPlace), pointer(p) {}
    Argument(const char* p) : kind(kText), pointer(p) {}
    Argument(uint64_t n) : kind(kNumber), number(n) {}
    Argument(uint32_t n) : kind(kNumber), number(n) {}
    Argument(int n) : kind(kNumber), number(static_cast<uint64_t>(n)) {}
  };
  // A call between begin and end, on the caller's stack.
  struct Call {
    const char* name = "";
    uint64_t n = 0;
    int64_t began = 0;  // nanoseconds
    void** place = nullptr;
    uint64_t subject = 0, object = 0;  // numbers of the first handle, and of the second
  };

  // Null where the environment asks for none, or the folder cannot be written (said on stderr).
  static std::unique_ptr<Trace> open(const std::string& library);
  ~Trace();

  Call begin(const char* name, std::initializer_list<Argument> arguments) noexcept;
  // `error` is the runtime's own text; empty where the call succeeded.
  void end(const Call& call, int32_t status, bool threw, const std::string& error) noexcept;

 private:
  // What has to be known of a handle to find a stream's buffers.
  struct Known {
    std::string made_by;
    uint64_t operation = 0;                    // of a port or a stream
    uint64_t buffer = 0, bytes = 0, runs = 0;  // of a port; of a buffer; of a stream
    const void* data = nullptr;                // of a buffer
  };

  Trace(const std::string& folder, int file) : folder_(folder), file_(file) {}
  std::string began(Call& call, std::initializer_list<Argument> arguments);
  std::string ended(const Call& call, int32_t status, bool threw, const std::string& error);
  std::string argument(Call& call, const Argument& a);
  std::string program(const std::string& path);
  std::string ports(uint64_t stream, bool inputs);
  uint64_t number_of(const void* handle) const;
  void learn(const Call& call, uint64_t made);
  std::string clean(std::string text) const;
  void write(const std::string& line);
  void give_up(const std::string& why) noexcept;

  const std::string folder_;
  int file_;
  std::mutex mutex_;
  uint64_t calls_ = 0, handles_ = 0, port_bytes_ = 0;
  std::map<std::thread::id, uint64_t> threads_;
  std::map<const void*, std::vector<uint64_t>> live_;  // a handle may be given out twice
  std::map<uint64_t, Known> known_;
  std::vector<std::string> folders_;  // that no text may name
};

}  // namespace aneforge::runtime
