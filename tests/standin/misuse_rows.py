"""Wrong calls of the engine's runtime, a row each: what is done after a right beginning, and how the stand-in names it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from standin.right_life import (
    CACHE,
    ENCODE,
    EXECUTE,
    FORCE,
    INPUT,
    LIFE,
    LOAD,
    MASK,
    OPTIONS,
    ORDER,
    OUTPUT,
    RELEASE,
    RETAIN,
    SEGMENTER,
    Runtime,
)


def released_twice(name: str) -> Callable[[Runtime], int]:
    def do(r: Runtime) -> int:
        handle = getattr(r, name)
        for dependent in ORDER[: ORDER.index(name)]:
            if dependent in r.made:
                r.right(RELEASE.get(dependent, RELEASE["x" if dependent == "y" else "bx"]), [r.made[dependent]])
        r.right(RELEASE[name], [handle])
        return r.call(RELEASE[name], [handle])

    return do


def overrun(r: Runtime) -> int:
    assert r.stream
    place: list[int] = []
    r.right("buffer_object_get_data_ptr", r.bx, place)
    ctypes.memset(place[0], 0, 192 + 1)
    return r.call(EXECUTE, r.stream)


def overrun_at_the_end(r: Runtime) -> int:
    place: list[int] = []
    buffer = r.make("buffer_object_alloc", ..., 64, 0)
    r.right("buffer_object_get_data_ptr", buffer, place)
    ctypes.memset(place[0], 0, 64 + 1)
    return r.call("buffer_object_release", [buffer])


def unbound_again(r: Runtime) -> int:
    """The buffer is gone before the encode: the port has none."""
    assert r.by
    r.right("buffer_object_release", [r.bx])
    return r.call(ENCODE, r.make("execution_stream_create", ...), r.operation)


def another_operation(r: Runtime) -> int:
    other = r.make(LOAD, ..., r.op_options)
    for call, name in ((INPUT, "x"), (OUTPUT, "y")):
        r.bound(r.make(call, other, name, ...))
    return r.call(ENCODE, r.stream, other)


def without(setter: str) -> Callable[[Runtime], int]:
    def do(r: Runtime) -> int:
        options = r.make("e5_compiler_options_create", ...)
        for name, value in ((MASK, 4), (FORCE, 1), (SEGMENTER, "graph")):
            if name != setter:
                r.right(name, options, value)
        return r.call("e5_compiler_compile", r.compiler, r.write(), options, [])

    return do


def half_of_op_options(setter: str, value: object) -> Callable[[Runtime], int]:
    def do(r: Runtime) -> int:
        options = r.make(f"{OPTIONS}_create_with_program_function", ..., r.function)
        r.right(f"{OPTIONS}_{setter}", options, value)
        return r.call(LOAD, [], options)

    return do


# What is done, and how it is named. Each is answered with status 2.
MISUSES: dict[str, tuple[Callable[[Runtime], int], str]] = {
    # arguments in another order, or left out
    **{
        f"no place: {name}": (lambda r, name=name: r.call(name, 0), "takes the place of the handle")
        for name in ("e5_compiler_config_options_create", "e5_compiler_options_create", "execution_stream_create")
    },
    "no place: compiler": (lambda r: r.call("e5_compiler_create_with_config", 0, r.config), "(out, config with"),
    "compiler: config first": (lambda r: r.call("e5_compiler_create_with_config", r.config, []), "(out, config with"),
    "compiler: no config": (lambda r: r.call("e5_compiler_create_with_config", [], 0), "(out, config with"),
    "compiler: no cache folder": (
        lambda r: r.call("e5_compiler_create_with_config", [], r.make("e5_compiler_config_options_create", ...)),
        "(out, config with a cache folder)",
    ),
    "cache folder: not there": (lambda r: r.call(CACHE, r.config, r.folder / "no"), "existing writable folder"),
    "cache folder: a file": (lambda r: r.call(CACHE, r.config, r.write()), "existing writable folder"),
    "cache folder: folder first": (lambda r: r.call(CACHE, str(r.folder), r.config), "existing writable folder"),
    "cache folder: none": (lambda r: r.call(CACHE, r.config, 0), "existing writable folder"),
    "compile: options first": (
        lambda r: r.call("e5_compiler_compile", r.options, r.write(), r.compiler, []),
        "compile: (compiler, path, options, out)",
    ),
    "compile: out first": (
        lambda r: r.call("e5_compiler_compile", [], r.compiler, r.write(), r.options),
        "compile: (compiler, path, options, out)",
    ),
    "compile: no path": (lambda r: r.call("e5_compiler_compile", r.compiler, 0, r.options, []), "compile: (compiler"),
    "compile: no out": (lambda r: r.call("e5_compiler_compile", r.compiler, r.write(), r.options, 0), "compile: (compiler"),
    "compile: a folder": (
        lambda r: r.call("e5_compiler_compile", r.compiler, r.write().parent, r.options, []),
        "the path is no .mil file",
    ),
    "function: out first": (lambda r: r.call(RETAIN, [], r.library, "main"), "(library, name, out)"),
    "function: no name": (lambda r: r.call(RETAIN, r.library, 0, []), "(library, name, out)"),
    "op options: function first": (
        lambda r: r.call(f"{OPTIONS}_create_with_program_function", r.function, []),
        "Cannot provide program function as nullptr",
    ),
    "op options: no function": (
        lambda r: r.call(f"{OPTIONS}_create_with_program_function", [], 0),
        "Cannot provide program function as nullptr",
    ),
    "operation: options first": (lambda r: r.call(LOAD, r.op_options, []), "create operation: (out, options)"),
    "operation: of a function": (lambda r: r.call(LOAD, [], r.function), "create operation: (out, options)"),
    "input port: out first": (lambda r: r.call(INPUT, [], r.operation, "x"), "retain_input_port: (operation, name, out)"),
    "output port: no name": (lambda r: r.call(OUTPUT, r.operation, 0, []), "retain_output_port: (operation, name, out)"),
    "bind: buffer first": (lambda r: r.call("io_port_bind_buffer_object", r.bx, r.y), "bind: (port, buffer)"),
    "bind: no buffer": (lambda r: r.call("io_port_bind_buffer_object", r.x, 0), "bind: (port, buffer)"),
    "alloc: no out": (lambda r: r.call("buffer_object_alloc", 0, 64, 0), "alloc: (out, bytes"),
    "alloc: nothing": (lambda r: r.call("buffer_object_alloc", [], 0, 0), "alloc: (out, bytes"),
    "alloc: no whole rows": (lambda r: r.call("buffer_object_alloc", [], 132, 0), "alloc: (out, bytes in whole rows"),
    "alloc: bytes and type exchanged": (lambda r: r.call("buffer_object_alloc", [], 1, 64), ""),
    "alloc: a surface": (lambda r: r.call("buffer_object_alloc", [], 64, 2), "type 0"),
    "data: out first": (lambda r: r.call("buffer_object_get_data_ptr", [], r.bx), "get_data_ptr: (buffer, out)"),
    "data: no out": (lambda r: r.call("buffer_object_get_data_ptr", r.bx, 0), "get_data_ptr: (buffer, out)"),
    "encode: operation first": (lambda r: r.call(ENCODE, r.operation, r.stream), "encode: (stream, operation)"),
    "encode: no operation": (lambda r: r.call(ENCODE, r.stream, 0), "encode: (stream, operation)"),
    "execute: an operation": (lambda r: r.call(EXECUTE, r.operation), "a live stream with an encoded operation"),
    # masks and other values
    **{
        f"mask {bits}": (lambda r, bits=bits: r.call(MASK, r.options, bits), f"{MASK}: a wrong value")
        for bits in (0, 1, 2, 3, 5, 6, 7, 8, 1 << 34)
    },
    "mask of the compiler": (lambda r: r.call(MASK, r.compiler, 4), f"{MASK}: the first argument is no live options"),
    "force 2": (lambda r: r.call(FORCE, r.options, 2), f"{FORCE}: a wrong value"),
    "force of a config": (lambda r: r.call(FORCE, r.config, 1), f"{FORCE}: the first argument is no live options"),
    "another segmenter": (lambda r: r.call(SEGMENTER, r.options, "tree"), f"{SEGMENTER}: a wrong value"),
    "no segmenter": (lambda r: r.call(SEGMENTER, r.options, 0), f"{SEGMENTER}: a wrong value"),
    "segmenter of a config": (lambda r: r.call(SEGMENTER, r.config, "graph"), "the first argument is no live options"),
    "no operation name": (
        lambda r: r.call(f"{OPTIONS}_set_operation_name", r.op_options, ""),
        "set_operation_name: a wrong value",
    ),
    "name of a function": (
        lambda r: r.call(f"{OPTIONS}_set_operation_name", r.function, "main"),
        "set_operation_name: the first argument is no live opoptions",
    ),
    "no intermediate buffers": (
        lambda r: r.call(f"{OPTIONS}_set_allocate_intermediate_buffers", r.op_options, 0),
        "set_allocate_intermediate_buffers: a wrong value",
    ),
    "buffers of a function": (
        lambda r: r.call(f"{OPTIONS}_set_allocate_intermediate_buffers", r.function, 1),
        "set_allocate_intermediate_buffers: the first argument is no live opoptions",
    ),
    "compile without a mask": (without(MASK), f"compile: without {MASK}"),
    "compile without a segmenter": (without(SEGMENTER), f"compile: without {SEGMENTER}"),
    "operation without a name": (half_of_op_options("set_allocate_intermediate_buffers", 1), "options without a name"),
    "operation without buffers": (half_of_op_options("set_operation_name", "main"), "without intermediate buffers"),
    # what must not be called at all
    "load_for_execution": (lambda r: r.call("program_function_load_for_execution", r.function), "no longer supported"),
    "prepare_op_for_encode": (
        lambda r: r.call("execution_stream_operation_prepare_op_for_encode", r.operation),
        "the next encode fails",
    ),
    # order
    "port after the encode": (
        lambda r: r.call(INPUT, LIFE["stream"](r) and r.operation, "x", []),
        "retain_input_port: the operation is encoded",
    ),
    "bind after the encode": (
        lambda r: (r.stream, r.call("io_port_bind_buffer_object", r.x, r.make("buffer_object_alloc", ..., 192, 0)))[1],
        "bind: the operation is gone, or encoded",
    ),
    "bind after the operation": (
        lambda r: (r.x, r.right(RELEASE["operation"], [r.operation]), r.call("io_port_bind_buffer_object", r.x, r.make("buffer_object_alloc", ..., 192, 0)))[2],
        "bind: the operation is gone, or encoded",
    ),
    "bind twice": (
        lambda r: (r.bx, r.call("io_port_bind_buffer_object", r.x, r.make("buffer_object_alloc", ..., 192, 0)))[1],
        "bind: twice",
    ),
    "one buffer for two ports": (
        lambda r: r.call("io_port_bind_buffer_object", r.y, r.bx),
        "bind: the buffer is another port's",
    ),
    "encode without a port": (
        lambda r: (r.bx, r.call(ENCODE, r.make("execution_stream_create", ...), r.operation))[1],
        "encode: port y is not bound",
    ),
    "encode with a buffer that is gone": (unbound_again, "encode: port x is not bound"),
    "encode twice": (lambda r: r.call(ENCODE, r.stream, r.operation), "encode: twice"),
    "encode on two streams": (
        lambda r: (r.stream, r.call(ENCODE, r.make("execution_stream_create", ...), r.operation))[1],
        "encode: twice",
    ),
    "two operations on a stream": (another_operation, "encode: twice"),
    "execute before the encode": (
        lambda r: r.call(EXECUTE, r.make("execution_stream_create", ...)),
        "a live stream with an encoded operation",
    ),
    # port sizes
    "bind: too small": (
        lambda r: r.call("io_port_bind_buffer_object", r.x, r.make("buffer_object_alloc", ..., 128, 0)),
        "bind: the buffer is too small",
    ),
    "written behind a buffer": (overrun, "something is written behind the buffer of x"),
    "written behind, seen at the end": (overrun_at_the_end, "something is written behind the buffer"),
    # ownership: the order of releases, and each once
    "library before its function": (
        lambda r: (r.function, r.call(RELEASE["library"], [r.library]))[1],
        "program_library_release: before its function",
    ),
    "function before its options": (
        lambda r: (r.op_options, r.call(RELEASE["function"], [r.function]))[1],
        "program_function_release: before its options",
    ),
    "op options before their operation": (
        lambda r: (r.operation, r.call(RELEASE["op_options"], [r.op_options]))[1],
        "op options released before their operation",
    ),
    "operation before its stream": (
        lambda r: (r.stream, r.call(RELEASE["operation"], [r.operation]))[1],
        "operation released before the stream",
    ),
    "buffer before its stream": (
        lambda r: (r.stream, r.call(RELEASE["bx"], [r.bx]))[1],
        "buffer released while an encoded operation uses it",
    ),
    **{
        f"released by value: {name}": (lambda r, name=name: r.call(RELEASE[name], getattr(r, name)), "not a live")
        for name in RELEASE
    },
    **{
        f"no handle to release: {name}": (lambda r, name=name: r.call(RELEASE[name], 0), "takes the address of the handle")
        for name in RELEASE
    },
    **{f"released twice: {name}": (released_twice(name), "(released twice?)") for name in RELEASE},
    **{
        f"released as another: {name}": (
            lambda r, name=name, other=other: r.call(RELEASE[other], [getattr(r, name)]),
            "not a live",
        )
        for name, other in zip(RELEASE, [*list(RELEASE)[1:], "config"], strict=True)
    },
}  # fmt: skip
