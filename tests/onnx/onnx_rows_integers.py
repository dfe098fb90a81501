"""Rows of integers that stay on the engine: casts and arithmetic, one-hot, quantized operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from onnx_rows import Row, c


def integers() -> Iterator[Row]:
    """Types whose values are all small."""
    for dtype in (np.uint8, np.int8):
        low = np.iinfo(dtype).min
        a = (np.arange(24).reshape(2, 3, 4) * 11 % 256 + low).astype(dtype)
        b = (np.arange(12).reshape(3, 4) * 5 % 31 + (low // 8)).astype(dtype)
        for to in (
            TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8,
            TensorProto.INT8, TensorProto.INT16, TensorProto.FLOAT16,
        ):  # fmt: skip
            yield Row("Cast", 13, (a,), {"to": to})
        for op in ("Max", "Min"):
            yield Row(op, 13, (a, b))
        for op in ("ReduceMax", "ReduceMin"):
            yield Row(op, 13, (a,), {"axes": [1]})
        yield Row("Clip", 13, (a, c(3, dtype), c(100, dtype)))
        yield Row("Clip", 13, (a, None, c(90, dtype)))
        yield Row("Where", 16, (np.array([True, False, True, True]), a, b))
        yield Row("Where", 16, (np.array([True, False, True, True]), a, c(7, dtype)))
        yield Row("Concat", 13, (a, a[:, :1], c(a[:, :2], dtype)), {"axis": 1})
        yield Row("Transpose", 13, (a,))
        yield Row("Reshape", 13, (a, c([4, -1])))
        yield Row("Gather", 13, (a, c([1, 0, 1])), {"axis": 1})
        yield Row("Slice", 13, (a, c([1]), c([3]), c([1])))
        yield Row("Split", 13, (a,), {"axis": 2}, outputs=2)
        yield Row("Pad", 13, (a, c([0, 0, 1, 0, 1, 2]), c(5, dtype)))
        yield Row("Identity", 13, (a,))
        for by in (1, 7, 100, *(() if low == 0 else (-3, -100))):
            yield Row("Div", 14, (a, c(by, dtype)))
        yield Row("Div", 14, (a, c(np.array([3, 5, 7, 11]), dtype)))
        yield Row("Mod", 13, (a, c(7, dtype)))
        yield Row("Mod", 13, (a, c(7, dtype)), {"fmod": 1})
    yield Row("Cast", 13, (np.array([True, False]),), {"to": TensorProto.INT64})
    yield Row("Cast", 13, (np.array([True, False]),), {"to": TensorProto.UINT8})
    yield Row("Cast", 13, (np.array([True, False]),), {"to": TensorProto.BOOL})
    yield Row("Mod", 13, (np.arange(-40, 40).astype(np.int8), c(-7, np.int8)))
    yield Row("Mod", 13, (np.arange(-40, 40).astype(np.int8), c(-7, np.int8)), {"fmod": 1})


def one_hots() -> Iterator[Row]:
    """Of floats; the ones of integers that ONNX Runtime has are of 32 and 64 bits, and stand in test_onnx_integers."""
    ids = np.array([[0, 3, 2], [-1, 4, -5]], np.float32)
    for opset in (9, 11, 28):
        for axis in (-1, 0, 1):
            yield Row("OneHot", opset, (ids, c(5.0), c([0.0, 1.0])), {"axis": axis})
        yield Row("OneHot", opset, (ids, c([6.0]), c([-2.0, 5.5])))
        yield Row("OneHot", opset, (ids, c(3.0), c([2.0, 0.25])), {"axis": -2})


def spaced(*shape: int, step: float, seed: int = 0, most: int = 140) -> np.ndarray:
    """Numbers at a quarter of a step from the middle between two steps, and some far out: no rounding decides."""
    r = np.random.RandomState(seed)
    whole = r.randint(-most, most, shape)
    return ((whole + r.choice([-0.25, 0.0, 0.25], shape)) * step).astype(np.float32)


def quantizations() -> Iterator[Row]:
    x = spaced(2, 3, 5, step=0.25)
    ties = np.arange(-300, 300, dtype=np.float32) * np.float32(0.25)
    for opset in (10, 13, 19, 21, 23, 24, 25):
        for zero, dtype in (
            (0, np.uint8),
            (128, np.uint8),
            (255, np.uint8),
            (0, np.int8),
            (-128, np.int8),
            (5, np.int8),
        ):
            z = c(zero, dtype)
            yield Row("QuantizeLinear", opset, (ties, c(0.5), z))
            yield Row("QuantizeLinear", opset, (x, c(0.25), z))
            codes = (np.arange(256).reshape(4, 64) + np.iinfo(dtype).min).astype(dtype)
            yield Row("DequantizeLinear", opset, (codes, c(0.375), z))
        yield Row("QuantizeLinear", opset, (x, c(0.25)))
        yield Row(
            "QuantizeLinear", opset, (np.array([np.inf, -np.inf, 6e4, -6e4, 0], np.float32), c(0.25), c(3, np.int8))
        )
        if opset >= 13:
            scales = np.array([0.25, 0.125, 2.0], np.float32)
            y = spaced(2, 3, 5, step=1.0) * scales[:, None]
            zeros = np.array([0, 7, 250], np.uint8)
            yield Row("QuantizeLinear", opset, (y, c(scales), c(zeros, np.uint8)))
            yield Row(
                "QuantizeLinear", opset, (y.transpose(0, 2, 1).copy(), c(scales), c(zeros, np.uint8)), {"axis": -1}
            )
            codes = np.arange(120, 150, dtype=np.uint8).reshape(2, 3, 5)
            yield Row("DequantizeLinear", opset, (codes, c(scales), c(zeros, np.uint8)))
            signed = (codes - 128).astype(np.int8)
            yield Row("DequantizeLinear", opset, (signed, c(scales), c(np.array([0, -7, 3]), np.int8)), {"axis": 1})
        if opset >= 21:
            blocks = c(np.array([[0.25, 0.5], [1, 2], [4, 0.125]], np.float32))
            zeros = c(np.array([[0, 1], [2, 3], [128, 255]]), np.uint8)
            wide = spaced(3, 6, step=1.0) * np.repeat(blocks.value, 3, 1)
            yield Row("QuantizeLinear", opset, (wide, blocks, zeros), {"axis": 1, "block_size": 3})
            codes = np.arange(100, 118, dtype=np.uint8).reshape(3, 6)
            yield Row("DequantizeLinear", opset, (codes, blocks, zeros), {"axis": 1, "block_size": 3})
            yield Row("QuantizeLinear", opset, (x, c(0.25)), {"output_dtype": TensorProto.INT8})
    for scale in (2.0**-20, 2.0**-27, 2.0**10, 2.0**15):  # 1 / scale is beyond fp16, or below it
        yield Row(
            "QuantizeLinear",
            13,
            (
                spaced(3, 40, step=scale, most=max(1, int(6e4 / scale)) if scale > 1 else 200),
                c(scale),
                c(128, np.uint8),
            ),
        )
    for scale in (3e-5, 300.0):
        yield Row("DequantizeLinear", 13, (np.arange(256, dtype=np.uint8), c(scale), c(100, np.uint8)))
    for scale in (0.1, 0.0173, 0.0078, 1.3e-4, 7.7):
        for dtype in (np.uint8, np.int8):
            z = c(100 if dtype is np.uint8 else -20, dtype)
            yield Row("QuantizeLinear", 13, (spaced(3, 40, step=scale), c(scale), z))


def codes(*shape: int, dtype: Any = np.uint8, seed: int = 0) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.RandomState(seed).randint(info.min, info.max + 1, shape).astype(dtype)


def quantized() -> Iterator[Row]:
    """Powers of two as scales, so that no rounding decides (the sums of products are exact, their quotients nearly)."""
    u, i = np.uint8, np.int8
    for dtype in (u, i):
        z = c(117 if dtype is u else -11, dtype)
        x = (codes(1, 3, 6, 7, dtype=dtype), c(0.125), z)
        for w in ((4, 3, 3, 3), (4, 3, 1, 1)):
            weight = (c(codes(*w, dtype=i, seed=1), i), c(0.25), c(0, i))
            yield Row("QLinearConv", 10, (*x, *weight, c(64.0), c(100, dtype)), steps=1)
            bias = c(np.array([1000, -2000, 0, 30000]), np.int32)
            yield Row("QLinearConv", 10, (*x, *weight, c(128.0), c(100, dtype), bias), {"strides": [2, 1]}, steps=1)
            scales = c(np.array([0.25, 0.5, 0.125, 1.0], np.float32))
            weight = (weight[0], scales, c(np.zeros(4), i))
            yield Row("QLinearConv", 10, (*x, *weight, c(64.0), c(100, dtype)), {"pads": [w[2] // 2] * 4}, steps=1)
        yield Row("QLinearConv", 10, (codes(1, 4, 5, 5, dtype=dtype), c(0.5), z, c(codes(4, 1, 3, 3, dtype=i), i), c(0.25),
                                      c(0, i), c(32.0), c(9, dtype)), {"group": 4}, steps=1)  # fmt: skip
        for op in ("QLinearMatMul",):
            for opset in (10, 21):
                a, b = codes(2, 3, 20, dtype=dtype), codes(20, 4, dtype=dtype, seed=1)
                yield Row(op, opset, (a, c(0.5), z, c(b, dtype), c(0.25), z, c(512.0), c(13, dtype)), steps=1)
                yield Row(op, opset, (a, c(0.5), z, b, c(0.25), z, c(512.0), c(13, dtype)), steps=1)
                yield Row(
                    op, opset, (c(b.T, dtype), c(0.5), z, a[0].T.copy(), c(0.25), z, c(512.0), c(13, dtype)), steps=1
                )
    small = np.random.RandomState(2).randint(-1, 2, (6, 5))
    yield Row("MatMulInteger", 10, (codes(2, 3, 6) // 4, c(small, i), c(30, u)))
    yield Row("MatMulInteger", 10, (codes(3, 6) // 4, c(small + 7, u), c(30, u), c(7, u)))
    yield Row("ConvInteger", 10, (codes(1, 2, 5, 5) // 4, c(np.random.RandomState(3).randint(99, 102, (3, 2, 2, 2)), u),
                                  c(30, u), c(100, u)))  # fmt: skip
    ms = "com.microsoft"
    for dtype in (u, i):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        z, z2 = c(101 if dtype is u else -3, dtype), c(120 if dtype is u else 4, dtype)
        a, b = codes(2, 4, 3, 3, dtype=dtype), codes(4, 1, 1, dtype=dtype, seed=1)
        yield Row("QuantizeLinear", 17, (spaced(2, 3, 5, step=0.25), c(0.25), z), domain=ms, kind=kind)
        yield Row("DequantizeLinear", 17, (a, c(0.25), z), domain=ms)
        yield Row("QLinearAdd", 17, (a, c(0.25), z, b, c(0.5), z2, c(1.03), z), domain=ms, kind=kind, steps=1)
        yield Row("QLinearMul", 17, (a, c(0.25), z, c(b, dtype), c(0.5), z2, c(32.3), z), domain=ms, kind=kind, steps=1)
        parts = (a, c(0.26), z2, a[:, :1], c(0.5), z, a, c(1.0), z)
        yield Row("QLinearConcat", 17, (c(0.5), z, *parts), {"axis": 1}, domain=ms, kind=kind, steps=1)
        yield Row("QLinearLeakyRelu", 17, (a, c(0.25), z, c(0.25), z2), {"alpha": 0.25}, domain=ms, kind=kind)
        yield Row("QLinearSigmoid", 17, (a, c(0.015625), z, c(1 / 256), z2), domain=ms, kind=kind, steps=1)
        image = codes(1, 2, 6, 7, dtype=dtype)
        form = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]}
        yield Row("MaxPool", 12, (image,), form)
        yield Row("Resize", 13, (image, None, c([1.0, 1.0, 2.0, 2.0])), {"mode": "nearest"})
        if dtype is u:
            yield Row("QLinearAveragePool", 17, (image, c(0.25), z, c(0.26), z2), form, domain=ms, kind=kind, steps=1)
        flat = (a[:, :, 0, 0], c(0.03125), z, c(1 / 256), c(0 if dtype is u else -128, dtype))
        yield Row("QLinearSoftmax", 17, flat, {"axis": 1, "opset": 13}, domain=ms, kind=kind, steps=1)
        yes = (np.array([True, False, True]), a, c(0.25), z, b, c(0.5), z2, c(0.37), z)
        yield Row("QLinearWhere", 17, yes, domain=ms, kind=kind, steps=1)
        matrix = (codes(3, 20, dtype=dtype), c(0.5), z, c(codes(20, 4, dtype=i, seed=1), i), c(0.25), c(0, i))
        more = (c(np.array([100, -200, 3000, 0]), np.int32), c(512.0), z)
        if dtype is u:
            yield Row("QGemm", 17, (*matrix, *more), {"transB": 0}, domain=ms, kind=kind, steps=1)
            yield Row("QGemm", 17, (*matrix, more[0]), {"alpha": 0.5}, domain=ms)
            scales = (*matrix[:3], c(matrix[3].value.T, i), c([0.25, 0.5, 1.0, 0.125]), c(np.zeros(4), i))
            yield Row("QGemm", 17, (*scales, None, *more[1:]), {"transB": 1}, domain=ms, kind=kind, steps=1)
        form = {"channels_last": 0}
        yield Row(
            "QLinearGlobalAveragePool", 17, (a[:, :, :2, :2], c(0.25), z, c(0.25), z2), form, domain=ms, kind=kind
        )
