/* The C boundary of libaneforge_ep from plain C: no Python, no ONNX Runtime, no C++.
 *
 *     table <path of the library>
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/c_api.h"

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

static const char kProgram[] =
    "program(1.3)\n"
    "{\n"
    "    func main<ios18>(tensor<fp16, [2, 3]> x) {\n"
    "        tensor<fp16, [2, 3]> s = add(x = x, y = fp16(0x1p+0))[name = string(\"s\")];\n"
    "        tensor<fp16, [2, 3]> y = relu(x = s)[name = string(\"y\")];\n"
    "    } -> (y);\n"
    "}\n";

/* Takes the status; its text must hold `part`. */
static void expect(const AfApi* api, AfStatus* status, int32_t code, const char* part) {
  CHECK(status != NULL);
  if (api->status_code(status) != code || !strstr(api->status_text(status), part)) {
    fprintf(stderr, "code %d: %s\n", (int)api->status_code(status), api->status_text(status));
    exit(1);
  }
  api->status_release(status);
}

static void must(const AfApi* api, AfStatus* status) {
  if (!status) return;
  fprintf(stderr, "%s\n", api->status_text(status));
  exit(1);
}

static AfStatus* hook(void* user, const AfGraph* graph, void (*accept)(void*, const AfCapability*), void* context) {
  (void)user, (void)graph, (void)accept, (void)context;
  return NULL;
}

static void programs(const AfApi* api) {
  const char* keys[] = {"numerics"};
  const char* values[] = {"fp16"};
  AfExecutable* e = NULL;
  must(api, api->compile("host", kProgram, sizeof kProgram - 1, NULL, 0, keys, values, 1, &e));
  CHECK(api->executable_n_inputs(e) == 1 && api->executable_n_outputs(e) == 1);
  const AfPort in = api->executable_input(e, 0), out = api->executable_output(e, 0);
  CHECK(strcmp(in.name, "x") == 0 && in.dtype == 10 && in.rank == 2 && in.dims[0] == 2 && in.dims[1] == 3);
  CHECK(strcmp(out.name, "y") == 0 && out.dtype == 10 && out.rank == 2);
  CHECK(strncmp(api->executable_describe(e), "host", 4) == 0);

  float x[6] = {-3, -1, 0, 1, 2.5f, 100000}, y[6] = {0};
  const float expected[6] = {0, 0, 1, 2, 3.5f, 65504};
  const AfView given = {1, 2, in.dims, x}, wanted = {1, 2, out.dims, y};
  AfEvents events = {9, 9};
  must(api, api->executable_run(e, &given, 1, &wanted, 1, 1, &events));
  CHECK(memcmp(y, expected, sizeof y) == 0);
  CHECK(events.saturated_inputs == 1 && events.nonfinite_outputs == 0);

  const int64_t wrong[2] = {3, 2};
  const AfView turned = {1, 2, wrong, x};
  expect(api, api->executable_run(e, &turned, 1, &wanted, 1, 0, NULL), 1, "shape");
  expect(api, api->executable_run(e, &given, 1, &wanted, 0, 0, NULL), 1, "");

  int64_t counts[4];
  api->executable_retain(e);
  api->executable_release(e);
  api->counters(counts);
  CHECK(counts[0] == 1);
  api->executable_release(e);
  api->counters(counts);
  CHECK(counts[0] == 0 && counts[1] == 0 && counts[2] == 0 && counts[3] == 0);

  e = (AfExecutable*)&counts;
  expect(api, api->compile("host", "nonsense", 8, NULL, 0, NULL, NULL, 0, &e), 3, "line 1");
  CHECK(e == NULL);
  expect(api, api->compile("nowhere", kProgram, sizeof kProgram - 1, NULL, 0, NULL, NULL, 0, &e), 1, "host");
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  CHECK(dlsym(library, "CreateEpFactories") && dlsym(library, "ReleaseEpFactory"));
  CHECK(!dlsym(library, "Py_IsInitialized"));
  const AfApi* (*get)(uint32_t) = NULL;
  *(void**)&get = dlsym(library, "aneforge_get_api");
  CHECK(get != NULL);
  CHECK(get(AF_ABI + 1) == NULL && get(0) == NULL);
  const AfApi* api = get(AF_ABI);
  CHECK(api != NULL && api->abi == AF_ABI && strchr(api->version(), '.'));

  expect(api, api->status_create(2, "some text"), 2, "some text");
  CHECK(api->status_code(NULL) == 0);
  api->status_release(NULL);

  AfHooks hooks = {AF_ABI, NULL, hook};
  must(api, api->install_hooks(&hooks));
  must(api, api->install_hooks(NULL));
  hooks.abi = AF_ABI + 1;
  expect(api, api->install_hooks(&hooks), 1, "version");
  hooks.abi = AF_ABI;
  hooks.capability = NULL;
  expect(api, api->install_hooks(&hooks), 1, "capability");
  CHECK(api->live_eps(NULL, 0) == 0 && api->ep_of_token("none") == 0 && api->ep_of_token(NULL) == 0);

  const float values[3] = {1.0f, 65504.0f, -0.0f};
  uint16_t halves[3];
  float back[3];
  api->to_half(values, halves, 3);
  api->from_half(halves, back, 3);
  CHECK(halves[0] == 0x3c00 && halves[1] == 0x7bff && halves[2] == 0x8000);
  CHECK(memcmp(values, back, sizeof back) == 0);

  programs(api);
  puts("ok");
  return 0;
}
