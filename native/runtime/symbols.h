// The functions of Apple's E5 runtime that are called here, by name. There is no header of it: signatures are those of
// Apple's own call sites and of two independent users of the library (docs/engine.md).
//
// Conventions: a status in 32 bits, 0 is accepted; create and alloc take the place of the result first, methods take
// it last; release takes the address of the handle.
#pragma once
#include <cstdint>

// X(name without "e5rt_", argument types)
#define ANEFORGE_E5RT_REQUIRED(X)                                                                  \
  X(e5_compiler_config_options_create, (void**))                                                   \
  X(e5_compiler_config_options_set_cache_bundle_location, (void*, const char*))                    \
  X(e5_compiler_config_options_release, (void**))                                                  \
  X(e5_compiler_create_with_config, (void**, void*))                                               \
  X(e5_compiler_release, (void**))                                                                 \
  X(e5_compiler_options_create, (void**))                                                          \
  X(e5_compiler_options_set_compute_device_types_mask, (void*, uint64_t))                          \
  X(e5_compiler_options_set_force_recompilation, (void*, int))                                     \
  X(e5_compiler_options_set_segmenter, (void*, const char*))                                       \
  X(e5_compiler_options_release, (void**))                                                         \
  X(e5_compiler_compile, (void*, const char*, void*, void**))                                      \
  X(program_library_retain_program_function, (void*, const char*, void**))                         \
  X(program_library_release, (void**))                                                             \
  X(program_function_release, (void**))                                                            \
  X(precompiled_compute_op_create_options_create_with_program_function, (void**, void*))           \
  X(precompiled_compute_op_create_options_set_operation_name, (void*, const char*))                \
  X(precompiled_compute_op_create_options_set_allocate_intermediate_buffers, (void*, int))         \
  X(precompiled_compute_op_create_options_release, (void**))                                       \
  X(execution_stream_operation_create_precompiled_compute_operation_with_options, (void**, void*)) \
  X(execution_stream_operation_retain_input_port, (void*, const char*, void**))                    \
  X(execution_stream_operation_retain_output_port, (void*, const char*, void**))                   \
  X(execution_stream_operation_release, (void**))                                                  \
  X(io_port_bind_buffer_object, (void*, void*))                                                    \
  X(io_port_release, (void**))                                                                     \
  X(buffer_object_alloc, (void**, uint64_t, uint32_t))                                             \
  X(buffer_object_get_data_ptr, (void*, void**))                                                   \
  X(buffer_object_release, (void**))                                                               \
  X(execution_stream_create, (void**))                                                             \
  X(execution_stream_encode_operation, (void*, void*))                                             \
  X(execution_stream_execute_sync, (void*))                                                        \
  X(execution_stream_release, (void**))

namespace aneforge::runtime {

struct Symbols {
#define X(name, arguments) int32_t(*name) arguments = nullptr;
  ANEFORGE_E5RT_REQUIRED(X)
#undef X
  // Optional: texts of errors.
  const char* (*get_last_error_message)() = nullptr;
};

}  // namespace aneforge::runtime
