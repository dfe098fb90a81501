"""What packed weights cost and save: bytes of the constants, and the error of the outputs against ONNX Runtime's CPU provider.

    python -m benchmarks.compression MODEL.onnx … [--target m4] [--atol 0.15]

A session on the host backend for each encoding; errors are relative L2 over all float outputs, the median of some runs on
seeded inputs.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

RUNS = 11
ENCODINGS = ("none", "int8", "int4", "sparse", "blockwise", "auto")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compression")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--target", default="m4")
    parser.add_argument("--atol", default="0.15")
    given = parser.parse_args()
    print("| model | compress | weights packed | constants, bytes | of fp16 | error of the outputs |")
    print("| --- | --- | --- | --- | --- | --- |")
    for path in given.models:
        for row in measure(path, given.target, given.atol):
            print(f"| {path.stem} | {' | '.join(row)} |")


def measure(path: Path, target: str, atol: str) -> list[list[str]]:
    import onnxruntime as ort

    import aneforge.provider
    from aneforge.cli.feeds import feeds as seeded

    aneforge.provider.register()
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    plain = ort.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    first = seeded([], [(i.name, i.type, list(i.shape)) for i in plain.get_inputs()])
    draws = [np.random.default_rng(seed) for seed in range(RUNS)]
    feeds = [
        {n: draw.random(v.shape).astype(v.dtype) if v.dtype.kind == "f" else v for n, v in first.items()}
        for draw in draws
    ]
    want = [plain.run(None, feed) for feed in feeds]
    rows = []
    for how in ENCODINGS:
        options = {"backend": "host", "target": target, "compress": how, "compress_atol": atol}
        made = ort.InferenceSession(
            str(path), settings, providers=[("ANEForgeProvider", options), "CPUExecutionProvider"]
        )
        error = statistics.median(_error(made.run(None, f), w) for f, w in zip(feeds, want, strict=True))
        regions = aneforge.provider.report(made).regions
        before, after = sum(r.weight_bytes_before for r in regions), sum(r.weight_bytes for r in regions)
        kinds = Counter(w.encoding for r in regions for w in r.weights)
        packed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "–"
        rows.append([f"`{how}`", packed, f"{after:,}", f"{after / max(1, before):.0%}", f"{error:.2%}"])
    return rows


def _error(got: list[Any], want: list[Any]) -> float:
    off = size = 0.0
    for a, b in zip(got, want, strict=True):
        if np.asarray(b).dtype.kind == "f":
            off += float(((np.asarray(a, np.float64) - b) ** 2).sum())
            size += float((np.asarray(b, np.float64) ** 2).sum())
    return float(np.sqrt(off / size)) if size else 0.0


if __name__ == "__main__":
    main()
