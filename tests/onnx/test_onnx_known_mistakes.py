"""Forms that importers are known to get wrong in silence, or to fall over: one row each, judged as every row is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_harness import bake, close, compute, imported, refusals
from onnx_rows import Row, c, normal, w
from test_onnx_handlers import build, truth


def mistaken() -> Iterator[Row]:
    x = (2, 3, 4)
    for form in ({}, {"axis": 1}):  # before 13: everything from the axis on, which is 1 by default
        yield Row("Softmax", 11, (x,), form)
        yield Row("LogSoftmax", 11, (x,), form)
    yield Row("Gemm", 13, ((4, 3), w(3, 4), c(normal(4, 1))))  # a C for each row, though it might pass for columns
    yield Row("Gemm", 13, ((2, 3), w(3, 4), c(normal(2, 1))))
    yield Row("Gemm", 13, ((2, 3), w(3, 4), c(normal(2, 4))))
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        for shape in ((2, 3, 5), (2, 3, 2, 3, 4)):
            yield Row(op, 13, (shape,))
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield Row("MaxPool", 13, ((1, 2, 7, 6),), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": auto})
    yield Row("AveragePool", 19, ((1, 2, 7, 8),), {"kernel_shape": [2, 2], "dilations": [2, 3]})
    late = {"kernel_shape": [1, 1], "strides": [3, 3], "ceil_mode": 1}  # the last window would start in the end pad
    yield Row("MaxPool", 13, ((1, 2, 5, 5),), late)
    both = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1, "pads": [1, 1, 1, 1]}
    yield Row("AveragePool", 13, ((1, 2, 6, 6),), both)
    yield Row("PRelu", 13, ((2, 4, 3, 4), w(4)))  # as many columns as channels
    yield Row("PRelu", 13, ((2, 3, 4), c(np.float32(0.25))))
    yield Row("Flatten", 13, (x,), {"axis": 3})
    yield Row("Where", 13, (normal(2, 3, 4) > 0, (4,), (1, 1)))
    yield Row("Where", 13, (c(normal(2, 3) > 0), (2, 3), (3,)))
    for left, right in (((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 5)), ((3, 4), (4,))):
        yield Row("MatMul", 13, (left, normal(*right)))
        yield Row("MatMul", 13, (left, w(*right)))
    half = c([1.0, 1.0, 0.7, 0.7])
    yield Row("Resize", 13, ((1, 2, 5, 5), None, half), {"mode": "linear"})
    yield Row("Resize", 13, ((1, 2, 3, 3), None, c([1.0, 2.0, 1.0, 1.0])), {"mode": "nearest"})
    turned = {"mode": "linear", "axes": [3, 2]}
    yield Row("Resize", 18, ((1, 2, 3, 5), None, None, c([10, 4])), turned)
    for policy in ("not_larger", "not_smaller"):
        yield Row("Resize", 18, ((1, 2, 3, 5), None, None, c([7, 8])), {**turned, "keep_aspect_ratio_policy": policy})
    hidden = normal(4, 4)
    hidden[0, 3] = np.inf
    yield Row("Trilu", 14, (hidden,), {"upper": 0})
    yield Row("ThresholdedRelu", 10, (np.array([0.5, 1.0, 1.5], np.float32),), {"alpha": 1.0})
    yield Row("Round", 11, (np.array([0.5, 1.5, -2.5], np.float32),))
    yield Row("Einsum", 12, ((4,), (4,)), {"equation": "i,i"})
    yield Row("Gelu", 20, (normal(40, scale=60),), {"approximate": "tanh"})
    yield Row("ReduceL2", 13, (normal(3, 20, scale=900),), {"axes": [1]})
    yield Row("LogSoftmax", 13, (normal(3, 20, scale=200),), {"axis": 1})
    yield Row("ReduceLogSumExp", 13, (normal(3, 20, scale=200),), {"axes": [1]})
    yield Row("LpNormalization", 1, (normal(3, 5, scale=1e-3),), {"axis": 1, "p": 2})
    yield Row("Clip", 13, (x, c(-0.5)))
    yield Row("Clip", 13, (x, None, c(0.5)))
    yield Row("Clip", 13, (x, c(-np.inf), c(np.inf)))
    yield Row("Conv", 13, ((1, 2, 9), w(3, 2, 4)))
    yield Row("Conv", 13, ((1, 2, 9, 9), w(3, 2, 3, 2)), {"strides": [1, 2], "dilations": [2, 1]})
    yield Row("BatchNormalization", 15, ((4, 3), w(3), w(3), w(3), c(np.abs(normal(3)) + 0.5)))
    yield Row("Gather", 13, (x, c(-1)), {"axis": 1})
    yield Row("Slice", 9, (x,), {"starts": [1], "ends": [-1], "axes": [2]})
    yield Row("Slice", 13, ((2, 6), c([1]), c([1])))  # nothing, which is known
    yield Row("Split", 13, ((2, 6), c([4, 0, 2])), {"axis": 1}, 3)
    yield Row("Pad", 13, ((4, 5), c([0, -1, 1, -2])))
    yield Row("DepthToSpace", 13, ((1, 8, 2, 3),), {"blocksize": 2, "mode": "CRD"})
    yield Row("Concat", 13, ((2, 3), w(2, 4), (2, 1)), {"axis": 1})
    yield Row("And", 7, (normal(2, 3) > 0, normal(3) > 0))


@pytest.mark.parametrize("row", [r for r in mistaken() if r.opset <= onnx.defs.onnx_opset_version()], ids=str)
def test_a_form_that_is_often_wrong(row: Row) -> None:
    model, feeds = build(row)
    want = truth(model, feeds)
    done = imported(model)
    assert refusals(done) == []
    for numerics, (rtol, atol) in (("fp32", row.fp32), ("fp16", row.fp16)):
        for got, expected in zip(compute(done, feeds, numerics).values(), want, strict=True):
            assert close(got, expected, rtol, atol) == "", numerics
    for got, expected in zip(compute(imported(bake(model, feeds)), {}).values(), want, strict=True):
        assert close(got, expected, *row.fp32) == "", "all known"


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (Row("Reshape", 13, ((2, 6), np.array([3, 4]))), "computed parameter"),
        (Row("Slice", 13, ((2, 6), np.array([0]), np.array([1]))), "computed parameter"),
        (Row("Tile", 13, ((2, 6), np.array([1, 2]))), "computed parameter"),
        (Row("Gather", 13, ((2, 6), np.array([0]))), "computed parameter"),
        (Row("ScatterND", 13, ((4, 2), np.array([[0]]), (1, 2))), "computed parameter"),
        (Row("GatherElements", 13, ((4, 2), np.array([[0, 1]]))), "computed parameter"),
        (Row("GridSample", 16, ((1, 1, 3, 3), (1, 2, 2, 2))), "computed parameter"),
        (Row("ConvTranspose", 13, ((1, 2, 3, 3), (2, 2, 2, 2))), "computed parameter"),
        (Row("Compress", 11, ((2, 6), c([False, False])), {"axis": 0}), "limit"),
        (Row("ScatterND", 13, ((4, 2), c([[0], [0]]), (2, 2))), "attribute form"),
        (Row("MaxPool", 13, ((1, 1, 4, 4),), {"kernel_shape": [2, 2]}, 2), "no engine form"),
        (Row("BatchNormalization", 15, ((2, 3), w(3), w(3), w(3), w(3)), {"training_mode": 1}, 1), "attribute form"),
        (Row("Div", 13, (np.array([7]), np.array([2]))), "data type"),
        (Row("Equal", 13, (np.array([7]), np.array([2]))), "data type"),
    ],
    ids=str,
)
def test_what_importers_fall_over_is_refused_in_words(row: Row, kind: str) -> None:
    model, _ = build(row)
    assert [r.split(":")[0] for r in refusals(imported(model))] == [kind]


def test_shapes_are_computed_as_integers() -> None:
    """Max, Equal and Where of shapes, which end as the target of an Expand: beyond what fp16 counts."""

    def node(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(op, inputs.split(), [output], name=output, **attributes)

    nodes = [
        node("Shape", "x", "s"),
        node("Max", "s two", "m"),
        node("Equal", "m minus", "e"),
        node("Where", "e one m", "t"),
        node("Concat", "t big", "all", axis=0),
        node("Unsqueeze", "x last", "u"),
        node("Expand", "u all", "y"),
    ]
    constants = {"two": [1, 2], "minus": [-1, -1], "one": [1, 1], "big": [4099], "last": [2]}
    graph = helper.make_graph(
        nodes,
        "shapes",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2, 4099])],
        [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"x": normal(3, 1).astype(np.float16).astype(np.float32)}
    done = imported(model)
    assert refusals(done) == []
    assert close(compute(done, feeds)["y"], truth(model, feeds)[0], 0, 0) == ""
