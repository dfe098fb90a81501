"""Rows of matrix products, normalizations, reductions, and of the operators of com.microsoft that join these."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx_rows import Row, c, normal, w


def products() -> Iterator[Row]:
    for opset in (7, 9, 13):
        for left, right in (
            ((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)),
            ((6,), (6,)), ((2, 1, 2, 3, 4), (1, 2, 2, 4, 3)), ((3, 4), (2, 4, 5)),
        ):  # fmt: skip
            yield Row("MatMul", opset, (left, normal(*right, seed=3)))
            yield Row("MatMul", opset, (left, w(*right)))
            yield Row("MatMul", opset, (w(*left), right))
    for opset in (7, 9, 11, 13):
        for bias in (c(3.0), w(5), w(1, 5), w(3, 1), w(3, 5), w(1, 1)):
            yield Row("Gemm", opset, ((3, 4), w(4, 5), bias), {"alpha": 0.5, "beta": 2.0})
        yield Row("Gemm", opset, ((4, 3), w(5, 4), w(5)), {"transA": 1, "transB": 1})
    for opset in (11, 13):
        yield Row("Gemm", opset, ((3, 4), w(4, 5)))
        yield Row("Gemm", opset, ((3, 4), (5, 4), (3, 1)), {"transB": 1, "alpha": 0.5, "beta": 0.25})
        yield Row("Gemm", opset, (w(3, 4), (4, 5)), {"alpha": 2.0})
        yield Row("Gemm", opset, ((3, 4), w(4, 5), (5,)), {"beta": 0.0})
    yield Row("Gemm", 13, ((3, 3), w(3, 3), w(3, 1)))  # M = N: C is a column all the same
    for equation, *shapes in (
        ("bhqd,bhkd->bhqk", (1, 2, 3, 4), (1, 2, 5, 4)), ("ij,jk", (3, 4), (4, 2)), ("i,i->", (5,), (5,)),
        ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)), ("abc,cd->bda", (2, 3, 4), (4, 5)), ("ij->ji", (3, 4)),
        ("ij->", (3, 4)), ("ij->j", (3, 4)), ("ij,kl->ijkl", (2, 3), (4, 2)), ("bij,bjk->ik", (2, 3, 4), (2, 4, 5)),
        ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("...i->...", (2, 3, 4)), ("ij,ij->ij", (3, 4), (3, 4)),
        ("bhwc,hkc->bhwk", (1, 3, 4, 5), (3, 6, 5)), (" ij , jk -> ik ", (2, 3), (3, 4)), ("ba,ca", (2, 3), (4, 3)),
        ("...ij,jk->...ik", (2, 2, 3, 4), (4, 5)), ("ii->i", (4, 4)), ("ii", (3, 3)), ("...ii->...i", (2, 3, 3)),
        ("iij->ji", (3, 3, 2)), ("iji->ij", (3, 2, 3)), ("bii,bi->b", (2, 3, 3), (2, 3)), ("ii->i", (1, 1)),
    ):  # fmt: skip
        yield Row("Einsum", 12, tuple(normal(*s, seed=i) for i, s in enumerate(shapes)), {"equation": equation})


def norms() -> Iterator[Row]:
    for opset in (7, 9, 14, 15):
        for shape in ((5, 3), (2, 3, 7), (2, 3, 4, 5)):
            parameters = (w(3), w(3, seed=2), w(3, seed=3), c(np.array([0.3, 2, 1e-3], np.float32)))
            yield Row("BatchNormalization", opset, (shape, *parameters), {"epsilon": 1e-3})
    for axis in (-1, 1, 2):
        sizes = {-1: (5,), 1: (3, 4, 5), 2: (4, 5)}[axis]
        yield Row("LayerNormalization", 17, ((2, 3, 4, 5), w(*sizes), w(*sizes, seed=2)), {"axis": axis})
    yield Row("LayerNormalization", 17, ((2, 3, 32), w(32)), {"epsilon": 1e-3})
    yield Row("LayerNormalization", 17, (normal(2, 3, 32, scale=1000), w(32), w(32, seed=2)))
    yield Row("LayerNormalization", 17, ((2, 32), w(1), (32,)))
    for axis, scale in ((-1, 3.0), (1, 200.0), (0, 0.01)):
        sizes = (2, 3, 4, 32)[axis:] if axis else (2, 3, 4, 32)
        given = (normal(2, 3, 4, 32, scale=scale) + 5 * scale, w(*sizes), w(*sizes, seed=2))
        yield Row("LayerNormalization", 17, given, {"axis": axis}, outputs=3)
    for shape in ((2, 3, 9), (2, 3, 4, 5)):
        yield Row("InstanceNormalization", 6, (shape, w(3), w(3, seed=2)), {"epsilon": 1e-3})
        yield Row("InstanceNormalization", 17, (shape, (3,), (3,)))
    yield Row("GroupNormalization", 21, ((2, 6, 3, 3), w(6), w(6, seed=2)), {"num_groups": 3})
    yield Row("GroupNormalization", 21, ((2, 6, 5), w(6), w(6, seed=2)), {"num_groups": 2})
    for p in (1, 2):
        for axis in (-1, 1):
            yield Row("LpNormalization", 17, ((3, 4, 5),), {"p": p, "axis": axis})
    yield Row("MeanVarianceNormalization", 13, ((2, 3, 4, 5),))
    yield Row("MeanVarianceNormalization", 9, ((2, 3, 4, 5),), {"axes": [2, 3]})
    yield Row("LRN", 13, ((1, 7, 3, 3),), {"size": 3, "alpha": 0.5, "beta": 0.6, "bias": 2.0})
    yield Row("LRN", 7, ((1, 7, 3, 3),), {"size": 5})
    yield Row("RMSNormalization", 23, ((2, 3, 16), w(16)))


def reductions() -> Iterator[Row]:
    x = np.abs(normal(2, 3, 4, 2)) + np.float32(0.1)
    for op in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"):
        for opset in (7, 11, 12, 13):
            if op == "Sum" and opset == 13:
                yield Row("ReduceSum", 13, (x, c([1, -1])), {"keepdims": 0})
                continue
            yield Row(f"Reduce{op}", opset, (x,), {"axes": [1, 3], "keepdims": 0})
            yield Row(f"Reduce{op}", opset, (x,), {"axes": [2]})
            if opset > 7:
                yield Row(f"Reduce{op}", opset, (x,), {"axes": [-2]})
        yield Row(f"Reduce{op}", 18, (x, c([-1, 1])), {"keepdims": 0})
        yield Row(f"Reduce{op}", 18, (x[0],), {"keepdims": 0})
        yield Row(f"Reduce{op}", 18, (x[0], c(np.zeros(0, np.int64))))
    for op in ("Sum", "Mean", "Max", "Min"):
        yield Row(f"Reduce{op}", 18, (x, c(np.zeros(0, np.int64))), {"noop_with_empty_axes": 1})
    yield Row("ReduceSum", 13, (np.ones((2, 2049), np.float32), c([1])))
    yield Row("ReduceMean", 18, (np.full((2, 512), 3000, np.float32), c([1])))
    yield Row("ReduceLogSumExp", 18, (np.array([[30, 31, 29], [-40, -41, -39]], np.float32), c([1])))
    yield Row("ReduceL2", 18, (np.array([[3000, 4000], [0.003, 0.004]], np.float32), c([1])))
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for opset in (7, 11):
            yield Row(op, opset, ((2, 3, 4),))
            for axis in (0, 1, 2):
                yield Row(op, opset, ((2, 3, 4),), {"axis": axis})
        yield Row(op, 11, ((2, 3, 4),), {"axis": -2})
        yield Row(op, 13, ((2, 3, 4),))
        for axis in (0, 1, -1):
            yield Row(op, 13, ((2, 3, 4),), {"axis": axis})
    yield Row("Hardmax", 13, (np.array([[1, 3, 3, 2], [5, 5, 5, 5]], np.float32),))
    yield Row("Softmax", 13, (np.array([[1000, 1001, 999, -1000]], np.float32),))
    for exclusive in (0, 1):
        for reverse in (0, 1):
            yield Row("CumSum", 14, ((2, 5, 3), c(1)), {"exclusive": exclusive, "reverse": reverse})
    yield Row("CumSum", 11, ((2, 20), c(-1, np.int32)))


def contrib() -> Iterator[Row]:
    ms = "com.microsoft"
    x = (2, 3, 8)
    yield Row("Gelu", 17, (x,), domain=ms)
    yield Row("QuickGelu", 17, (x,), {"alpha": 1.3}, domain=ms)
    yield Row("BiasGelu", 17, (x, w(8)), domain=ms)
    yield Row("FastGelu", 17, (x,), domain=ms, fp32=(1e-3, 1e-4))
    yield Row("FastGelu", 17, (x, w(8)), domain=ms, fp32=(1e-3, 1e-4))
    yield Row("FusedMatMul", 17, ((2, 4), w(3, 4)), {"alpha": 0.5, "transB": 1}, domain=ms)
    yield Row("FusedMatMul", 17, ((2, 4, 3), normal(2, 4, 5)), {"transA": 1}, domain=ms)
    for activation, parameters in (
        ("Relu", []),
        ("LeakyRelu", [0.2]),
        ("Clip", [0.0, 1.0]),
        ("HardSigmoid", [0.3, 0.4]),
    ):
        form = {"activation": activation, "pads": [1, 1, 1, 1]}
        if parameters:
            form["activation_params"] = parameters
        yield Row("FusedConv", 17, ((1, 2, 5, 5), w(3, 2, 3, 3), w(3)), form, domain=ms)
    yield Row("FusedConv", 17, ((1, 2, 5, 5), w(3, 2, 1, 1), w(3), (1, 3, 5, 5)), {"activation": "Relu"}, domain=ms)
    form = {"epsilon": 1e-5}
    yield Row("SkipLayerNormalization", 17, (x, normal(2, 3, 8, seed=4), w(8), w(8, seed=2)), form, domain=ms)
    inputs = (x, normal(2, 3, 8, seed=4), w(8), w(8, seed=2), w(8, seed=3))
    yield Row("SkipLayerNormalization", 17, inputs, form, domain=ms)
    yield Row("SimplifiedLayerNormalization", 17, (x, w(8)), {"epsilon": 1e-5, "axis": -1, "stash_type": 1})
