"""Imports a model and computes it with the numpy evaluator of MIL text: the importer apart from any backend."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import numpy_helper
from oracle.mil_reference import evaluate

from aneforge.errors import Refused, UnsupportedModelError
from aneforge.mil import write
from aneforge.onnx.importer import Imported, import_graph
from aneforge.onnx.view import from_model


def imported(model, **fixed) -> Imported:
    return import_graph(from_model(model, **fixed))


def compute(done: Imported, feeds: Mapping[str, np.ndarray], numerics: str = "fp32") -> dict[str, np.ndarray]:
    """The outputs of a model that imports wholly, by name, in their ONNX dtypes."""
    done.check()
    known = done.known_outputs()
    out = {name: np.asarray(value) for name, value in known.items()}
    if len(known) < len(set(done.view.outputs)):
        mil = write(done.program(), numerics)
        arrays = {port.mil: np.asarray(feeds[port.name]) for port in mil.inputs}
        made = evaluate(mil.text, bytes(mil.blob), arrays, "fp32" if numerics == "fp32" else "fp16")
        for port in mil.outputs:
            out[port.name] = made[port.mil].astype(done.dtypes[port.name])
    return {name: out[name] for name in done.view.outputs}


def bake(model: onnx.ModelProto, constants: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The model with some inputs turned into initializers."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    kept = [i for i in out.graph.input if i.name not in constants]
    del out.graph.input[:]
    out.graph.input.extend(kept)
    out.graph.initializer.extend(numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items())
    return out


def refusals(done: Imported) -> list[str]:
    """Reasons of the nodes that have no engine form: "kind: text"."""
    return [f"{n.reason.kind}: {n.reason.text}" for n in done.nodes if n.reason is not None]


def close(got: np.ndarray, want: np.ndarray, rtol: float, atol: float, steps: int = 0) -> str:
    """Empty when equal within rtol and atol (a fraction of the greatest finite value wanted), else what differs.

    Integers are equal, but for one in twenty that may be off by `steps`."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {got.shape}, wanted {want.shape}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, wanted {want.dtype}"
    if want.dtype.kind != "f" and want.dtype.name != "bfloat16":
        off = got != want
        if steps and off.mean() <= 0.05:
            off = np.abs(got.astype(np.int64) - want.astype(np.int64)) > steps
        return "" if not off.any() else f"{int((got != want).sum())} of {want.size} elements differ"
    g, w = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(w)
    scale = float(np.abs(w[finite]).max()) if finite.any() else 0.0
    with np.errstate(invalid="ignore"):
        good = np.where(
            finite, np.abs(g - w) <= rtol * np.abs(w) + atol * scale, (g == w) | (np.isnan(g) & np.isnan(w))
        )
    if good.all():
        return ""
    i = int(np.argmin(good))
    return f"{int((~good).sum())} of {w.size} off, first {g.flat[i]:.6g}, wanted {w.flat[i]:.6g}"


__all__ = ["Refused", "UnsupportedModelError", "bake", "close", "compute", "imported", "refusals"]
