"""The functions of the stand-in, called from Python, and a right life of a program as far as a test wants it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from standin import Standin

HEAD = 'program(1.3)\n[buildInfo = dict<string, string>({{"coremlc-version", "3520.5.1"}})]\n{\n'
MASK = "e5_compiler_options_set_compute_device_types_mask"
FORCE = "e5_compiler_options_set_force_recompilation"
SEGMENTER = "e5_compiler_options_set_segmenter"
CACHE = "e5_compiler_config_options_set_cache_bundle_location"
RETAIN = "program_library_retain_program_function"
OPTIONS = "precompiled_compute_op_create_options"
LOAD = "execution_stream_operation_create_precompiled_compute_operation_with_options"
INPUT = "execution_stream_operation_retain_input_port"
OUTPUT = "execution_stream_operation_retain_output_port"
ENCODE = "execution_stream_encode_operation"
EXECUTE = "execution_stream_execute_sync"


def mil(body: str, x: str = "tensor<fp16, [2, 33]>", outputs: str = "y") -> str:
    return f"{HEAD}    func main<ios18>({x} x) {{\n{body}\n    }} -> ({outputs});\n}}\n"


RELU = mil('tensor<fp16, [2, 33]> y = relu(x = x)[name = string("y")];')


class Runtime:
    """The functions by name, and a right life as far as a test wants it."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.control = Standin(path)
        self.functions = ctypes.CDLL(str(path))
        self.functions.e5rt_get_last_error_message.restype = ctypes.c_char_p
        self.folder = folder
        self.made: dict[str, int] = {}

    def call(self, name: str, *arguments: object) -> int:
        """A status. Integers are handles or numbers, text is text, a list takes what comes out."""
        given: list[object] = []
        places: list[tuple[list[int], ctypes.c_void_p]] = []
        for a in arguments:
            if isinstance(a, list):
                place = ctypes.c_void_p(a[0] if a else None)
                places.append((a, place))
                given.append(ctypes.byref(place))
            else:
                given.append(ctypes.c_char_p(os.fsencode(str(a))) if isinstance(a, (str, Path)) else ctypes.c_void_p(a))  # type: ignore[arg-type]
        function = getattr(self.functions, f"e5rt_{name}")
        function.restype = ctypes.c_int32
        status = int(function(*given))
        for result, place in places:
            result[:] = [place.value or 0]
        return status

    def make(self, name: str, *arguments: object) -> int:
        out: list[int] = []
        status = self.call(name, *[out if a is Ellipsis else a for a in arguments])
        assert status == 0, self.said()
        return out[0]

    def right(self, name: str, *arguments: object) -> None:
        assert self.call(name, *arguments) == 0, self.said()

    def said(self) -> str:
        return str(self.functions.e5rt_get_last_error_message().decode())

    def __getattr__(self, name: str) -> int:
        """A handle of the life, made with all that it needs: config, compiler, options, library, function, op_options,
        operation, x, y (ports), bx, by (buffers, bound), stream (encoded)."""
        if name not in LIFE:
            raise AttributeError(name)
        if name not in self.made:
            self.made[name] = LIFE[name](self)
        return self.made[name]

    def write(self, text: str = RELU, weights: bytes = b"") -> Path:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "model.mil").write_text(text)
        (self.folder / "weights.bin").write_bytes(weights)
        return self.folder / "model.mil"

    def compile(self, text: str) -> int:
        return self.call("e5_compiler_compile", self.compiler, self.write(text), self.options, [])

    def bound(self, port: int, size: int = 192) -> int:
        buffer = self.make("buffer_object_alloc", ..., size, 0)
        self.right("io_port_bind_buffer_object", port, buffer)
        return buffer


def _config(r: Runtime) -> int:
    config = r.make("e5_compiler_config_options_create", ...)
    r.right(CACHE, config, r.folder.parent)
    return config


def _options(r: Runtime) -> int:
    options = r.make("e5_compiler_options_create", ...)
    r.right(MASK, options, 4)
    r.right(FORCE, options, 1)
    r.right(SEGMENTER, options, "graph")
    return options


def _op_options(r: Runtime) -> int:
    options = r.make(f"{OPTIONS}_create_with_program_function", ..., r.function)
    r.right(f"{OPTIONS}_set_operation_name", options, "main")
    r.right(f"{OPTIONS}_set_allocate_intermediate_buffers", options, 1)
    return options


def _stream(r: Runtime) -> int:
    assert r.bx
    assert r.by
    stream = r.make("execution_stream_create", ...)
    r.right(ENCODE, stream, r.operation)
    return stream


LIFE: dict[str, Callable[[Runtime], int]] = {
    "config": _config,
    "compiler": lambda r: r.make("e5_compiler_create_with_config", ..., r.config),
    "options": _options,
    "library": lambda r: r.make("e5_compiler_compile", r.compiler, r.write(), r.options, ...),
    "function": lambda r: r.make(RETAIN, r.library, "main", ...),
    "op_options": _op_options,
    "operation": lambda r: r.make(LOAD, ..., r.op_options),
    "x": lambda r: r.make(INPUT, r.operation, "x", ...),
    "y": lambda r: r.make(OUTPUT, r.operation, "y", ...),
    "bx": lambda r: r.bound(r.x),
    "by": lambda r: r.bound(r.y),
    "stream": _stream,
}
RELEASE = {
    "config": "e5_compiler_config_options_release",
    "compiler": "e5_compiler_release",
    "options": "e5_compiler_options_release",
    "library": "program_library_release",
    "function": "program_function_release",
    "op_options": f"{OPTIONS}_release",
    "operation": "execution_stream_operation_release",
    "x": "io_port_release",
    "bx": "buffer_object_release",
    "stream": "execution_stream_release",
}
ORDER = (
    "stream",
    "operation",
    "bx",
    "by",
    "x",
    "y",
    "op_options",
    "function",
    "library",
    "options",
    "compiler",
    "config",
)
