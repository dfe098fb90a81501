"""Core ML packages of real models, judged by coremltools: every type inferred again, every blob written again.

    python tests/suites/packages.py FOLDER [--targets m1 m5]

FOLDER as for models.py. Each model that loads strictly is exported for each target; its text is read by the independent reader,
its package by the plain protobuf decoder and by coremltools' milproto loader, and its blob is compared with what
libmilstoragepython writes for the same records. Prints counts; exit status 1 when one of them disagrees.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import aneforge as af

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from oracle import mil_text, package_text
from suites.models import loader

logging.getLogger("coremltools").setLevel(logging.ERROR)
coremltools = importlib.import_module("coremltools")
milproto = importlib.import_module("coremltools.converters.mil.frontend.milproto.load").load
Writer = importlib.import_module("coremltools.libmilstoragepython")._BlobStorageWriter


def same_blob(path: Path, work: Path) -> bool:
    writer = Writer(str(work / "theirs.bin"))
    methods = {"fp16": writer.write_fp16_data, "fp32": writer.write_float_data, "int8": writer.write_int8_data,
               "uint8": writer.write_uint8_data, "int16": writer.write_int16_data, "uint16": writer.write_uint16_data,
               "int32": writer.write_int32_data, "uint32": writer.write_uint32_data}  # fmt: skip
    records = mil_text.read_records(path.read_bytes())
    if not records:
        return path.stat().st_size == 64
    for offset, (dtype, array) in records.items():
        if methods[dtype](array.view(np.uint16) if dtype == "fp16" else array) != offset:
            return False
    del writer, methods
    return path.read_bytes() == (work / "theirs.bin").read_bytes()


def judge(model: Any, target: str, work: Path) -> str:
    """Empty: all agree. Raises what export raises."""
    shapes = {name: array.shape for name, array in model.feeds().items()}
    for name in ("n.mlpackage", "n"):
        af.export_onnx(str(model.path), work / name, input_shapes=shapes, target=target)
    package = package_text.read(work / "n.mlpackage")
    text = mil_text.read((work / "n/model.mil").read_text(), (work / "n/weights.bin").read_bytes())
    ours = [(o.kind, [(d, s) for _, d, s in o.results]) for o in package.operations if o.kind != "const"]
    theirs = [(o.kind, [(t.dtype, t.shape) for _, t in o.results]) for o in text.operations]
    if ours != theirs:
        return "text and package differ"
    read = coremltools.models.MLModel(str(work / "n.mlpackage"), skip_model_load=True)
    milproto(read.get_spec(), specification_version=9, file_weights_dir=read.weights_dir)
    blob = work / "n.mlpackage/Data/com.apple.CoreML/weights/weight.bin"
    return "" if same_blob(blob, work) else "the blob differs from libmilstoragepython's"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--targets", nargs="+", default=["m1", "m5"])
    given = parser.parse_args()
    good = refused = bad = 0
    for model in loader(given.folder).models(available=True):
        for target in given.targets:
            with tempfile.TemporaryDirectory() as work:
                try:
                    wrong = judge(model, target, Path(work))
                except (af.UnsupportedModelError, af.DynamicShapeError) as why:
                    refused += 1
                    print(f"{model.name} {target}: refused: {str(why).splitlines()[0][:120]}")
                    continue
                except (AssertionError, ValueError) as error:
                    wrong = f"{type(error).__name__}: {error}"
            good, bad = good + (not wrong), bad + bool(wrong)
            print(f"{model.name} {target}: {wrong or 'agrees'}", flush=True)
    print(f"{good} packages agree, {bad} do not, {refused} models refused")
    return 1 if bad or not good else 0


if __name__ == "__main__":
    sys.exit(main())
