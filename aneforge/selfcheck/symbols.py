"""Which functions of the engine's runtime are on this machine: looked up, none of them called.

The list is that of native/runtime/symbols.h; a test keeps the two in step.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from ..backends.e5rt import LIBRARY
from ..backends.machine import on_apple_silicon

PATH = (
    "/System/Library/PrivateFrameworks/Espresso.framework/Espresso"  # in the system's shared cache: no file to look for
)
REQUIRED = (
    "e5_compiler_config_options_create",
    "e5_compiler_config_options_set_cache_bundle_location",
    "e5_compiler_config_options_release",
    "e5_compiler_create_with_config",
    "e5_compiler_release",
    "e5_compiler_options_create",
    "e5_compiler_options_set_compute_device_types_mask",
    "e5_compiler_options_set_force_recompilation",
    "e5_compiler_options_set_segmenter",
    "e5_compiler_options_release",
    "e5_compiler_compile",
    "program_library_retain_program_function",
    "program_library_release",
    "program_function_release",
    "precompiled_compute_op_create_options_create_with_program_function",
    "precompiled_compute_op_create_options_set_operation_name",
    "precompiled_compute_op_create_options_set_allocate_intermediate_buffers",
    "precompiled_compute_op_create_options_release",
    "execution_stream_operation_create_precompiled_compute_operation_with_options",
    "execution_stream_operation_retain_input_port",
    "execution_stream_operation_retain_output_port",
    "execution_stream_operation_release",
    "io_port_bind_buffer_object",
    "io_port_release",
    "buffer_object_alloc",
    "buffer_object_get_data_ptr",
    "buffer_object_release",
    "execution_stream_create",
    "execution_stream_encode_operation",
    "execution_stream_execute_sync",
    "execution_stream_release",
)
OPTIONAL = ("get_last_error_message",)


def symbols() -> dict[str, Any]:
    """{"found": names, "missing": names, "optional_missing": names}; {} where there is no such library to ask,
    {"error": text} where it does not open."""
    path = os.environ.get(LIBRARY) or (PATH if on_apple_silicon() else "")
    if not path:
        return {}
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        return {"error": " ".join("…" if "/" in word else word for word in str(error).split())}
    here = {name for name in (*REQUIRED, *OPTIONAL) if hasattr(library, f"e5rt_{name}")}
    return {
        "found": sorted(here),
        "missing": [name for name in REQUIRED if name not in here],
        "optional_missing": [name for name in OPTIONAL if name not in here],
    }
