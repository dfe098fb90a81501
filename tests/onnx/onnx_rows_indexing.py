"""Rows of operators that read and write by known indices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx_rows import Row, c, normal


def indexing() -> Iterator[Row]:
    def random(*shape: int, below: int, seed: int = 0) -> np.ndarray:
        return np.random.RandomState(seed).randint(-below, below, shape)

    for opset in (11, 13):
        yield Row("GatherElements", opset, ((3, 4), c([[0, -1], [2, 1]])), {"axis": 1})
    yield Row("GatherElements", 13, ((3, 4, 5), c(random(3, 4, 2, below=5))), {"axis": 2})
    yield Row("GatherElements", 13, ((3, 4, 5), c(random(2, 4, 3, below=3))), {"axis": 0})
    yield Row("GatherElements", 13, ((3, 4, 5), c(random(3, 7, 5, below=4))), {"axis": -2})
    yield Row("GatherElements", 13, ((3, 4), c([[1, 1, 1], [3, 3, 3]])), {"axis": 1})
    yield Row("GatherElements", 13, ((6,), c([5, -6, 2, 2])), {})
    for batch, indices in ((1, [[[1], [0]], [[-1], [2]]]), (1, [[1, 0], [-1, 2]]), (2, [[[0], [3], [1]]] * 2)):
        yield Row("GatherND", 13, ((2, 3, 4), c(indices)), {"batch_dims": batch})
    yield Row("GatherND", 12, ((3, 4), c([[0, 1], [2, -1], [1, 1]])))
    for axis in (0, 1, -1):
        yield Row("Compress", 11, ((3, 4, 5), c([False, True, True])), {"axis": axis})
    yield Row("Compress", 9, ((2, 3), c([True, False, False, True, True])))
    yield Row("ReverseSequence", 10, ((4, 3, 2), c([1, 4, 2])), {"time_axis": 0, "batch_axis": 1})
    yield Row("ReverseSequence", 10, ((3, 4), c([1, 4, 2])), {"time_axis": 1, "batch_axis": 0})
    yield Row("ReverseSequence", 10, ((3, 4, 2), c([3, 3, 3])), {"time_axis": 1, "batch_axis": 0})
    yield from scatters()


def scatters() -> Iterator[Row]:
    x = (4, 5, 6)
    for opset in (11, 13, 16, 18):
        yield Row("ScatterElements", opset, ((3, 4), c([[1, 3], [-4, 2]]), (2, 2)), {"axis": 1})
        yield Row("ScatterND", opset, ((4, 5), c([[2], [0]]), (2, 5)))
    yield Row("Scatter", 9, ((3, 4), c([[1, 2], [0, 1]]), (2, 2)), {"axis": 1})
    yield Row("ScatterElements", 13, ((4, 5), c([[3, 3, 3, 3, 3], [0, 0, 0, 0, 0]]), (2, 5)), {"axis": 0})  # whole rows
    yield Row("ScatterElements", 13, ((6,), c([5, 0, -4]), (3,)))
    yield Row("ScatterND", 13, (x, c([[1, 2], [3, -1], [0, 0]]), (3, 6)))
    yield Row("ScatterND", 13, (x, c([[[0], [3]]]), (1, 2, 5, 6)))
    # What assignments to slices become: every index tuple of a box, contiguous or in steps.
    for box in ((slice(1, 3), slice(0, 5), slice(2, 5)), (slice(0, 4, 2), slice(1, 5, 3), slice(0, 6, 2))):
        tuples = np.stack(np.meshgrid(*(np.arange(d)[b] for d, b in zip(x, box, strict=True)), indexing="ij"), -1)
        yield Row("ScatterND", 13, (x, c(tuples), tuples.shape[:-1]))
    everything = np.stack(np.meshgrid(np.arange(3), np.arange(4), indexing="ij"), -1)
    yield Row("ScatterND", 13, ((3, 4), c(everything), (3, 4)))
    spread = normal(4, 5)
    spread[0, 0], spread[3, 1] = np.inf, -np.inf  # what is not written is not touched
    yield Row("ScatterND", 13, (spread, c([[1], [2]]), (2, 5)))
    yield Row("ScatterND", 13, (normal(4, 5) > 0, c([[1], [2]]), normal(2, 5) > 0))
    for reduction in ("add", "mul", "min", "max"):
        form = {"reduction": reduction}
        yield Row("ScatterElements", 18, ((3, 4), c([[1, 3], [-4, 2]]), (2, 2)), {"axis": 1, **form})
        yield Row("ScatterElements", 18, ((5,), c([1, 1, 3]), (3,)), form)  # one place twice
        yield Row("ScatterND", 18, (x, c([[1, 2], [3, -1], [1, 2], [0, 0]]), (4, 6)), form)
    yield Row("ScatterND", 18, ((3, 4), c([[1], [1], [1], [0], [1]]), (5, 4)), {"reduction": "add"})
    yield Row("ScatterElements", 18, ((3,), c([0] * 40 + [2] * 3), (43,)), {"reduction": "add"})
    yield Row("TensorScatter", 24, ((2, 3, 6, 4), (2, 3, 2, 4), c([1, 1])))
    yield Row("TensorScatter", 24, ((2, 3, 6, 4), (2, 3, 2, 4), c([4, 0])))
    yield Row("TensorScatter", 24, ((2, 6, 4), (2, 2, 4), c([5, 0])), {"mode": "circular"})
    yield Row("TensorScatter", 24, ((2, 6, 4), (2, 2, 4)), {"axis": 1})
