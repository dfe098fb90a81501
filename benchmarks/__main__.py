"""Measures the provider against ONNX Runtime's CPU provider.

    python -m benchmarks [--quick] [--threads 1 2] [--models resnet18 …] [--option key=value] [--json FILE]

Each runtime runs in a process of its own and is asked in turn (A B A B …), with a pause in which the other's idle threads stop
spinning; every figure is a median over rounds of the round's median, every ratio is formed round by round. Latency is
`session.run` as Python sees it. Creation is that of the first session of a process, imports included, from compiled modules, as
an installed package has them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from .models import MODELS

PAUSE = 0.3  # seconds: onnxruntime's pool goes on spinning for a while after a run
SCHEMA_VERSION = 1
PROVIDERS = ("ANEForgeProvider", "CPUExecutionProvider")


class Worker:
    def __init__(self, path: Path, provider: str, threads: int, options: dict[str, str], bytecode: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.worker", str(path), provider, str(threads), json.dumps(options)]
        own = ("OPENBLAS_", "PYTHONDONTWRITEBYTECODE")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(own)}
        environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=Path(__file__).parent.parent,
        )
        self.facts = self.read()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a benchmark process ended early with code {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, seconds: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"run {seconds}\n")
        self.process.stdin.flush()
        return self.read()

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait()


def compile_modules(folder: Path, options: dict[str, str]) -> None:
    """A process of each kind writes down the bytecode of what it imports."""
    path = folder / "first.onnx"
    path.write_bytes(MODELS["one_relu"]().SerializeToString())
    for provider, given in zip(PROVIDERS, (options, {}), strict=True):
        Worker(path, provider, 1, given, folder).close()


def measure(
    name: str, threads: int, rounds: int, seconds: float, options: dict[str, str], bytecode: Path
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        path.write_bytes(MODELS[name]().SerializeToString())
        workers = [
            Worker(path, provider, threads, given, bytecode)
            for provider, given in zip(PROVIDERS, (options, {}), strict=True)
        ]
        try:
            medians: list[list[float]] = [[], []]
            peaks = [0, 0]
            for _ in range(rounds):
                for which, worker in enumerate(workers):
                    time.sleep(PAUSE)
                    answer = worker.ask(seconds)
                    medians[which].append(statistics.median(answer["times_ms"]))
                    peaks[which] = answer["peak_bytes"]
        finally:
            for worker in workers:
                worker.close()
    ours, theirs = (worker.facts for worker in workers)
    ratios = sorted(a / b for a, b in zip(*medians, strict=True))
    a, b = np.asarray(ours.pop("output")), np.asarray(theirs.pop("output"))
    return {
        "model": name,
        "threads": threads,
        "backend": ours["backend"],
        "nodes": ours["nodes"],
        "nodes_on_provider": ours["on_provider"],
        "regions": ours["regions"],
        "latency_ms": statistics.median(medians[0]),
        "cpu_latency_ms": statistics.median(medians[1]),
        "latency_ratio": statistics.median(ratios),
        "latency_ratio_range": [ratios[0], ratios[-1]],
        "creation_ms": ours["created_ms"],
        "cpu_creation_ms": theirs["created_ms"],
        "peak_mb": peaks[0] / 2**20,
        "cpu_peak_mb": peaks[1] / 2**20,
        "cosine": float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b))),
    }


COLUMNS = (
    ("model", lambda r: r["model"]),
    ("threads", lambda r: r["threads"]),
    ("backend", lambda r: r["backend"]),
    ("nodes on it", lambda r: f"{r['nodes_on_provider']} of {r['nodes']}"),
    ("regions", lambda r: r["regions"]),
    ("latency ms", lambda r: f"{r['latency_ms']:.3f}"),
    ("CPU ms", lambda r: f"{r['cpu_latency_ms']:.3f}"),
    ("ratio (range)", lambda r: "**{:.2f}** ({:.2f}–{:.2f})".format(r["latency_ratio"], *r["latency_ratio_range"])),
    ("creation ms (CPU)", lambda r: f"{r['creation_ms']:.0f} ({r['cpu_creation_ms']:.0f})"),
    ("peak MB (CPU)", lambda r: f"{r['peak_mb']:.0f} ({r['cpu_peak_mb']:.0f})"),
    ("cosine", lambda r: f"{r['cosine']:.6f}"),
)


def table(rows: list[dict[str, Any]]) -> str:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    head = [line([name for name, _ in COLUMNS]), line(["---"] * len(COLUMNS))]
    return "\n".join(head + [line([str(cell(row)) for _, cell in COLUMNS]) for row in rows])


def machine() -> dict[str, str]:
    import onnxruntime

    import aneforge

    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        model = next(
            (
                line.split(":", 1)[1].strip()
                for line in cpuinfo.read_text().splitlines()
                if line.startswith("model name")
            ),
            "",
        )
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": f"{model or platform.processor()} × {os.cpu_count()}",
        "python": platform.python_version(),
        "onnxruntime": onnxruntime.__version__,
        "aneforge": aneforge.__version__,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: under a minute")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="an option of the provider")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here, too")
    args = parser.parse_args()
    rounds, seconds = (3, 0.5) if args.quick else (9, 1.0)
    options = dict(option.split("=", 1) for option in args.option)
    facts = machine()
    print("; ".join(f"{k} {v}" for k, v in facts.items()), flush=True)
    rows = []
    with tempfile.TemporaryDirectory(prefix="bytecode-") as bytecode:
        compile_modules(Path(bytecode), options)
        for threads in args.threads:
            for name in args.models:
                try:
                    rows.append(measure(name, threads, rounds, seconds, options, Path(bytecode)))
                except ModuleNotFoundError as missing:
                    print(f"{name}: not measured: {missing}", file=sys.stderr)
                    continue
                print(table(rows).splitlines()[-1] if len(rows) > 1 else table(rows), flush=True)
    if args.json:
        document = {"schema_version": SCHEMA_VERSION, "machine": facts, "options": options, "results": rows}
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
