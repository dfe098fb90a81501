"""Every row, bent: what a handler says of a form that is wrong is a refusal, never a bug and never another exception."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx.shape_inference import InferenceError
from onnx_harness import imported
from onnx_rows import Const, Row, rows
from onnx_rows_sequence import sequence_rows
from test_onnx_handlers import build

from aneforge.errors import ModelError

CRASHING = {"num_outputs", "batch_dims"}  # attributes of which onnx's own inference (1.23) reads outside its memory


def bent(row: Row) -> Iterator[Row]:
    """Variants with one thing changed: an attribute, the shape of an input, whether it is known, how many there are."""
    for name, value in row.attributes.items():
        for other in _others(value):
            if name not in CRASHING:
                yield replace(row, attributes={**row.attributes, name: other})
    for i, given in enumerate(row.inputs):
        for other in _inputs(given):
            yield replace(row, inputs=(*row.inputs[:i], other, *row.inputs[i + 1 :]))
    yield replace(row, inputs=row.inputs[:-1])
    yield replace(row, inputs=(*row.inputs, (2, 2)))


def _others(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        whole = all(isinstance(v, int) for v in value)
        return (
            [[*value, 1], [-1] * len(value), [value[0]] * len(value), [10**9] * len(value)] if value and whole else []
        )
    if isinstance(value, str):
        return ["bogus", ""]
    return [float("nan"), -1.0, 0.0] if isinstance(value, float) else [-1, 0, 3, 10**9]


def _inputs(given: Any) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, Const):
        v = given.value
        turned = ~v if v.dtype.kind == "b" else -v if v.dtype.kind != "u" else v
        kept = [v[..., None], v.reshape(-1)[:1], np.concatenate([v.reshape(-1)] * 2), turned, v * v.dtype.type(0)]
        return [None, v, *map(Const, kept)]
    shape = tuple(given.shape) if isinstance(given, np.ndarray) else tuple(given)
    dtype = given.dtype if isinstance(given, np.ndarray) else np.dtype(np.float32)
    return [np.ones(s, dtype) for s in (shape[:-1], (*shape, 1), (2, *shape), (1,) * len(shape), ())]


def samples() -> list[Row]:
    """Three variants of each row; which, depends on the row's place alone."""
    chosen = []
    for k, row in enumerate((*rows(), *sequence_rows())):
        variants = list(bent(row))
        chosen += [variants[i] for i in np.random.RandomState(k).permutation(len(variants))[:3]]
    return chosen


@pytest.mark.filterwarnings("ignore")
def test_no_bug_in_what_is_malformed() -> None:
    bugs, refused, taken = [], 0, 0
    for row in samples():
        try:
            model, _ = build(row)
        except (InferenceError, ValueError, IndexError, RuntimeError):  # onnx's own tools
            continue
        try:
            done = imported(model)
        except ModelError:
            refused += 1
            continue
        bugs += [f"{row}: {n.reason}" for n in done.nodes if n.reason is not None and n.reason.kind == "bug"]
        refused += any(n.reason is not None for n in done.nodes)
        taken += all(n.reason is None for n in done.nodes)
    assert bugs == []
    assert refused > 300 and taken > 300
