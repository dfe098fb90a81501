"""What became of one case on one road in one numerics: an `Outcome`."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime as ort
from oracle import cast_pairs

import aneforge as af
import aneforge.provider
from aneforge.errors import AneforgeError, DynamicShapeError, InternalError, ModelError, UnsupportedModelError

from .cases import Array, Case

ROADS = ("strict", "baked", "provider")
NUMERICS = ("fp32", "fp16", "engine")
Verdict = Literal["right", "lossy", "refused", "cpu", "invalid", "wrong", "bug"]

TOLERANCE = {"fp32": (1e-3, 1e-5), "fp16": (1e-2, 3e-3), "engine": (1e-2, 3e-3)}
"""numerics -> (relative, and absolute in shares of the greatest finite value wanted)."""

COARSE_DTYPES = {"float16": 1e-2, "bfloat16": 2e-2}
"""Relative tolerance of outputs that hold few digits themselves."""

COARSE = {"test_averagepool_2d_ceil_last_window_starts_on_pad": 2e-4}
"""Cases whose expected values are printed with few digits: the absolute share they are good for."""


@dataclass(frozen=True)
class Outcome:
    """right; lossy (right in fp32, here as wrong as fp16 makes it, by the same model in ONNX Runtime with every value rounded);
    refused (`why`: the kind and sentence); cpu (a session, nothing on the engine, right); invalid (ONNX Runtime's CPU
    provider does not pass the case itself); wrong and bug (neither may happen)."""

    verdict: Verdict
    why: str = ""
    nodes: int = 0
    """Nodes on the engine; of a session."""


def differs(got: Any, want: Any, rtol: float, atol: float, largest: float = np.inf) -> str:
    """Empty when equal within rtol and atol, else what differs. Sequences element by element. Beyond `largest` only the
    sign has to be right."""
    if isinstance(want, list) or want is None:
        if not isinstance(got, type(want)) or (want is not None and len(got) != len(want)):
            return f"{type(got).__name__}, wanted {type(want).__name__}"
        pairs = zip(got or [], want or [], strict=True)
        return next((t for g, w in pairs if (t := differs(g, w, rtol, atol, largest))), "")
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {got.shape}, wanted {want.shape}"
    if got.dtype != want.dtype and not {got.dtype.kind, want.dtype.kind} <= {"O", "U", "S", "T"}:
        return f"dtype {got.dtype}, wanted {want.dtype}"
    if want.dtype.kind not in "fc" and want.dtype.name != "bfloat16":
        return "" if np.array_equal(got, want) else f"{int((got != want).sum())} of {want.size} elements differ"
    g, w = got.astype(np.float64), want.astype(np.float64)
    beyond = np.isfinite(w) & (np.abs(w) > largest)
    g, w = np.where(beyond & (np.abs(g) >= 0.99 * largest), np.sign(g), g), np.where(beyond, np.sign(w), w)
    finite = np.isfinite(w)
    scale = float(np.abs(w[finite]).max()) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        near = np.abs(g - w) <= rtol * np.abs(w) + atol * scale
        good = np.where(finite, near, (g == w) | (np.isnan(g) & np.isnan(w)))
    if good.all():
        return ""
    i = int(np.argmin(good))
    return f"{int((~good).sum())} of {w.size} off, first {g.flat[i]:.6g}, wanted {w.flat[i]:.6g}"


LARGEST = {"fp32": float(np.finfo(np.float32).max), "fp16": 65504.0, "engine": 65504.0}


def compare(case: Case, got: Mapping[str, Any], k: int, numerics: str, largest: float = np.inf) -> str:
    """What is wrong with the outputs for data set `k`; empty: nothing."""
    rtol, atol = TOLERANCE[numerics]
    atol = max(atol, COARSE.get(case.name, 0.0))
    for name, want in case.expected(k).items():
        loose = max(rtol, case.rtol)
        if isinstance(want, np.ndarray):
            loose = max(loose, COARSE_DTYPES.get(want.dtype.name, 0.0))
        if text := differs(got[name], want, loose, atol, largest):
            return f"{name}: {text}"
    return ""


def strict(case: Case, numerics: str, target: str = "auto") -> Outcome:
    """The whole model by `load_onnx`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            net = af.load_onnx(case.model, numerics=numerics, target=target)
            for k in range(len(case.data)):
                feeds = case.feeds(k)
                got = net.run({port.name: feeds[port.name] for port in net.inputs})
                if text := compare(case, got, k, numerics):
                    return _lossy_or_wrong(case, k, got, text, numerics)
    except InternalError as e:
        return Outcome("bug", str(e))
    except UnsupportedModelError as e:
        reason = e.nodes[0].reason
        return Outcome("refused", f"{reason.kind}: {e.nodes[0].op}: {reason.text}")
    except DynamicShapeError:
        return Outcome("refused", "dynamic shape: an input's extent is not fixed")
    except ModelError as e:
        return Outcome("refused", f"not valid: {e}")
    except (AneforgeError, Exception) as e:
        return Outcome("bug", f"{type(e).__name__}: {e}")
    return Outcome("right")


def _lossy_or_wrong(case: Case, k: int, got: Mapping[str, Any], text: str, numerics: str) -> Outcome:
    """Whether fp16 itself costs the difference: all of it lies where the expected value is beyond its range, or the same
    model differs as much in ONNX Runtime with every value rounded to fp16."""
    if not compare(case, got, k, numerics, LARGEST[numerics]):
        return Outcome("lossy", text)
    if numerics == "fp32":
        return Outcome("wrong", text)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            onnx.save(case.model, path)
            rounded = cast_pairs.run(path, case.feeds(k))
    except Exception as e:
        return Outcome("wrong", f"{text}; no judge: {type(e).__name__}: {e}")
    rtol, atol = TOLERANCE[numerics]
    for name, want in rounded.items():
        if isinstance(want, np.ndarray) and want.dtype.kind == "f" and not np.isfinite(want).all():
            continue  # beyond fp16's range, or no number at all (Q11, Q12): what is left of it is not compared
        if differs(got[name], want, max(rtol, case.rtol), atol):
            return Outcome("wrong", text)
    return Outcome("lossy", text)


def _settings() -> ort.SessionOptions:
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = 1
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return settings


def _run(session: ort.InferenceSession, case: Case, k: int) -> dict[str, Any]:
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, case.feeds(k)), strict=True))


def provider(case: Case, numerics: str, target: str = "auto") -> Outcome:
    """A session with the provider, and ONNX Runtime's CPU provider for the rest."""
    content = case.model.SerializeToString()
    try:
        cpu = ort.InferenceSession(content, _settings(), providers=["CPUExecutionProvider"])
        for k in range(len(case.data)):
            if text := compare(case, _run(cpu, case, k), k, "fp32"):
                return Outcome("invalid", f"ONNX Runtime's CPU provider: {text}")
    except Exception as e:
        return Outcome("invalid", f"ONNX Runtime's CPU provider: {str(e).splitlines()[0][:160]}")
    try:
        options = {"numerics": numerics, "target": target}
        made = ort.InferenceSession(
            content,
            _settings(),
            providers=[("ANEForgeProvider", options), "CPUExecutionProvider"],
            enable_fallback=False,
        )
        report = aneforge.provider.report(made)
        bugs = [f"{n.op}: {n.reason}" for n in report.nodes if n.kind == "bug"]
        if bugs:
            return Outcome("bug", bugs[0])
        nodes = sum(n.region is not None for n in report.nodes)
        assigned = [group for group in made.get_provider_graph_assignment_info() if group.ep_name == "ANEForgeProvider"]
        if (told := (nodes, len(report.regions))) != (
            seen := (sum(len(g.get_nodes()) for g in assigned), len(assigned))
        ):
            return Outcome("bug", f"the report tells of {told} nodes and regions, ONNX Runtime of {seen}")
        for k in range(len(case.data)):
            got = _run(made, case, k)
            if text := compare(case, got, k, numerics if nodes else "fp32"):
                found = _lossy_or_wrong(case, k, got, text, numerics)
                return Outcome(found.verdict, found.why, nodes)
    except Exception as e:
        return Outcome("bug", f"{type(e).__name__}: {e}")
    return Outcome("right" if nodes else "cpu", "", nodes)


def outcomes(
    case: Case, roads: Iterator[str] | tuple[str, ...], numerics: tuple[str, ...], target: str = "auto"
) -> dict[tuple[str, str], Outcome]:
    """(road, numerics) -> outcome. A refusal is the same in all numerics, so it is asked for once."""
    from .cases import baked  # noqa: PLC0415 - reads the table of handlers

    out: dict[tuple[str, str], Outcome] = {}
    for road in roads:
        given = baked(case) if road == "baked" else case
        if road == "baked" and given is case and all(("strict", n) in out for n in numerics):
            out |= {("baked", n): out["strict", n] for n in numerics}
            continue
        for n in numerics:
            first = out.get((road, numerics[0]))
            if first is not None and first.verdict in ("refused", "invalid"):
                out[road, n] = first
            else:
                out[road, n] = (provider if road == "provider" else strict)(given, n, target)
    return out


__all__ = ["NUMERICS", "ROADS", "TOLERANCE", "Array", "Outcome", "compare", "differs", "outcomes", "provider", "strict"]
