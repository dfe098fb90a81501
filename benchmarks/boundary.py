"""Measures what the provider costs around the engine: a call of a region, and conversion at its ports.

    python -m benchmarks.boundary [--rounds 9] [--json FILE]

The engine's runtime is the tests' stand-in in the mode in which an execution does nothing at all, so that what is measured is
the provider's own: ONNX Runtime's tensors in and out, locks, conversion to the port buffers and back.

* A call: `run_with_iobinding` of a model that is one region, less the same of the same model as one fused node of a provider
  whose Compute asks for its outputs and returns (empty_provider.cc): ONNX Runtime's floor. Both in one process, in turn, one
  thread; the fastest round of each. The bar is 10 µs.
* Conversion (conversion.cc): a large tensor into the engine's buffer and out of it, against memcpy of as many bytes read and
  written, on one thread. The bar is half of memcpy's speed from 16 MiB on.

Needs a C++ compiler and the repository (native/, tests/). Exit status 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[1]
CALL, SPEED, LARGE = 10.0, 0.5, 16 << 20
SIZES = (1 << 10, 4 << 10, 16 << 10, 64 << 10)
FLAGS = ["-std=c++17", "-O3", "-fvisibility=hidden", "-ffp-contract=off", "-pthread", "-I", str(ROOT / "native")]
TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bool": TensorProto.BOOL,
    "int64": TensorProto.INT64,
}

NAMES = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(bool)": "bool", "tensor(int64)": "int64"}
KINDS = (  # of the input, of the output, and how many of each
    ("float32", "float32", 1),
    ("float16", "float16", 1),
    ("bool", "bool", 1),
    ("bool", "int64", 1),
    ("float32", "float32", 4),
)


def build(target: Path, *sources: str, shared: bool = False) -> Path:
    extra = ["-shared", "-fPIC"] if shared else []
    command = ["c++", *FLAGS, *extra, *(str(ROOT / s) for s in sources), "-o", str(target)]
    subprocess.run(command, check=True)
    return target


def one(given: str, got: str, size: int) -> onnx.ModelProto:
    """One input, one output; `size`: bytes of the larger port."""
    count = size // max(np.dtype(given).itemsize, np.dtype(got).itemsize)
    nodes = [helper.make_node("Not" if given == "bool" else "Relu", ["x0"], ["y0" if given == got else "v"])]
    if given != got:
        nodes.append(helper.make_node("Cast", ["v"], ["y0"], to=TYPES[got]))
    return model(nodes, [("x0", given)], [("y0", got)], count)


def four(given: str, size: int) -> onnx.ModelProto:
    """Four inputs, four outputs, all of `size` bytes."""
    nodes = [
        helper.make_node("Add", ["x0", "x1"], ["a"]),
        helper.make_node("Add", ["x2", "x3"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        *(helper.make_node(op, ["c"], [f"y{i}"]) for i, op in enumerate(("Relu", "Tanh", "Sigmoid", "Abs"))),
    ]
    ports = [(f"x{i}", given) for i in range(4)], [(f"y{i}", given) for i in range(4)]
    return model(nodes, *ports, size // np.dtype(given).itemsize)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], count: int) -> onnx.ModelProto:
    def infos(ports: list[Any]) -> list[Any]:
        return [helper.make_tensor_value_info(name, TYPES[kind], [4, count // 4]) for name, kind in ports]

    graph = helper.make_graph(nodes, "boundary", infos(inputs), infos(outputs))
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="benchmarks"
    )


class Session:
    def __init__(self, made: onnx.ModelProto, provider: str, options: dict[str, str]) -> None:
        import onnxruntime as ort

        settings = ort.SessionOptions()
        settings.intra_op_num_threads = 1
        settings.log_severity_level = 3
        settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        self.session = ort.InferenceSession(
            made.SerializeToString(), settings, providers=[(provider, options)], enable_fallback=False
        )
        placed = [(a.ep_name, len(a.get_nodes())) for a in self.session.get_provider_graph_assignment_info()]
        if placed != [(provider, len(made.graph.node))]:
            import aneforge.provider

            raise SystemExit(f"the model is not one region:\n{aneforge.provider.report(self.session)}")
        self.binding = self.session.io_binding()
        self.arrays = []
        for port in self.session.get_inputs():
            array = np.ones(port.shape, NAMES[port.type])
            self.arrays.append(array)
            self.binding.bind_cpu_input(port.name, array)
        for port in self.session.get_outputs():
            array = np.zeros(port.shape, NAMES[port.type])
            self.arrays.append(array)
            self.binding.bind_output(port.name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

    def call(self) -> None:
        self.session.run_with_iobinding(self.binding)


def fastest(calls: list[Callable[[], None]], rounds: int) -> list[float]:
    """Microseconds of a call, each the fastest of rounds in turn."""
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for which, call in enumerate(calls):
            for _ in range(50):
                call()
            start = time.perf_counter()
            for _ in range(500):
                call()
            best[which] = min(best[which], (time.perf_counter() - start) / 500 * 1e6)
    return best


def calls(folder: Path, rounds: int) -> list[dict[str, Any]]:
    sys.path.insert(0, str(ROOT / "tests"))
    from standin import Standin

    caches = folder / "caches"
    caches.mkdir()
    os.environ.update(Standin.environment(Standin.build(folder), caches))
    sources = ("benchmarks/empty_provider.cc", "native/ep/ort_api.cc", "native/ep/graph_reader.cc")
    empty = build(folder / "libempty.so", *sources, shared=True)
    import onnxruntime as ort

    import aneforge.provider

    ort.register_execution_provider_library("EmptyProvider", str(empty))
    options = {"backend": "e5rt", "compile_guard": "off", "cache_dir": str(caches)}
    control = Standin(folder / "libstandin.so")
    rows = []
    print("| ports of a region | bytes of each | call µs | floor µs | own µs |\n| --- | --- | --- | --- | --- |")
    for given, got, ports in KINDS:
        for size in SIZES:
            made = one(given, got, size) if ports == 1 else four(given, size)
            ours, floor = Session(made, aneforge.provider.NAME, options), Session(made, "EmptyProvider", {})
            ours.call()
            control.idle(True)
            a, b = fastest([ours.call, floor.call], rounds)
            control.idle(False)
            if control.misuse():
                raise SystemExit(control.misuse())
            row = {"ports": f"{ports} {given} -> {ports} {got}", "bytes": size, "us": a, "floor_us": b, "own_us": a - b}
            rows.append(row | {"over": a - b > CALL})
            mark = " **over**" if rows[-1]["over"] else ""
            print(f"| {row['ports']} | {size} | {a:.2f} | {b:.2f} | {a - b:.2f}{mark} |", flush=True)
    return rows


def conversions(folder: Path) -> list[dict[str, Any]]:
    sources = ("runtime/ports.cc", "runtime/port_blocks.cc", "core/tensor.cc", "core/thread_pool.cc")
    program = build(folder / "conversion", "benchmarks/conversion.cc", *(f"native/{s}" for s in sources))
    rows = []
    print("\n| conversion | MiB of the tensor | ms | memcpy ms | of memcpy's speed |\n| --- | --- | --- | --- | --- |")
    for line in subprocess.run([program, "1"], capture_output=True, text=True, check=True).stdout.splitlines():
        way, kind, size, took, plain = line.split()
        speed = float(plain) / float(took)
        row = {
            "way": way,
            "type": kind,
            "bytes": int(size),
            "us": float(took),
            "memcpy_us": float(plain),
            "speed": speed,
        }
        rows.append(row | {"under": int(size) >= LARGE and speed < SPEED})
        mark = " **under**" if rows[-1]["under"] else ""
        sizes = f"{int(size) >> 20} | {float(took) / 1e3:.3f} | {float(plain) / 1e3:.3f}"
        print(f"| {way} {kind} | {sizes} | {speed:.2f}{mark} |")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boundary")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="boundary-") as name:
        made = {"calls": calls(Path(name), given.rounds), "conversions": conversions(Path(name))}
    if given.json:
        given.json.write_text(json.dumps({"schema_version": 1, **made}, indent=1) + "\n")
    return 1 if any(r["over"] for r in made["calls"]) or any(r["under"] for r in made["conversions"]) else 0


if __name__ == "__main__":
    sys.exit(main())
