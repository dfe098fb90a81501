"""`aneforge run MODEL`: one run, in a session (or strictly), on given or seeded inputs."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from . import arguments
from .errors import OK, CheckError
from .feeds import HELP, finite, named
from .feeds import feeds as inputs_of

SCHEMA_VERSION = 1


def configure(parser: argparse.ArgumentParser) -> None:
    arguments.add_model(parser)
    parser.add_argument("--input", action="append", default=[], metavar="IN.npz", help=HELP)
    parser.add_argument("--output", metavar="OUT.npz", help="write the outputs by name")
    parser.add_argument("--json", action="store_true", help="say it as JSON")


def main(given: argparse.Namespace) -> int:
    """Runs the model once."""
    import numpy as np

    runner = _Strict(given) if given.strict else _Session(given)
    feeds = inputs_of(given.input, runner.inputs)
    start = time.perf_counter()
    outputs = runner.run(feeds)
    seconds = time.perf_counter() - start
    if given.output:
        _write(given.output, outputs)
    rows = [_row(name, np.asarray(value)) for name, value in outputs.items()]
    told = {
        "schema_version": SCHEMA_VERSION,
        "model": given.model,
        "input": named(given.input),
        "backend": runner.backend,
        "placement": runner.placement(),
        "milliseconds": {runner.clock: seconds * 1e3},
        "outputs": rows,
    }
    print(json.dumps(told, indent=1) if given.json else _text(told))
    bad = [row["name"] for row in rows if row["finite"] is False]
    if bad and all(finite(np.asarray(value)) for value in feeds.values()):
        raise CheckError(f"finite inputs gave infinities or NaN in {', '.join(map(repr, bad))}")
    return OK


class _Session:
    """In a session: engine regions, the rest on the CPU."""

    def __init__(self, given: argparse.Namespace) -> None:
        import aneforge.provider

        self.session = arguments.session(given)
        self.report = aneforge.provider.report(self.session)
        self.backend = self.report.backend
        self.inputs = [(i.name, i.type, list(i.shape)) for i in self.session.get_inputs()]
        fixed = {**arguments.dims(given)}
        shapes = arguments.shapes(given)
        self.inputs = [
            (name, kind, list(shapes.get(name, [fixed.get(d, d) for d in shape]))) for name, kind, shape in self.inputs
        ]
        on_cpu = len(self.report.on_cpu)
        self.clock = self.backend if not on_cpu else f"{self.backend} and CPU" if self.report.regions else "CPU"

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        names = [output.name for output in self.session.get_outputs()]
        return dict(zip(names, self.session.run(None, dict(feeds)), strict=True))

    def placement(self) -> dict[str, Any]:
        on_cpu = len(self.report.on_cpu)
        inside = len(self.report.nodes) - on_cpu
        regions = len(self.report.regions)
        return {self.backend: inside, "CPU": on_cpu, "regions": regions, "mac_share": self.report.mac_share}


class _Strict:
    """The whole model as one program."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.net = arguments.load(given)
        self.backend = self.clock = self.net.backend
        self.inputs = [(p.name, f"tensor({p.dtype})", list(p.shape)) for p in self.net.inputs]

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self.net.run(feeds))

    def placement(self) -> dict[str, Any]:
        return {"program operations": self.net.n_ops, "CPU": 0}


# ---------------------------------------------------------------- outputs


def _row(name: str, value: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name,
        "dtype": str(value.dtype),
        "shape": list(value.shape),
        "finite": finite(value),
    }
    if value.dtype.kind in "fiu" and value.size and row["finite"]:
        row |= {"min": float(value.min()), "max": float(value.max()), "mean": float(value.mean(dtype="float64"))}
    return row


def _write(path: str, outputs: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    import numpy as np

    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".outputs-", suffix=".npz")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **outputs)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _text(told: dict[str, Any]) -> str:
    places = ", ".join(f"{k} {v:.1%}" if k == "mac_share" else f"{k} {v}" for k, v in told["placement"].items())
    clock, milliseconds = next(iter(told["milliseconds"].items()))
    lines = [f"{told['model']}: {places}", f"one run, {clock}: {milliseconds:.2f} ms; input: {told['input']}"]
    for row in told["outputs"]:
        shape = "x".join(map(str, row["shape"])) or "scalar"
        lines.append(f"  {row['name']}  {row['dtype']} {shape}")
        if "min" in row:
            lines[-1] += f"  min {row['min']:.6g}  max {row['max']:.6g}  mean {row['mean']:.6g}"
        elif not row["finite"]:
            lines[-1] += "  holds infinities or NaN"
    return "\n".join(lines)
