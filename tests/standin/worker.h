// worker.py, the process that computes for the stand-in: started at the first question, ends when this process does.
#pragma once
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

extern char** environ;

namespace standin {

inline int to_worker = -1, from_worker = -1;

inline bool write_all(int fd, const void* data, size_t n) {
  const auto* p = static_cast<const char*>(data);
  while (n > 0) {
    const ssize_t done = write(fd, p, n);
    if (done <= 0) return false;
    p += done;
    n -= static_cast<size_t>(done);
  }
  return true;
}
inline bool read_all(int fd, void* data, size_t n) {
  auto* p = static_cast<char*>(data);
  while (n > 0) {
    const ssize_t done = read(fd, p, n);
    if (done <= 0) return false;
    p += done;
    n -= static_cast<size_t>(done);
  }
  return true;
}

inline bool start_worker() {
  if (to_worker >= 0) return true;
  const char* python = std::getenv("STANDIN_PYTHON");
  const char* tests = std::getenv("STANDIN_TESTS");
  int in[2], out[2];
  if (!python || !tests || pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return false;
  const std::string script = std::string(tests) + "/standin/worker.py", path = std::string("PYTHONPATH=") + tests;
  char* arguments[] = {const_cast<char*>(python), const_cast<char*>(script.c_str()), nullptr};
  std::vector<char*> variables{const_cast<char*>(path.c_str()), const_cast<char*>("OPENBLAS_NUM_THREADS=1")};
  for (char** e = environ; *e; ++e)
    if (std::strncmp(*e, "PYTHONPATH=", 11) != 0) variables.push_back(*e);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  pid_t child = 0;
  const int failed = posix_spawn(&child, python, &actions, nullptr, arguments, variables.data());
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  to_worker = in[1];
  from_worker = out[0];
  return failed == 0;
}

// status: 0 done, 1 refused, 9 no worker. One question at a time, whatever else the process does meanwhile.
inline uint32_t ask(uint32_t what, const std::string& request, std::string* answer) {
  static std::mutex asking;
  const std::lock_guard<std::mutex> lock(asking);
  uint32_t head[2] = {what, static_cast<uint32_t>(request.size())};
  if (!start_worker() || !write_all(to_worker, head, 8) || !write_all(to_worker, request.data(), request.size()) ||
      !read_all(from_worker, head, 8)) {
    *answer = "standin: the worker is gone";
    return 9;
  }
  answer->resize(head[1]);
  if (!read_all(from_worker, answer->data(), head[1])) return 9;
  return head[0];
}

inline std::string word_of(uint32_t number) { return std::string(reinterpret_cast<const char*>(&number), 4); }

}  // namespace standin
