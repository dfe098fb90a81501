"""`aneforge export MODEL -o x.mlpackage`: the whole model as a Core ML package, or as text and weights."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import arguments
from .errors import MODEL, OK, UsageError

SCHEMA_VERSION = 1


def configure(parser: argparse.ArgumentParser) -> None:
    arguments.add_model(parser)
    parser.add_argument(
        "-o", "--output", required=True, metavar="OUT.mlpackage",
        help="a Core ML package; a name without an ending: a folder with model.mil and weights.bin",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="say what was written, or what was refused, as JSON")


def main(given: argparse.Namespace) -> int:
    """Writes; 1 when the model is not wholly within the target's reach (the nodes are listed)."""
    from ..errors import UnsupportedModelError
    from ..export import PACKAGE, export_onnx

    if Path(given.output).suffix not in ("", PACKAGE):
        raise UsageError(f"-o takes a name that ends in {PACKAGE}, or one without an ending; not {given.output!r}")
    chosen: dict[str, Any] = dict(arguments.options(given, compiles=False))
    shapes, dims = arguments.shapes(given), arguments.dims(given)
    try:
        made = export_onnx(given.model, given.output, input_shapes=shapes, dims=dims, **chosen)
    except UnsupportedModelError as error:
        if not given.json:
            raise
        refused = [{"name": n.name, "op": n.op, "domain": n.domain, "kind": n.reason.kind, "reason": n.reason.text}
                   for n in error.nodes]  # fmt: skip
        print(
            json.dumps(
                {"schema_version": SCHEMA_VERSION, "model": given.model, "path": None, "refused": refused}, indent=1
            )
        )
        return MODEL
    if given.json:
        told = {
            "schema_version": SCHEMA_VERSION,
            "model": given.model,
            **asdict(made),
            "path": str(made.path),
            "refused": [],
        }
        print(json.dumps(told, indent=1))
        return OK
    print(f"{made.path}: {made.n_ops} operations for {made.target}, {made.weight_bytes:,} bytes of weights")
    for what, ports in (("input", made.inputs), ("output", made.outputs)):
        for port in ports:
            shape = "x".join(map(str, port.shape)) or "scalar"
            renamed = "" if port.written == port.name else f" (of {port.name!r})"
            cast = "" if port.model_dtype == str_of(port.dtype) else f"; the model says {port.model_dtype}"
            print(f"  {what} {port.written}{renamed}  {port.dtype} {shape}{cast}")
    for name in made.idle:
        print(f"  input {name!r} is read by nothing, and is left out")
    return OK


def str_of(dtype: str) -> str:
    """MIL's word for an element type in numpy's."""
    return {"fp16": "float16", "fp32": "float32"}.get(dtype, dtype)
