"""Measures how a program of 100 MB of weights is written down: seconds, and memory beyond what was there.

    python -m benchmarks.writing [--megabytes 100] [--rounds 5] [--json FILE]

Three models, each in a process of its own: few large weights, many small ones, and fp16 weights (which are copied, not
converted). "text" is `write` (text and blob in memory); "files" adds the folder that the engine's compiler reads, "package"
the Core ML package. Memory is the highest resident size during the call less that before it, in sizes of the written weights.
The bars are 0.5 s (fastest round: the others say more of who else is busy) and 1.2 for "text"; exit status 1 when one is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

SECONDS, SIZES = 0.5, 1.2
SHAPES = {"large": (2048, 2048), "small": (32, 32, 3, 3), "fp16": (2048, 2048)}


class Peak:
    """The highest resident size while it is entered, in bytes (Linux: VmRSS, read every millisecond)."""

    def __enter__(self) -> Peak:
        gc.collect()
        self.before = self.highest = resident()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self) -> None:
        while not self.over.wait(0.001):
            self.highest = max(self.highest, resident())

    def __exit__(self, *_: object) -> None:
        self.highest = max(self.highest, resident())
        self.over.set()
        self.thread.join()

    @property
    def extra(self) -> int:
        return self.highest - self.before


def resident() -> int:
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * 4096
    command = ["ps", "-o", "rss=", "-p", str(os.getpid())]
    return int(subprocess.run(command, capture_output=True, check=True).stdout) * 1024


def program(kind: str, megabytes: float) -> Any:
    """A chain of multiplications or convolutions whose written weights take that much."""
    from aneforge import ops
    from aneforge.ir import Program, input

    shape = SHAPES[kind]
    count = max(1, round(megabytes * 1e6 / (2 * np.prod(shape))))
    rng = np.random.default_rng(0)
    x = y = input("x", (1, 32, 8, 8) if len(shape) == 4 else (1, shape[1]))
    for _ in range(count):
        weight = rng.standard_normal(shape, np.float32)
        if kind == "fp16":
            weight = weight.astype(np.float16)
        y = ops.conv(y, weight, pad=(1, 1, 1, 1)) if len(shape) == 4 else ops.matmul(y, weight, transpose_y=True)
    return Program([("x", x)], [("y", y)])


def measure(kind: str, megabytes: float, rounds: int) -> dict[str, Any]:
    from aneforge.mil import save_package, save_text, write

    write(program(kind, 1))  # what is imported and made once
    made = program(kind, megabytes)
    rows: dict[str, Any] = {"model": kind}
    for what in ("text", "files", "package"):
        times, extra = [], 0
        for number in range(rounds):
            with tempfile.TemporaryDirectory(prefix=".writing-", dir=".") as folder, Peak() as peak:
                start = time.perf_counter()
                mil = write(made)
                if what == "files":
                    save_text(mil, f"{folder}/net")
                elif what == "package":
                    save_package(mil, f"{folder}/net.mlpackage")
                times.append(time.perf_counter() - start)
                rows["weights_mb"] = mil.blob.nbytes / 1e6
                size = mil.blob.nbytes
                del mil
            extra = max(extra, peak.extra) if number else peak.extra
        rows[what] = {"seconds": statistics.median(times), "fastest": min(times), "sizes": extra / size}
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.writing")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--one", choices=list(SHAPES), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.megabytes, given.rounds)))
        return 0
    results, missed = [], False
    for kind in SHAPES:
        command = [sys.executable, "-m", "benchmarks.writing", "--one", kind]
        command += ["--megabytes", str(given.megabytes), "--rounds", str(given.rounds)]
        row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        results.append(row)
        for what in ("text", "files", "package"):
            figures = row[what]
            over = what == "text" and (figures["fastest"] > SECONDS * given.megabytes / 100 or figures["sizes"] > SIZES)
            missed |= over
            print(
                f"{kind:6} {row['weights_mb']:6.1f} MB  {what:8} {figures['seconds']:.3f} s (fastest {figures['fastest']:.3f}), "
                f"{figures['sizes']:.2f} x the weights in memory{'   OVER' if over else ''}",
                flush=True,
            )
    if given.json:
        given.json.write_text(json.dumps({"schema_version": 1, "results": results}, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
