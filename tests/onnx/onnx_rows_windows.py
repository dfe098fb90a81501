"""Rows of what slides over an image: convolutions, pools, resizing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx_rows import Row, c, w


def convolutions() -> Iterator[Row]:
    for opset in (7, 11, 17, 22):
        yield Row("Conv", opset, ((1, 3, 8, 9), w(4, 3, 3, 3)), {"pads": [1, 1, 1, 1]})
    yield Row("Conv", 17, ((2, 3, 8, 9), w(4, 3, 3, 2), w(4)), {"pads": [0, 1, 2, 0], "strides": [2, 1]})
    yield Row("Conv", 17, ((1, 4, 9, 9), w(6, 2, 3, 3), w(6)), {"group": 2, "dilations": [2, 1], "pads": [2, 1, 2, 1]})
    yield Row("Conv", 17, ((1, 4, 7, 7), w(8, 1, 3, 3)), {"group": 4, "strides": [2, 2]})
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield Row("Conv", 17, ((1, 2, 7, 6), w(3, 2, 3, 4)), {"auto_pad": auto, "strides": [2, 2]})
        yield Row("Conv", 17, ((1, 2, 11), w(3, 2, 4)), {"auto_pad": auto, "strides": [3]})
    yield Row("Conv", 17, ((2, 3, 17), w(4, 3, 5), w(4)), {"pads": [2, 1], "strides": [2], "dilations": [2]})
    yield Row("Conv", 17, ((1, 2, 61), w(3, 2, 12)), {"pads": [3, 3], "strides": [6]})
    yield Row("Conv", 17, ((1, 2, 5, 5), (3, 2, 3, 3), (3,)), {"pads": [1, 1, 1, 1]})
    yield Row("Conv", 17, ((1, 2, 5, 5), w(3, 2, 3, 3), (3,)), {"pads": [1, 1, 1, 1]})
    yield Row("ConvTranspose", 7, ((1, 3, 4, 5), w(3, 2, 3, 3)), {"strides": [2, 2]})
    both = {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}
    yield Row("ConvTranspose", 17, ((1, 3, 4, 5), w(3, 2, 3, 3), w(2)), both)
    yield Row(
        "ConvTranspose", 17, ((1, 4, 3, 4), w(4, 2, 2, 3), w(4)), {"group": 2, "strides": [1, 2], "pads": [0, 1, 1, 0]}
    )
    yield Row("ConvTranspose", 17, ((2, 3, 5), w(3, 2, 4), w(2)), {"strides": [3], "pads": [1, 2]})
    yield Row("ConvTranspose", 17, ((1, 2, 4, 4), w(2, 1, 3, 3)), {"strides": [2, 2], "output_shape": [8, 8]})
    yield Row("ConvTranspose", 17, ((1, 2, 4, 4), w(2, 1, 3, 3)), {"strides": [2, 2], "output_shape": [9, 8]})
    yield Row("ConvTranspose", 17, ((1, 1, 4, 4), w(1, 2, 2, 2)), {"dilations": [2, 3]})
    # More output padding than end padding: rows of bias alone.
    yield Row("ConvTranspose", 17, ((1, 2, 3, 3), w(2, 2, 2, 2), w(2)), {"strides": [3, 3], "output_padding": [2, 1]})
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield Row("ConvTranspose", 17, ((1, 1, 3, 4), w(1, 1, 3, 3)), {"strides": [2, 2], "auto_pad": auto})
    shaped = {"strides": [2, 2], "output_shape": [6, 7], "auto_pad": "SAME_UPPER"}
    yield Row("ConvTranspose", 17, ((1, 1, 3, 4), w(1, 1, 4, 3)), shaped)


def pools() -> Iterator[Row]:
    for op, opsets in (("MaxPool", (8, 10, 11, 12, 22)), ("AveragePool", (7, 10, 11, 19, 22))):
        for opset in opsets:
            yield Row(op, opset, ((1, 2, 7, 8),), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]})
        for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            yield Row(op, 17, ((1, 2, 7, 6),), {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": auto})
        for pads in ([0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 1]):
            for strides in ([1, 1], [2, 2], [3, 2]):
                form = {"kernel_shape": [3, 3], "strides": strides, "pads": pads, "ceil_mode": 1}
                yield Row(op, 17, ((1, 2, 6, 7),), form)
        yield Row(op, 17, ((2, 3, 11),), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]})
        yield Row(op, 17, ((2, 3, 11),), {"kernel_shape": [4], "strides": [3], "pads": [0, 2], "ceil_mode": 1})
        yield Row(
            op, 17, ((1, 2, 4, 5, 6),), {"kernel_shape": [2, 2, 3], "strides": [2, 1, 3], "pads": [0, 1, 1, 1, 0, 1]}
        )
        yield Row(op, 17, ((1, 2, 6, 7),), {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [0, 0, 2, 2]})
        yield Row(op, 17, ((1, 1, 3, 3),), {"kernel_shape": [1, 1], "strides": [3, 3], "ceil_mode": 1})
    for pads in ([1, 1, 1, 1], [2, 0, 1, 1]):
        for ceil in (0, 1):
            form = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": pads, "count_include_pad": 1, "ceil_mode": ceil}
            yield Row("AveragePool", 17, ((1, 2, 6, 7),), form)
    deep = {"kernel_shape": [2, 2, 2], "pads": [1, 0, 1, 0, 1, 1], "count_include_pad": 1, "strides": [2, 1, 2]}
    yield Row("AveragePool", 17, ((1, 2, 4, 5, 6),), deep)
    yield Row("MaxPool", 17, ((1, 2, 8, 8),), {"kernel_shape": [2, 3], "strides": [1, 2], "dilations": [3, 2]})
    dilated = {"kernel_shape": [2, 3], "strides": [1, 2], "dilations": [3, 2], "pads": [1, 2, 0, 1]}
    yield Row("MaxPool", 17, ((1, 2, 8, 8),), dilated)
    yield Row("MaxPool", 17, ((1, 2, 12),), {"kernel_shape": [3], "dilations": [3], "pads": [2, 1]})
    yield Row("AveragePool", 19, ((1, 2, 8, 8),), dilated)
    yield Row("AveragePool", 19, ((1, 2, 8, 8),), {**dilated, "count_include_pad": 1})
    for opset in (11, 18, 22):
        for p in (1, 2):
            form = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 0, 1], "p": p}
            yield Row("LpPool", opset, ((1, 2, 6, 7),), form)
    yield Row("LpPool", 11, ((1, 2, 9),), {"kernel_shape": [3], "strides": [2]})
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield Row(op, 17, ((2, 3, 9),))
        yield Row(op, 17, ((1, 3, 6, 7),))
        yield Row(op, 17, ((1, 2, 3, 4, 5),))
    yield Row("GlobalLpPool", 17, ((1, 3, 6, 7),), {"p": 1})


def resizes() -> Iterator[Row]:
    empty = c(np.zeros(0, np.float32))
    yield Row("Upsample", 7, ((1, 2, 2, 3),), {"mode": "nearest", "scales": [1.0, 1.0, 3.0, 2.0]})
    yield Row("Upsample", 9, ((1, 2, 2, 3), c([1.0, 1.0, 2.0, 2.0])), {"mode": "linear"})
    yield Row("Resize", 10, ((1, 1, 2, 3), c([1.0, 1.0, 2.0, 2.0])), {"mode": "nearest"})
    yield Row("Resize", 10, ((1, 1, 4, 6), c([1.0, 1.0, 0.5, 0.5])), {"mode": "linear"})
    scales = ([1, 1, 2, 2], [1, 1, 0.5, 0.75], [1, 1, 1.25, 3], [1, 1, 2.5, 1])
    sizes = ([1, 2, 8, 10], [1, 2, 4, 3], [1, 2, 6, 14], [1, 2, 1, 3])
    modes = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    for given in (*({2: s} for s in scales), *({3: s} for s in sizes)):
        at = [empty, *(c(np.array(given[2], np.float32)) for _ in (2,) if 2 in given)]
        inputs = at if 2 in given else [None, None, c(given[3])]
        for mode in modes:
            for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
                form = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": nearest}
                yield Row("Resize", 13, ((1, 2, 6, 7), *inputs), form)
            if mode == "align_corners" and 2 in given and given[2] in scales[1:]:
                continue
            yield Row("Resize", 13, ((1, 2, 6, 7), *inputs), {"mode": "linear", "coordinate_transformation_mode": mode})
            for extra in ({}, {"cubic_coeff_a": -0.5}, {"exclude_outside": 1}):
                form = {"mode": "cubic", "coordinate_transformation_mode": mode, **extra}
                yield Row("Resize", 13, ((1, 2, 6, 7), *inputs), form)
    yield Row("Resize", 11, ((1, 1, 4, 4), empty, empty, c([1, 1, 8, 8])), {"mode": "nearest", "nearest_mode": "floor"})
    yield Row("Resize", 11, ((1, 1, 4, 4), empty, c([1.0, 1.0, 0.6, 0.6])), {"mode": "linear"})
    yield Row("Resize", 18, ((1, 2, 4, 8), None, None, c([9, 5])), {"mode": "linear", "axes": [3, 2]})
    yield Row("Resize", 18, ((1, 2, 4, 8), None, c([0.5, 2.0])), {"mode": "nearest", "axes": [2, 3]})
    for policy in ("not_larger", "not_smaller"):
        form = {"mode": "linear", "axes": [2, 3], "keep_aspect_ratio_policy": policy}
        yield Row("Resize", 19, ((1, 1, 4, 8), None, None, c([6, 6])), form)
    symmetric = {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}
    yield Row("Resize", 19, ((1, 1, 4, 5), None, c([1.0, 1.0, 2.3, 1.7])), symmetric)
    form = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    yield Row("Resize", 13, ((2, 2, 2, 2), None, c([2.0, 1.0, 2.0, 1.0])), form)
    yield Row("Resize", 13, ((1, 3, 8), None, c([1.0, 1.0, 2.0])), {"mode": "linear"})
