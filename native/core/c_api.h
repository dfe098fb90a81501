/* The C boundary of libaneforge_ep. One exported function hands out a table; no C++ type and no exception crosses it.
 * Users: the Python module (native/python), programs without Python, tests/c.
 *
 *     const AfApi* api = aneforge_get_api(AF_ABI);   // NULL: the library speaks another version
 *
 * A function that can fail returns an AfStatus*: NULL is success, anything else is released by the caller.
 * Element types are ONNX's TensorProto.DataType numbers. */
#ifndef ANEFORGE_C_API_H_
#define ANEFORGE_C_API_H_
#include <stddef.h>
#include <stdint.h>

#define AF_ABI 1u

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct AfStatus AfStatus;         /* code and text */
typedef struct AfExecutable AfExecutable; /* a compiled program, reference counted */

typedef struct AfPort {
  const char* name; /* borrowed from the executable */
  int32_t dtype;
  size_t rank;
  const int64_t* dims;
} AfPort;

typedef struct AfView {
  int32_t dtype;
  size_t rank;
  const int64_t* dims;
  void* data; /* never written through for inputs */
} AfView;

typedef struct AfEvents {
  uint64_t saturated_inputs; /* see core/executable.h */
  uint64_t nonfinite_outputs;
} AfEvents;

/* A group of nodes that the execution provider is to claim. Names and arrays are copied before accept() returns. */
typedef struct AfRegion {
  const char* name;    /* for logs and reports */
  const size_t* nodes; /* positions in the graph that was handed over */
  size_t n_nodes;
  AfExecutable* executable;       /* the provider takes its own reference; NULL only when compile_error is set */
  const char* const* input_names; /* ONNX value name of each input port, in port order */
  size_t n_inputs;
  const char* const* output_names; /* of each output port, in port order */
  size_t n_outputs;
} AfRegion;

typedef struct AfCapability {
  const AfRegion* regions;
  size_t n_regions;
  const char*
      compile_error;   /* or NULL. Raised from Compile, the one loud place; any ordinary node is claimed to get there */
  const char* warning; /* or NULL. Logged once through ONNX Runtime's logger */
  const char* on_overflow; /* "warn" (default when NULL), "error" or "ignore" */
} AfCapability;

/* What a capability hook is told. Everything is borrowed for the call. */
typedef struct AfGraph {
  uint64_t ep;            /* one number for one OrtEp, never reused in a process */
  const char* parent_op;  /* "" for the main graph, else the control-flow operator whose body this is */
  const char* model_path; /* "" when the model came from memory */
  const void* model;      /* the graph as a serialized ModelProto; large weights by address, see ep/graph_to_onnx.h */
  size_t model_size;
  const char* const* option_keys; /* the session's ep.aneforgeprovider.* entries, without the prefix */
  const char* const* option_values;
  size_t n_options;
} AfGraph;

typedef struct AfHooks {
  uint32_t abi;
  void* user;
  /* Called without the GIL on the thread that creates the session; calls accept at most once. */
  AfStatus* (*capability)(void* user, const AfGraph* graph, void (*accept)(void* context, const AfCapability*),
                          void* context);
} AfHooks;

typedef struct AfRegionStats {
  const char* name;
  uint64_t runs, saturated, nonfinite; /* calls of Compute; runs in which a port event was seen */
} AfRegionStats;

typedef struct AfApi {
  uint32_t abi;
  const char* (*version)(void); /* the product's version, "0.1.0" */

  int32_t (*status_code)(const AfStatus*); /* aneforge::Code */
  const char* (*status_text)(const AfStatus*);
  void (*status_release)(AfStatus*);
  AfStatus* (*status_create)(int32_t code, const char* text);

  AfStatus* (*compile)(const char* backend, const char* text, size_t text_size, const void* blob, size_t blob_size,
                       const char* const* keys, const char* const* values, size_t n_options, AfExecutable** out);
  void (*executable_retain)(AfExecutable*);
  void (*executable_release)(AfExecutable*);
  size_t (*executable_n_inputs)(const AfExecutable*);
  size_t (*executable_n_outputs)(const AfExecutable*);
  AfPort (*executable_input)(const AfExecutable*, size_t);
  AfPort (*executable_output)(const AfExecutable*, size_t);
  const char* (*executable_describe)(const AfExecutable*);
  /* threads: 0 = as many as the machine has, 1 = the calling thread only. events may be NULL. */
  AfStatus* (*executable_run)(const AfExecutable*, const AfView* inputs, size_t n_inputs, const AfView* outputs,
                              size_t n_outputs, size_t threads, AfEvents* events);

  /* Execution provider. NULL uninstalls. */
  AfStatus* (*install_hooks)(const AfHooks*);
  /* The provider instance that a session's set_ep_dynamic_options({"aneforge.token": token}) reached; 0 if none. */
  uint64_t (*ep_of_token)(const char* token);
  size_t (*live_eps)(uint64_t* out, size_t capacity); /* returns how many there are */
  void (*ep_regions)(uint64_t ep, void (*each)(void* context, const AfRegionStats*), void* context);

  /* Live objects, for leak tests: executables, eps, fused kernels; and total computes. */
  void (*counters)(int64_t out[4]);

  /* fp16 conversion, round to nearest even, as at the ports (no saturation). For tests. */
  void (*to_half)(const float* from, uint16_t* to, size_t n);
  void (*from_half)(const uint16_t* from, float* to, size_t n);

  /* NULL: the backend can be used on this machine and in this process; else a status that says why not. */
  AfStatus* (*backend_check)(const char* backend);
} AfApi;

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const AfApi* aneforge_get_api(uint32_t abi);

#if defined(__cplusplus)
}
#endif
#endif
