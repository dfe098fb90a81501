// Runs MIL programs from folders through the C API: what a program without Python does, on any machine.
//
//   run_programs BACKEND FOLDER…    exit code 0 when every program ran
//
// A folder holds model.mil, weights.bin, options (lines "key value"), ports (the callers' element types, lines "in
// TYPE" and "out TYPE" in port order), and in0, in1, … in row-major order. out0, out1, … are written there, and
// `events`: the two bit sets. A program that fails leaves its text in `error`.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "core/c_api.h"
#include "core/tensor.h"

namespace {

const AfApi* api;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}
void write(const std::string& path, const void* data, size_t n) {
  std::ofstream(path, std::ios::binary).write(static_cast<const char*>(data), static_cast<std::streamsize>(n));
}

// Empty: all is well.
std::string text_of(AfStatus* status) {
  if (!status) return "";
  std::string text = api->status_text(status);
  api->status_release(status);
  return text.empty() ? "an error without a text" : text;
}

AfView view_of(const AfPort& port, int32_t dtype, std::string* memory) {
  const auto count = static_cast<size_t>(aneforge::element_count(port.dims, port.rank));
  memory->resize(count * aneforge::element_size(static_cast<aneforge::DType>(dtype)));
  return AfView{dtype, port.rank, port.dims, memory->data()};
}

std::string run(const char* backend, const std::string& folder) {
  const std::string text = read(folder + "/model.mil"), blob = read(folder + "/weights.bin");
  std::vector<std::string> words;
  std::istringstream options(read(folder + "/options"));
  for (std::string word; options >> word;) words.push_back(word);
  std::vector<const char*> keys, values;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    keys.push_back(words[i].c_str());
    values.push_back(words[i + 1].c_str());
  }
  AfExecutable* made = nullptr;
  std::string failed = text_of(api->compile(backend, text.data(), text.size(), blob.data(), blob.size(), keys.data(),
                                            values.data(), keys.size(), &made));
  if (!failed.empty()) return failed;
  std::vector<std::string> given(api->executable_n_inputs(made)), got(api->executable_n_outputs(made));
  std::vector<AfView> in, out;
  std::istringstream ports(read(folder + "/ports"));
  std::string role;
  for (int32_t dtype = 0; ports >> role >> dtype;) {
    const bool input = role == "in";
    const size_t i = input ? in.size() : out.size();
    if (i >= (input ? given : got).size()) return "more ports named than the program has";
    const AfPort port = input ? api->executable_input(made, i) : api->executable_output(made, i);
    (input ? in : out).push_back(view_of(port, dtype, &(input ? given : got)[i]));
    if (!input) continue;
    const std::string fed = read(folder + "/in" + std::to_string(i));
    if (fed.size() != given[i].size()) return "input " + std::to_string(i) + " has another size";
    given[i].replace(0, fed.size(), fed);
  }
  AfEvents events{0, 0};
  failed = text_of(api->executable_run(made, in.data(), in.size(), out.data(), out.size(), 2, &events));
  api->executable_release(made);
  if (!failed.empty()) return failed;
  for (size_t i = 0; i < got.size(); ++i) write(folder + "/out" + std::to_string(i), got[i].data(), got[i].size());
  const std::string seen = std::to_string(events.saturated_inputs) + " " + std::to_string(events.nonfinite_outputs);
  write(folder + "/events", seen.data(), seen.size());
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  api = aneforge_get_api(AF_ABI);
  if (!api || argc < 3) return 2;
  int failures = 0;
  for (int i = 2; i < argc; ++i) {
    const std::string failed = run(argv[1], argv[i]);
    if (failed.empty()) continue;
    ++failures;
    write(std::string(argv[i]) + "/error", failed.data(), failed.size());
    std::printf("%s: %s\n", argv[i], failed.c_str());
  }
  int64_t alive[4] = {0, 0, 0, 0};
  api->counters(alive);
  if (alive[0] != 0) std::printf("%lld executables are still alive\n", static_cast<long long>(alive[0]));
  std::printf("%s: %d programs ran, %d failed\n", argv[1], argc - 2 - failures, failures);
  return failures != 0 || alive[0] != 0;
}
