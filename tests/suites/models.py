"""Real models with reference outputs, through the provider and strictly.

    python tests/suites/models.py FOLDER [--names …] [--json FILE]

FOLDER holds `load.py` (models with feeds and expected outputs) and the models. Every model that is present runs in a session
with the ANEForge provider and its answer is compared with the recorded one of ONNX Runtime's CPU provider:

* float outputs: cosine >= 0.999, and max|d|/max|ref| within twice the recorded figure of an fp16 conversion (at least 2e-3)
  or within twice what ONNX Runtime's own kernels give with every value rounded to fp16 (tests/oracle/cast_pairs.py);
  a model that its record shows as unsafe in fp16 gets the cosine of that record; quantized models the record's `tol`;
* integer outputs equal.

Models tagged `cnn` with float weights also load strictly where they can; how many do, and the share of multiply-adds on the
engine, are printed and held against the bars below. Exit status 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

import aneforge as af
import aneforge.provider

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from oracle import cast_pairs

MIN_COSINE = 0.999
MIN_STRICT_CNNS = 16
MIN_MAC_SHARE = 0.95
MAX_REGIONS = 3
MIN_FLOAT_SHARE = 0.90
QUANTIZED = {"int8", "qdq", "qoperator"}


def loader(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("reference_models", folder / "load.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def session(model: Any, options: dict[str, str]) -> ort.InferenceSession:
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return ort.InferenceSession(
        str(model.path), settings, providers=[("ANEForgeProvider", options)], enable_fallback=False
    )


def shape_options(path: Path, feeds: dict[str, np.ndarray]) -> dict[str, str]:
    """The provider's options `dims`, the extents that the feeds give to the graph's named dimensions, and `input_shapes`,
    for inputs with dimensions that have no name."""
    fixed, nameless = {}, {}
    for value in onnx.load(str(path), load_external_data=False).graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param and value.name in feeds and re.fullmatch(r"[^,;=]*\w[^,;=]*", dim.dim_param):
                fixed[dim.dim_param] = feeds[value.name].shape[axis]
            elif dim.dim_value <= 0 and value.name in feeds:
                nameless[value.name] = "x".join(map(str, feeds[value.name].shape))
    named = {"dims": ",".join(f"{k}={v}" for k, v in fixed.items())} if fixed else {}
    shaped = {"input_shapes": ";".join(f"{k}={v}" for k, v in nameless.items())} if nameless else {}
    return {**named, **shaped}


def difference(expected: Any, value: np.ndarray) -> tuple[float, float]:
    """max|d|/max|ref| and cosine of one float output against its recorded sample."""
    mine, sample = expected.take(value).astype(np.float64), np.asarray(expected.sample).ravel().astype(np.float64)
    if not np.isfinite(mine).all():
        return float("inf"), 0.0
    norm = float(np.linalg.norm(mine) * np.linalg.norm(sample))
    cosine = float(mine @ sample) / norm if norm else float(np.array_equal(mine, sample))
    return float(abs(mine - sample).max()) / (float(abs(sample).max()) or 1.0), cosine


def compare(model: Any, got: list[Any], feeds: dict[str, np.ndarray]) -> tuple[str, float, float]:
    """What is wrong (empty: nothing), worst relative error and worst cosine over the outputs."""
    record = model.rec
    fp16 = record.get("fp16") or {}
    quantized = bool(QUANTIZED & set(record["tags"]))
    recorded = fp16.get("max_rel")  # a number, or "not finite": such a model is right only where it stays on the CPU
    recorded = recorded if isinstance(recorded, float) else None
    needed = min(MIN_COSINE, float(fp16.get("min_cosine") or 1.0))
    bar = 2e-2 if recorded is None else max(2 * float(recorded), 2e-3)
    if quantized:
        bar = max(float(record.get("tol") or 0), 2e-2)
    rounded: dict[str, Any] | None = None
    worst, lowest = 0.0, 1.0
    for (name, expected), value in zip(model.expected("noopt").items(), map(np.asarray, got), strict=True):
        if value.dtype.kind not in "fiub":
            continue
        if value.shape != expected.shape:
            return f"{name}: shape {value.shape}, expected {expected.shape}", float("inf"), 0.0
        if value.dtype.kind != "f":
            if not np.array_equal(expected.take(value), np.asarray(expected.sample).ravel()):
                return f"{name}: integers differ", float("inf"), 0.0
            continue
        error, cosine = difference(expected, value)
        worst, lowest = max(worst, error), min(lowest, cosine)
        if cosine < needed:
            return f"{name}: cosine {cosine:.5f}", error, cosine
        if error > bar and not quantized:
            # Is it us, or fp16? The same model, rounded at every node, by ONNX Runtime's own kernels.
            rounded = cast_pairs.run(Path(model.path), feeds) if rounded is None else rounded
            inherent, _ = difference(expected, np.asarray(rounded[name]))
            if error > 2 * inherent:
                return (
                    f"{name}: max|d|/max|ref| {error:.2e} > {bar:.2e}; fp16 at every node costs {inherent:.2e}",
                    error,
                    cosine,
                )
        elif error > bar:
            return f"{name}: max|d|/max|ref| {error:.2e} > {bar:.2e}", error, cosine
    return "", worst, lowest


def group(tags: set[str]) -> str:
    """How the multiply-adds of a model are counted: "float" ones together; the rest apart."""
    if tags & QUANTIZED or tags & {"ml", "int8-weights"}:
        return "quantized or not of ai.onnx"
    return "control flow or stateful audio" if "control-flow" in tags or {"audio", "stateful"} <= tags else "float"


def rows(folder: Path, names: list[str]) -> Iterator[dict[str, Any]]:
    load = loader(folder)
    for model in load.models(available=True):
        if names and model.name not in names:
            continue
        record = model.rec
        row: dict[str, Any] = {
            "model": model.name,
            "nodes": 0,
            "engine": 0,
            "regions": 0,
            "mac_share": 0.0,
            "macs": int(record.get("macs") or 0),
            "engine_macs": 0,
            "group": group(set(record["tags"])),
            "strict": "",
        }
        start = time.perf_counter()
        try:
            feeds = model.feeds()
            s = session(model, shape_options(model.path, feeds))
            got = s.run(None, feeds)
            report = aneforge.provider.report(s)
            placed = [(a.ep_name, len(a.get_nodes())) for a in s.get_provider_graph_assignment_info()]
            row |= {
                "nodes": sum(n for _, n in placed),
                "engine": sum(n for ep, n in placed if ep == "ANEForgeProvider"),
                "regions": sum(ep == "ANEForgeProvider" for ep, _ in placed),
                "mac_share": report.mac_share,
                "engine_macs": min(sum(region.macs for region in report.regions), int(record.get("macs") or 0)),
            }
            row["verdict"], row["error"], row["cosine"] = compare(model, got, feeds)
        except Exception as failure:  # every kind of failure is one line of the table
            row |= {
                "verdict": f"{type(failure).__name__}: {str(failure).splitlines()[0][:150]}",
                "error": float("nan"),
                "cosine": 0.0,
            }
        row["cnn"] = "cnn" in record["tags"] and not QUANTIZED & set(record["tags"])
        if row["cnn"]:
            try:
                net = af.load_onnx(str(model.path), input_shapes={name: value.shape for name, value in feeds.items()})
                outputs = net.run(feeds)
                verdict, error, _ = compare(model, [outputs[n] for n in model.expected("noopt")], feeds)
                row["strict"] = f"WRONG {verdict}" if verdict else f"right ({error:.1e})"
            except (NotImplementedError, ValueError) as refusal:
                row["strict"] = f"refused: {str(refusal).splitlines()[0][:110]}"
        row["seconds"] = time.perf_counter() - start
        yield row


def main() -> int:
    parser = argparse.ArgumentParser(description="Real models through the provider and strictly.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", nargs="+", default=[])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = []
    for row in rows(args.folder, args.names):
        found.append(row)
        print(
            f"{row['model']:<26} {row['engine']:>4}/{row['nodes']:<4} nodes in {row['regions']:>2} regions, {row['mac_share']:6.1%} of MACs;"
            f" rel {row['error']:.1e} cos {row['cosine']:.5f}; {row['verdict'] or 'right'}"
            + (f"; strict {row['strict']}" if row["cnn"] else "") + f"  [{row['seconds']:.1f} s]",
            flush=True,
        )  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps({"schema_version": 1, "models": found}, indent=1) + "\n")
    wrong = [r["model"] for r in found if r["verdict"] or r["strict"].startswith("WRONG")]
    strict = [r["model"] for r in found if r["strict"].startswith("right")]
    covered = [
        r["model"] for r in found if r["cnn"] and r["mac_share"] >= MIN_MAC_SHARE and r["regions"] <= MAX_REGIONS
    ]
    print(f"\n{len(found)} models run; wrong: {len(wrong)} {wrong}")
    print(
        f"float CNNs that load strictly: {len(strict)}; with >= {MIN_MAC_SHARE:.0%} of MACs in <= {MAX_REGIONS} regions: {len(covered)}"
    )
    shares = {}
    for name in ("float", "control flow or stateful audio", "quantized or not of ai.onnx"):
        inside, total = (sum(r[key] for r in found if r["group"] == name) for key in ("engine_macs", "macs"))
        shares[name] = inside / total if total else 1.0
        print(
            f"multiply-adds on the engine, {name}: {inside / 1e6:.1f} of {total / 1e6:.1f} million, {shares[name]:.1%}"
        )
    print(f"{len(found) - len(wrong)} passed, {len(wrong)} failed")
    if args.names:
        return bool(wrong)
    few = min(len(strict), len(covered)) < MIN_STRICT_CNNS or len(found) < MIN_STRICT_CNNS
    return bool(wrong) or few or shares["float"] < MIN_FLOAT_SHARE


if __name__ == "__main__":
    sys.exit(main())
