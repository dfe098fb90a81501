"""Runs the self-check over every backend that is here, and writes down what came out: plain data, ready for JSON.

The judge of an operation is the host backend in fp32, which has neither the engine's arithmetic nor its quirks. A compile
that fails costs the engine's compiler some seconds (Q34), so what is not claimed to compile is tried only when asked for.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import backends, engine_time, mil, passes
from ..backends import ANE, Executable
from ..errors import AneforgeError, BackendUnavailableError, CompileError
from ..ir import Program
from ..options import Options
from ..targets import Target, here, resolve
from .probes import edges, models, probes
from .programs import vocabulary
from .symbols import symbols

SCHEMA_VERSION = 1
PASS, WRONG, REFUSED = "pass", "wrong", "refused"
UNJUDGED = "unjudged"
"""It compiles and runs, and nothing here computes the same to compare it with."""
ENGINE = "e5rt"  # the one backend that computes on the engine or not at all; Core ML may take the CPU
_BACKENDS = ("host", ENGINE, "coreml")
_TOLERANCE = 0.02  # of the largest value: fp16, and tables of up to a hundredth (Q25)
_RUNS = 20

Say = Callable[[str], None]


def backends_here() -> dict[str, str]:
    """Backend -> "" where it is present, else why not."""
    found = {}
    for name in _BACKENDS:
        try:
            backends.choose(Options(backend=name))
            found[name] = ""
        except BackendUnavailableError as error:
            found[name] = str(error)
    return found


def examine(target: str = "auto", *, every: bool = False, say: Say = lambda line: None) -> dict[str, Any]:
    """The report of this machine. It names no user, no folder and no file.

    Args:
        target: the engine whose limits, vocabulary and quirks are claimed; by default that of this machine.
        every: also try operations that are not claimed to compile.
        say: is given a line for each part that is done.
    """
    engine = resolve(target)
    chip = here()
    present = backends_here()
    report: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "machine": {
            "chip": chip.name,
            "target": engine.name,
            "family": engine.family,
            "has_engine": chip.has_engine,
            "rosetta": chip.rosetta,
            "virtual": chip.virtual,
            "note": chip.note,
            "system": platform.system(),
            "os": platform.mac_ver()[0] or platform.release().split("-")[0],
            "arch": platform.machine(),
        },
        "versions": {name: _version(name) for name in ("onnxruntime-ep-aneforge", "numpy", "onnx", "onnxruntime")},
        "python": platform.python_version(),
        "runtime": symbols(),
        "absent": {name: why for name, why in present.items() if why},
        "backends": {},
    }
    for name in (n for n, why in present.items() if not why):
        say(f"{name}:")
        report["backends"][name] = _examine(name, engine, every, say)
    return report


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


def _examine(name: str, target: Target, every: bool, say: Say) -> dict[str, Any]:
    options = Options(backend=name, target=target.name)
    start = time.perf_counter()
    result: dict[str, Any] = {"word": backends.word(options)}
    asked = {k: p for k, p in vocabulary().items() if every or target.supports(k) is None}
    result["vocabulary"] = {}
    for kind, program in asked.items():
        if result["word"] == ANE:
            say(f"    {kind}")  # before it is tried: a private compiler may take the process with it
        result["vocabulary"][kind] = _operation(program, options, target)
    say(f"  vocabulary: {_counted(result['vocabulary'])}")
    result["quirks"] = {probe.row: _quirk(probe, options, target) for probe in probes()}
    seen = [row for row, found in result["quirks"].items() if found["seen"]]
    say(f"  quirks seen: {', '.join(seen) or 'none'}")
    result["limits"] = {}
    if name == ENGINE:  # no other backend has limits
        for edge in edges(target.limits):
            tried = {n: _operation(edge.build(n), options, target)["result"] for n in edge.extents}
            result["limits"][edge.limit] = {str(n): outcome for n, outcome in tried.items()}
            say(f"  {edge.limit}: {', '.join(f'{n} {outcome}' for n, outcome in tried.items())}")
    result["models"] = {model: _model(program, options, target) for model, program in models().items()}
    for model, row in result["models"].items():
        say(
            f"  {model}: {row['result']}, {row.get('ms', 0):.3f} ms (the estimate for an engine: {row['estimate_ms']:.3f} ms)"
        )
    result["seconds"] = round(time.perf_counter() - start, 2)
    return result


def _counted(rows: dict[str, Any]) -> str:
    outcomes = [row["result"] for row in rows.values()]
    return ", ".join(
        f"{outcomes.count(word)} {word}"
        for word in (PASS, WRONG, REFUSED, UNJUDGED)
        if word != UNJUDGED or word in outcomes
    )


def _compiled(program: Program, options: Options, target: Target) -> Executable:
    return backends.compile(mil.write(program, options.numerics), options, target)


def _feeds(executable: Executable) -> list[NDArray[Any]]:
    draw = np.random.default_rng(7)
    return [
        draw.integers(0, 100, port.type.shape).astype(np.uint8)
        if port.type.dtype == "uint8"
        else (draw.random(port.type.shape) + 0.25).astype(np.float16).astype(np.float32)
        for port in executable.inputs
    ]


def _operation(program: Program, options: Options, target: Target) -> dict[str, Any]:
    start = time.perf_counter()
    try:
        executable = _compiled(program, options, target)
    except AneforgeError as error:
        return {"result": REFUSED, "detail": _one_line(error)}
    compiled = time.perf_counter()
    try:
        got = executable.run(_feeds(executable))
        ran = time.perf_counter()
    except (AneforgeError, RuntimeError, ValueError) as error:
        return {"result": REFUSED, "detail": _one_line(error)}
    finally:
        executable.release()
    row: dict[str, Any] = {"compile_ms": _ms(compiled - start), "run_ms": _ms(ran - compiled)}
    try:
        worst = _distance(program, got, target)
    except CompileError as error:  # the host has no kernel for what no lowering leaves
        return {"result": UNJUDGED, "detail": _one_line(error), **row}
    return {"result": PASS if worst <= _TOLERANCE else WRONG, "error": round(min(worst, 1e9), 6), **row}


def _distance(program: Program, got: list[NDArray[Any]], target: Target) -> float:
    """Largest difference to the host backend in fp32, relative to the largest value."""
    judge = _compiled(program, Options(backend="host", numerics="fp32", target=target.name), target)
    right = judge.run(_feeds(judge))
    worst = 0.0
    for ours, theirs in zip(got, right, strict=True):
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        if a.shape != b.shape or not np.isfinite(a).all():
            return float("inf")
        worst = max(worst, float(np.abs(a - b).max() / max(1e-3, np.abs(b).max())))
    return worst


def _quirk(probe: Any, options: Options, target: Target) -> dict[str, Any]:
    try:
        executable = _compiled(probe.program(), options, target)
        got = executable.run([a.astype(np.float32) for a in probe.arrays])[0].astype(np.float64)
        executable.release()
    except (AneforgeError, RuntimeError) as error:
        return {"seen": None, "detail": _one_line(error)}
    few = [float(v) if np.isfinite(v) else str(v) for v in got.ravel()[:6]]
    return {"seen": probe.shown(got), "values": few}


def _model(program: Program, options: Options, target: Target) -> dict[str, Any]:
    lowered = passes.legalize(passes.optimize(program)[0], target)
    row: dict[str, Any] = {"estimate_ms": round(engine_time.microseconds(lowered, target) / 1000, 4)}
    try:
        start = time.perf_counter()
        executable = _compiled(lowered, options, target)
        row["compile_ms"] = _ms(time.perf_counter() - start)
        feeds = _feeds(executable)
        times = []
        for _ in range(_RUNS):
            start = time.perf_counter()
            got = executable.run(feeds)
            times.append(time.perf_counter() - start)
        executable.release()
    except (AneforgeError, RuntimeError) as error:
        return {**row, "result": REFUSED, "detail": _one_line(error)}
    worst = _distance(lowered, got, target)
    row.update(ms=_ms(statistics.median(times)), least_ms=_ms(min(times)), error=round(min(worst, 1e9), 6))
    return {"result": PASS if worst <= _TOLERANCE else WRONG, **row}


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 4)


def _one_line(error: Exception) -> str:
    """The text of an error without folders: a report names nobody's."""
    words = " ".join(str(error).split())
    return " ".join("…" if "/" in word and len(word) > 1 else word for word in words.split(" "))[:300]
