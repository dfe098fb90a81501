"""Rows of what moves elements: layouts, order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto
from onnx_rows import Row, c, normal, w


def layouts() -> Iterator[Row]:
    x = (2, 3, 4)
    for opset in (5, 13, 14, 19):
        yield Row("Reshape", opset, (x, c([0, -1])))
        yield Row("Reshape", opset, (x, c([0, 0, 2, -1])))
    yield Row("Reshape", 14, ((1, 1), c(np.zeros(0, np.int64))))
    yield Row("Reshape", 14, ((), c([1, 1])))
    yield Row("Reshape", 14, (x, c([4, 6])), {"allowzero": 1})
    for opset in (7, 9, 11, 13):
        for axis in (0, 1, 2, 3):
            yield Row("Flatten", opset, (x,), {"axis": axis})
    yield Row("Flatten", 13, (x,), {"axis": -1})
    yield Row("Transpose", 13, (x,))
    yield Row("Transpose", 13, ((4, 4, 4),), {"perm": [1, 2, 0]})
    yield Row("Transpose", 13, ((1, 3, 1, 4),), {"perm": [2, 0, 1, 3]})
    yield Row("Transpose", 13, ((1, 2, 3, 4, 4),), {"perm": [0, 2, 1, 3, 4]})
    yield Row("Squeeze", 11, ((1, 3, 1, 2),), {"axes": [-2]})
    yield Row("Squeeze", 11, ((1, 3, 1, 2),))
    yield Row("Squeeze", 13, ((1, 3, 1, 2), c([0])))
    yield Row("Squeeze", 13, ((1, 3, 1, 2),))
    yield Row("Unsqueeze", 11, ((2, 3),), {"axes": [0, 3]})
    yield Row("Unsqueeze", 13, ((2, 3), c([-2, 0])))
    for opset in (7, 11, 13):
        yield Row("Concat", opset, (x, normal(2, 1, 4), w(2, 2, 4)), {"axis": 1})
        yield Row("Concat", opset, (x,), {"axis": 0})
    yield Row("Concat", 13, (x, c(np.zeros((2, 0, 4), np.float32))), {"axis": -2})
    yield Row("Split", 11, ((4, 6, 5),), {"axis": 1, "split": [1, 3, 2]}, outputs=3)
    yield Row("Split", 11, ((4, 6, 5),), {"axis": 1}, outputs=2)
    yield Row("Split", 13, ((4, 6, 5), c([2, 3])), {"axis": -1}, outputs=2)
    yield Row("Split", 18, ((4, 6, 5),), {"axis": 2, "num_outputs": 3}, outputs=3)
    y = (4, 6, 5)
    yield Row("Slice", 9, (y,), {"axes": [0, 2], "starts": [1, -9], "ends": [3, -1]})
    yield Row("Slice", 9, (y,), {"starts": [1, 2], "ends": [3, 2**63 - 1]})
    for opset in (10, 11, 13):
        yield Row("Slice", opset, (y, c([2, 1]), c([2**63 - 1, 2**31 - 1]), c([0, 1])))
        yield Row("Slice", opset, (y, c([-1, 3]), c([-(2**63), 0]), c([-2, -1]), c([-2, -1])))
        yield Row("Slice", opset, (y, c([0, 0, 1]), c([9, 9, 9]), None, c([2, 3, 2])))
        yield Row("Slice", opset, (y, c([1], np.int32), c([5], np.int32), c([1], np.int32), c([2], np.int32)))
    yield Row("Slice", 13, ((3, 20), c([1]), c([18]), c([1]), c([5])))
    yield Row("Slice", 13, ((3, 20), c([19]), c([-100]), c([1]), c([-3])))
    yield Row("Expand", 8, ((3, 1), c([2, 1, 4])))
    yield Row("Expand", 13, ((), c([2, 3])))
    yield Row("Expand", 13, ((2, 3), c([1])))
    yield Row("Tile", 13, ((1, 2, 3), c([2, 1, 3])))
    yield Row("Tile", 6, ((2, 3), c([1, 5])))
    yield Row("Identity", 13, (x,))
    yield Row("Dropout", 7, (x,), {"ratio": 0.5})
    yield Row("Dropout", 10, (x,))
    yield Row("Dropout", 13, (x,), outputs=2)
    yield Row("Dropout", 13, (x, c(0.5), c(np.array(False))))
    for opset in (7, 11, 13):
        yield Row("DepthToSpace", opset, ((1, 8, 2, 3),), {"blocksize": 2})
    yield Row("DepthToSpace", 13, ((1, 8, 2, 3),), {"blocksize": 2, "mode": "CRD"})
    yield Row("SpaceToDepth", 7, ((1, 2, 6, 3),), {"blocksize": 3})
    yield Row("Shape", 13, (x,))
    yield Row("Shape", 15, (x,), {"start": -2})
    yield Row("Size", 13, (x,))
    yield Row("EyeLike", 9, ((3, 4),), {"k": 1})
    image = (1, 2, 4, 5)
    yield Row("Pad", 10, (image,), {"pads": [0, 0, 1, 3, 0, 0, 2, 0], "value": 1.5})
    for mode in ("reflect", "edge"):
        yield Row("Pad", 10, (image,), {"pads": [0, 0, 1, 3, 0, 0, 2, 0], "mode": mode})
        yield Row("Pad", 13, (image, c([0, 1, 1, 3, 0, 0, 2, 4])), {"mode": mode})
    yield Row("Pad", 13, (image, c([1, 0, 1, 3, 0, 2, 2, 0]), c(-2.0)))
    yield Row("Pad", 13, (image, c([0, 0, -1, 0, 0, 0, -1, 2])))
    yield Row("Pad", 18, (image, c([1, 0, 1, 2]), c(-2.0), c([1, -1])))
    yield Row("Pad", 18, ((2, 5), c([1, 0, 0, 3])))
    yield Row("Pad", 18, ((2, 3, 5), c([1, 0, 0, 0, 1, 3])), {"mode": "reflect"})
    yield Row("Pad", 19, (image, c([0, 0, 1, 3, 0, 0, 2, 0])), {"mode": "wrap"})
    yield Row("Gather", 13, (y, c([-1, 0, -6])), {"axis": 1})
    yield Row("Gather", 13, (y, c(-3)), {"axis": -1})
    yield Row("Gather", 11, (y, c([[0, 3], [2, 2], [1, 0]], np.int32)))
    yield Row("Gather", 7, (y, c([4, 1, 0, 2, 3])), {"axis": 2})
    yield Row("Gather", 13, ((3, 40), c([7, 3, 3, 39, 0, 21, 22, 5, 11, 30])), {"axis": 1})
    yield Row("GatherND", 12, ((3, 4), c([[0, 1], [-1, -1]])))
    yield Row("GatherND", 13, ((3, 4, 2), c([[[0], [2]]])))
    for upper in (0, 1):
        for k in (-2, 0, 1, 9):
            yield Row("Trilu", 14, ((2, 4, 5), c(k)), {"upper": upper})
    yield Row("Trilu", 14, (np.array([[1, np.inf], [np.inf, 2]], np.float32),), {"upper": 0})
    yield Row("Cast", 13, (x,), {"to": TensorProto.FLOAT})
    yield Row("Cast", 13, (np.array([True, False]),), {"to": TensorProto.FLOAT})
    yield Row("Cast", 13, (np.arange(12, dtype=np.uint8).reshape(3, 4) * 20,), {"to": TensorProto.FLOAT})
    yield Row("CastLike", 15, (np.array([True, False]), c(0.0)))


def orders() -> Iterator[Row]:
    ties = np.array([[1, 3, 3, 2], [5, 5, 5, 5], [-1, -2, -1, -3], [np.inf, 0, np.inf, -np.inf]], np.float32)
    for op in ("ArgMax", "ArgMin"):
        for opset in (7, 11, 12, 13):
            yield Row(op, opset, ((2, 3, 4),))
            for axis, keep in ((0, 0), (1, 1), (2, 0)):
                yield Row(op, opset, ((2, 3, 4),), {"axis": axis, "keepdims": keep})
        yield Row(op, 13, ((5,),), {"keepdims": 0})
        yield Row(op, 13, ((2, 3, 2, 2, 3),), {"axis": -2})
        yield Row(op, 13, ((1, 2048),), {"axis": 1})
        for last in (0, 1):
            yield Row(op, 13, (ties,), {"axis": -1, "select_last_index": last})
        yield Row(op, 13, (np.arange(12, dtype=np.uint8).reshape(3, 4) * 7 % 11,), {"axis": 1})
        yield Row(op, 13, ((np.arange(12, dtype=np.int8) * 7 % 11 - 5).reshape(3, 4),), {"axis": 1})
    x = (3, 6, 4)
    yield Row("TopK", 9, (x,), {"k": 2}, outputs=2)
    yield Row("TopK", 10, (x, c([3])), {"axis": 1}, outputs=2)
    for opset in (11, 24):
        for largest in (0, 1):
            for k in (1, 2, 6):
                yield Row("TopK", opset, (x, c([k])), {"axis": 1, "largest": largest}, outputs=2)
            yield Row("TopK", opset, (ties, c([4])), {"largest": largest}, outputs=2)
            yield Row("TopK", opset, ((2, 1500), c([5])), {"largest": largest}, outputs=2, fp16=(2e-3, 1e-3))
            steps = (np.arange(4500, dtype=np.float32) * 7 % 1123).reshape(3, 1500)
            yield Row("TopK", opset, (steps, c([16])), {"largest": largest}, outputs=2)
            yield Row("TopK", opset, (steps % 3, c([9])), {"largest": largest}, outputs=2)
    yield Row("TopK", 11, (np.arange(12, dtype=np.int64).reshape(3, 4).astype(np.float32), c([2])), outputs=2)
