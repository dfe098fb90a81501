"""One row for each form of each operator: what the model holds, judged by ONNX Runtime's CPU provider.

A row is (operator, opset, inputs, attributes). An input is a shape (computed at run time, normal numbers), an array
(computed at run time, as given), `c(...)` (a constant), or None (absent).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto


@dataclass(frozen=True)
class Const:
    value: np.ndarray


@dataclass(frozen=True)
class Row:
    op: str
    opset: int
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    domain: str = ""
    fp32: tuple[float, float] = (1e-4, 1e-5)  # relative, and absolute in shares of the greatest value
    fp16: tuple[float, float] = (6e-3, 3e-3)
    kind: int = TensorProto.FLOAT  # of results that onnx does not infer
    steps: int = 0  # by how much a few codes may differ in fp16, where the middle between two of them is near

    def __str__(self) -> str:
        shown = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        forms = "x".join(_form(i) for i in self.inputs)
        return f"{self.op}-{self.opset}({forms};{shown})".replace(" ", "")


def _form(given: Any) -> str:
    if given is None:
        return "_"
    if isinstance(given, Const):
        return "c" + "".join(f"{d}." for d in given.value.shape)
    return "".join(f"{d}." for d in (given.shape if isinstance(given, np.ndarray) else given))


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.RandomState(seed).standard_normal(shape) * scale).astype(np.float32)


def c(value: Any, dtype: Any = None) -> Const:
    """A constant; ints become int64, floats float32."""
    array = np.asarray(value)
    if dtype is None:
        dtype = {"i": np.int64, "f": np.float32, "b": np.bool_}[array.dtype.kind]
    return Const(array.astype(dtype))


def w(*shape: int, seed: int = 1, scale: float = 0.4) -> Const:
    """A constant of normal numbers."""
    return Const(normal(*shape, seed=seed, scale=scale))


def rows() -> Iterator[Row]:
    """All rows whose opset the installed onnx knows."""
    import onnx_rows_elementwise as elementwise  # noqa: PLC0415 - these need the words of this file
    import onnx_rows_images as images  # noqa: PLC0415
    import onnx_rows_indexing as indexing  # noqa: PLC0415
    import onnx_rows_integers as integers  # noqa: PLC0415
    import onnx_rows_layout as layout  # noqa: PLC0415
    import onnx_rows_products as products  # noqa: PLC0415
    import onnx_rows_windows as windows  # noqa: PLC0415

    # fmt: off
    parts = (
        images.images, indexing.indexing, windows.convolutions, windows.pools, elementwise.activations,
        elementwise.arithmetic, elementwise.elementary, elementwise.logic, products.products, layout.layouts,
        products.norms, products.reductions, layout.orders, integers.integers, integers.one_hots,
        integers.quantizations, integers.quantized, windows.resizes, products.contrib, elementwise.doubles,
    )
    # fmt: on
    for part in parts:
        yield from (row for row in part() if row.opset <= onnx.defs.onnx_opset_version())
