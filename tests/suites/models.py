"""Real models with reference outputs, through the provider and strictly.

    python tests/suites/models.py FOLDER [--names …] [--json FILE]

FOLDER holds `load.py` (models with feeds and expected outputs) and the models. Every model that is present runs in a session
with the ANEForge provider and its answer is compared with the recorded one of ONNX Runtime's CPU provider:

* float outputs: cosine >= 0.999 and max|d|/max|ref| <= max(2 × the recorded figure of an fp16 conversion, 2e-3); a model that
  its record shows as unsafe in fp16 gets that record's own figures; quantized models the record's `tol`;
* integer outputs equal.

Models tagged `cnn` with float weights also load strictly where they can; how many do, and the share of multiply-adds on the
engine, are printed and held against the bars below. Exit status 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

import aneforge as af
import aneforge.provider

MIN_STRICT_CNNS = 16
MIN_MAC_SHARE = 0.95
MAX_REGIONS = 3


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


def compare(model: Any, got: list[np.ndarray], record: dict[str, Any]) -> tuple[str, float, float]:
    """Verdict, worst relative error, worst cosine over the outputs."""
    worst, cosine, verdict = 0.0, 1.0, ""
    fp16 = record.get("fp16") or {}
    quantized = bool({"int8", "qdq", "qoperator"} & set(record["tags"]))
    for (name, expected), value in zip(model.expected("noopt").items(), got, strict=True):
        value = np.asarray(value)
        if value.dtype == object or value.dtype.kind not in "fiub":
            continue
        sample = np.asarray(expected.sample)
        if value.shape != expected.shape:
            verdict = verdict or f"{name}: shape {value.shape}, expected {expected.shape}"
            continue
        mine = expected.take(value)
        if sample.dtype.kind != "f":
            if not np.array_equal(mine, sample.ravel()):
                verdict = verdict or f"{name}: integers differ"
            continue
        a, b = mine.astype(np.float64), sample.ravel().astype(np.float64)
        if not np.isfinite(a).all():
            verdict = verdict or f"{name}: not finite"
            worst, cosine = float("inf"), 0.0
            continue
        scale = float(abs(b).max()) or 1.0
        error = float(abs(a - b).max()) / scale
        norm = float(np.linalg.norm(a) * np.linalg.norm(b))
        c = float(a @ b) / norm if norm else float(np.array_equal(a, b))
        worst, cosine = max(worst, error), min(cosine, c)
        recorded = fp16.get("max_rel")
        bar = max(2 * recorded, 2e-3) if isinstance(recorded, (int, float)) else float(record.get("tol") or 2e-2)
        needed = min(0.999, fp16.get("min_cosine") or 0.999)
        if quantized:
            bar = max(float(record.get("tol") or 0), 2e-2)
        if error > bar and not (error < 2e-2 and c >= 0.9999 and recorded is None):
            verdict = verdict or f"{name}: max|d|/max|ref| {error:.2e} > {bar:.2e}"
        if c < needed:
            verdict = verdict or f"{name}: cosine {c:.5f} < {needed}"
    return verdict, worst, cosine


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
            "strict": "",
        }
        dims = ",".join(f"{k}={v}" for k, v in (record.get("dynamic_dims") or {}).items())
        start = time.perf_counter()
        try:
            s = session(model, {"dims": dims} if dims else {})
            got = s.run(None, model.feeds())
            report = aneforge.provider.report(s)
            placed = [(a.ep_name, len(a.get_nodes())) for a in s.get_provider_graph_assignment_info()]
            row |= {
                "nodes": sum(n for _, n in placed),
                "engine": sum(n for ep, n in placed if ep == "ANEForgeProvider"),
                "regions": sum(ep == "ANEForgeProvider" for ep, _ in placed),
                "mac_share": report.mac_share,
            }
            row["verdict"], row["error"], row["cosine"] = compare(model, got, record)
        except Exception as failure:  # every kind of failure is one line of the table
            row |= {
                "verdict": f"{type(failure).__name__}: {str(failure).splitlines()[0][:150]}",
                "error": float("nan"),
                "cosine": 0.0,
            }
        row["cnn"] = "cnn" in record["tags"] and not {"int8", "qdq", "qoperator"} & set(record["tags"])
        if row["cnn"]:
            try:
                net = af.load_onnx(str(model.path), dims=record.get("dynamic_dims") or None)
                outputs = net.run(model.feeds())
                verdict, error, _ = compare(model, [outputs[n] for n in model.expected("noopt")], record)
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
    print(f"{len(found) - len(wrong)} passed, {len(wrong)} failed")
    if args.names:
        return bool(wrong)
    return bool(wrong) or min(len(strict), len(covered)) < MIN_STRICT_CNNS or len(found) < MIN_STRICT_CNNS


if __name__ == "__main__":
    sys.exit(main())
