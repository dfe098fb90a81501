/* A session of ONNX Runtime with the provider, from plain C: a program without Python.
 *
 *     session <libonnxruntime> <libaneforge_ep> <model: y = Relu(x + x), float [2, 3]> none|hook|error
 *
 * none: nothing compiles for the provider, it claims no node.  hook: both nodes are claimed by the hook below.
 * error: the hook reports an error, which must be the error of the session.
 * Functions of ONNX Runtime are called by position, as in ep/ort_api.h (source: onnxruntime_c_api.h, API version 29).
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

typedef struct {
  const void* (*get_api)(uint32_t);
  const char* (*get_version)(void);
} ApiBase;

enum {
  kErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSession = 7,
  kRun = 9,
  kCreateSessionOptions = 10,
  kCreateTensor = 49,
  kTensorData = 51,
  kCpuMemoryInfo = 69,
  kReleaseEnv = 92,
  kReleaseStatus = 93,
  kReleaseMemoryInfo = 94,
  kReleaseSession = 95,
  kReleaseValue = 96,
  kReleaseSessionOptions = 100,
  kRegisterLibrary = 301,
  kUnregisterLibrary = 302,
  kEpDevices = 303,
  kAppendProvider = 304,
  kDeviceEpName = 312
};

static void* const* ort;
static const AfApi* af;

/* CALL(result, position, types)(arguments) */
#define CALL(result, position, types) ((result(*) types)ort[position])

static const char* message(void* status) { return CALL(const char*, kErrorMessage, (void*))(status); }
static void must(void* status) {
  if (!status) return;
  fprintf(stderr, "%s\n", message(status));
  exit(1);
}
static void drop(int position, void* object) { CALL(void, position, (void*))(object); }

static const char kProgram[] =
    "program(1.3)\n"
    "{\n"
    "    func main<ios18>(tensor<fp16, [2, 3]> a) {\n"
    "        tensor<fp16, [2, 3]> b = add(x = a, y = a)[name = string(\"b\")];\n"
    "        tensor<fp16, [2, 3]> c = relu(x = b)[name = string(\"c\")];\n"
    "    } -> (c);\n"
    "}\n";

static int calls;

static AfStatus* claim(void* user, const AfGraph* graph, void (*accept)(void*, const AfCapability*), void* context) {
  (void)user;
  ++calls;
  CHECK(graph->ep != 0 && graph->parent_op[0] == '\0' && graph->model_size > 0 && graph->n_options == 1);
  CHECK(strcmp(graph->option_keys[0], "numerics") == 0 && strcmp(graph->option_values[0], "fp16") == 0);
  AfExecutable* e = NULL;
  AfStatus* status = af->compile("host", kProgram, sizeof kProgram - 1, NULL, 0, graph->option_keys,
                                 graph->option_values, graph->n_options, &e);
  if (status) return status;
  const size_t nodes[] = {0, 1};
  const char* inputs[] = {"x"};
  const char* outputs[] = {"y"};
  const AfRegion region = {"both", nodes, 2, e, inputs, 1, outputs, 1};
  const AfCapability capability = {&region, 1, NULL, NULL, NULL};
  accept(context, &capability);
  af->executable_release(e); /* the provider holds a reference of its own */
  return NULL;
}

static AfStatus* complain(void* user, const AfGraph* graph, void (*accept)(void*, const AfCapability*), void* context) {
  (void)user, (void)graph;
  const AfCapability capability = {NULL, 0, "this model is not for me", NULL, NULL};
  accept(context, &capability);
  return NULL;
}

static void count_runs(void* context, const AfRegionStats* stats) {
  CHECK(strcmp(stats->name, "both") == 0 && stats->saturated == 0 && stats->nonfinite == 0);
  *(uint64_t*)context = stats->runs;
}

static void* open_library(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library) return library;
  fprintf(stderr, "%s\n", dlerror());
  exit(1);
}

static void run(void* session) {
  float x[6] = {-2, -1, 0, 1, 2, 3};
  const int64_t dims[2] = {2, 3};
  void *memory = NULL, *in = NULL, *out = NULL;
  float* y = NULL;
  must(CALL(void*, kCpuMemoryInfo, (int, int, void**))(1, 0, &memory));
  must(CALL(void*, kCreateTensor, (void*, void*, size_t, const int64_t*, size_t, int, void**))(memory, x, sizeof x,
                                                                                               dims, 2, 1, &in));
  const char *in_name = "x", *out_name = "y";
  const void* feeds[] = {in};
  must(CALL(void*, kRun,
            (void*, void*, const char* const*, const void* const*, size_t, const char* const*, size_t, void**))(
      session, NULL, &in_name, feeds, 1, &out_name, 1, &out));
  must(CALL(void*, kTensorData, (void*, void**))(out, (void**)&y));
  for (int i = 0; i < 6; ++i) CHECK(y[i] == (x[i] > 0 ? 2 * x[i] : 0));
  drop(kReleaseValue, out);
  drop(kReleaseValue, in);
  drop(kReleaseMemoryInfo, memory);
}

int main(int argc, char** argv) {
  CHECK(argc == 5);
  const char* mode = argv[4];
  const ApiBase* (*get_base)(void) = NULL;
  *(void**)&get_base = dlsym(open_library(argv[1]), "OrtGetApiBase");
  const AfApi* (*get_af)(uint32_t) = NULL;
  *(void**)&get_af = dlsym(open_library(argv[2]), "aneforge_get_api");
  CHECK(get_base && get_af);
  ort = (void* const*)get_base()->get_api(24);
  af = get_af(AF_ABI);
  CHECK(ort && af);
  AfHooks hooks = {AF_ABI, NULL, strcmp(mode, "error") == 0 ? complain : claim};
  if (strcmp(mode, "none") != 0) CHECK(af->install_hooks(&hooks) == NULL);

  void *env = NULL, *options = NULL, *session = NULL;
  must(CALL(void*, kCreateEnv, (int, const char*, void**))(3, "test", &env));
  must(CALL(void*, kRegisterLibrary, (void*, const char*, const char*))(env, "ANEForgeProvider", argv[2]));
  const void* const* devices = NULL;
  const void* device = NULL;
  size_t count = 0;
  must(CALL(void*, kEpDevices, (void*, const void* const**, size_t*))(env, &devices, &count));
  for (size_t i = 0; i < count; ++i) {
    const char* name = CALL(const char*, kDeviceEpName, (const void*))(devices[i]);
    if (strcmp(name, "ANEForgeProvider") == 0) device = devices[i];
  }
  CHECK(device != NULL);
  must(CALL(void*, kCreateSessionOptions, (void**))(&options));
  const char *key = "numerics", *value = "fp16";
  must(CALL(void*, kAppendProvider,
            (void*, void*, const void* const*, size_t, const char* const*, const char* const*, size_t))(
      options, env, &device, 1, &key, &value, 1));

  void* status = CALL(void*, kCreateSession, (void*, const char*, void*, void**))(env, argv[3], options, &session);
  int64_t counts[4];
  if (strcmp(mode, "error") == 0) {
    CHECK(status != NULL && strstr(message(status), "this model is not for me"));
    drop(kReleaseStatus, status);
  } else {
    must(status);
    run(session);
    run(session);
    const int claims = strcmp(mode, "hook") == 0;
    af->counters(counts);
    CHECK(counts[0] == claims && counts[1] == 1 && counts[2] == claims && counts[3] == 2 * claims && calls == claims);
    uint64_t ep = 0, runs = 0;
    CHECK(af->live_eps(&ep, 1) == 1 && ep != 0);
    af->ep_regions(ep, count_runs, &runs);
    CHECK(runs == (uint64_t)(2 * claims));
    drop(kReleaseSession, session);
  }
  af->counters(counts);
  CHECK(counts[0] == 0 && counts[1] == 0 && counts[2] == 0);
  drop(kReleaseSessionOptions, options);
  must(CALL(void*, kUnregisterLibrary, (void*, const char*))(env, "ANEForgeProvider"));
  drop(kReleaseEnv, env);
  puts("ok");
  return 0;
}
