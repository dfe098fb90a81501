"""Rows of windows over three axes, of sampling by known places, and of Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx_rows import Const, Row, c, normal, w


def images() -> Iterator[Row]:
    yield from volumes()
    yield from samples()
    yield from transforms()
    yield from leftovers_of_resize()


def volumes() -> Iterator[Row]:
    x = (2, 4, 5, 6, 7)
    yield Row("Conv", 11, (x, w(3, 4, 2, 3, 2)))
    padded = {"pads": [1, 1, 0, 2, 1, 1], "strides": [2, 1, 2]}
    yield Row("Conv", 17, (x, w(3, 4, 3, 3, 2), w(3)), padded)
    yield Row("Conv", 17, (x, w(6, 2, 2, 2, 2), w(6)), {"group": 2, "dilations": [2, 1, 2]})
    yield Row("Conv", 17, (x, w(4, 1, 3, 1, 1)), {"group": 4, "pads": [1, 0, 0, 1, 0, 0]})
    yield Row("Conv", 22, (x, w(3, 4, 1, 1, 1), (3,)))
    yield Row("Conv", 17, (x, w(3, 4, 3, 3, 3)), {"auto_pad": "SAME_UPPER", "strides": [2, 2, 2]})
    small = (1, 3, 3, 4, 2)
    yield Row("ConvTranspose", 11, (small, w(3, 2, 2, 3, 2)))
    cut = {"strides": [2, 2, 1], "pads": [1, 1, 0, 1, 0, 1], "output_padding": [1, 0, 0]}
    yield Row("ConvTranspose", 17, ((2, *small[1:]), w(3, 2, 3, 3, 2), w(2)), cut)
    yield Row("ConvTranspose", 17, (small, w(3, 1, 1, 2, 2), w(3)), {"group": 3, "strides": [3, 2, 2]})
    yield Row("ConvTranspose", 17, (small, w(3, 2, 2, 2, 2)), {"dilations": [2, 1, 2]})
    wide = {"strides": [3, 1, 1], "output_padding": [2, 0, 0]}  # more output padding than the kernel reaches
    yield Row("ConvTranspose", 17, (small, w(3, 2, 1, 1, 1), w(2)), wide)
    dilated = {"kernel_shape": [2, 3, 2], "dilations": [2, 1, 3], "strides": [1, 2, 1]}
    yield Row("MaxPool", 17, (x,), dilated)
    yield Row("AveragePool", 19, (x,), {**dilated, "pads": [1, 1, 0, 0, 1, 1], "count_include_pad": 1})
    for p in (1, 2, 3, 4):
        yield Row(
            "LpPool", 18, ((1, 2, 6, 7),), {"kernel_shape": [3, 2], "strides": [2, 2], "p": p, "pads": [1, 0, 1, 1]}
        )
        yield Row("LpPool", 18, ((1, 2, 9),), {"kernel_shape": [3], "p": p})
        yield Row("GlobalLpPool", 2, ((2, 3, 4, 5),), {"p": p})


def samples() -> Iterator[Row]:
    grid = np.random.RandomState(3).uniform(-1.4, 1.4, (2, 3, 5, 2)).astype(np.float32)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                if (mode, padding) == ("bicubic", "border"):  # refused beyond the border, where runtimes differ
                    yield Row(
                        "GridSample", 16, ((2, 3, 4, 6), Const(grid / 2)), {"mode": mode, "padding_mode": padding}
                    )
                    continue
                form = {"mode": mode, "padding_mode": padding, "align_corners": align}
                yield Row("GridSample", 16, ((2, 3, 4, 6), Const(grid)), form)
    same = np.broadcast_to(grid[:1], grid.shape).copy()
    yield Row("GridSample", 20, ((2, 3, 4, 6), Const(same)), {"mode": "linear"})
    volume = np.random.RandomState(4).uniform(-1.2, 1.2, (1, 2, 3, 4, 3)).astype(np.float32)
    for mode in ("linear", "nearest"):
        for padding in ("zeros", "border", "reflection"):
            yield Row("GridSample", 22, ((1, 2, 4, 5, 3), Const(volume)), {"mode": mode, "padding_mode": padding})
    for align in (0, 1):
        yield Row("AffineGrid", 20, ((2, 2, 3), c([2, 3, 4, 5])), {"align_corners": align})
        yield Row("AffineGrid", 20, ((2, 3, 4), c([2, 3, 4, 5, 6])), {"align_corners": align})
    rois = c([[0.3, 0.7, 5.2, 6.1], [2.0, 1.5, 9.5, 4.25], [-3.0, -2.0, 2.2, 30.1], [4.0, 4.0, 4.0, 4.0]])
    for form in (
        {"output_height": 3, "output_width": 2, "sampling_ratio": 2},
        {"output_height": 2, "output_width": 3, "spatial_scale": 0.77},
        {"output_height": 1, "output_width": 1, "sampling_ratio": 3, "spatial_scale": 0.5},
    ):
        yield Row("RoiAlign", 16, ((2, 3, 8, 9), rois, c([0, 1, 1, 0])), form)
        old = {**form, "coordinate_transformation_mode": "output_half_pixel"}
        yield Row("RoiAlign", 16, ((2, 3, 8, 9), rois, c([0, 1, 1, 0])), old)
        yield Row("RoiAlign", 10, ((2, 3, 8, 9), rois, c([1, 1, 0, 0])), form)
        largest = {**form, "mode": "max"}
        yield Row("RoiAlign", 16, ((2, 3, 8, 9), rois, c([0, 1, 1, 0])), largest)
        yield Row("RoiAlign", 10, ((2, 3, 8, 9), rois, c([1, 1, 0, 0])), largest)
    shift, share = normal(2, 2 * 12, 3, 4, scale=1.5), np.abs(normal(2, 2 * 6, 3, 4))
    steps = {"strides": [2, 1], "pads": [1, 0, 1, 0], "dilations": [2, 1]}
    for opset in (19, 22):
        given = ((2, 4, 5, 6), w(6, 4, 2, 3), Const(normal(2, 12, 4, 4)), w(6))
        yield Row("DeformConv", opset, given, {"pads": [0, 0, 0, 0]})
        both = ((2, 4, 6, 6), w(6, 2, 2, 3), Const(shift), w(6), Const(share))
        yield Row("DeformConv", opset, both, {"group": 2, "offset_group": 2, **steps})
    boxes = c([[0.0, 1.0, 0.0, 6.0, 5.0], [1.0, 3.0, 2.0, 8.0, 7.0], [1.0, 0.0, 0.0, 8.0, 7.0]])
    yield Row("MaxRoiPool", 1, ((2, 3, 8, 9), boxes), {"pooled_shape": [2, 3]})
    yield Row("MaxRoiPool", 1, ((2, 3, 8, 9), boxes), {"pooled_shape": [1, 1], "spatial_scale": 0.72})
    yield Row("Col2Im", 18, ((2, 3 * 6, 12), c([4, 6]), c([2, 3])), {"pads": [0, 0, 0, 0]})
    yield Row("Col2Im", 18, ((1, 2 * 4, 9), c([5, 6]), c([2, 2])), {"strides": [2, 2], "pads": [0, 0, 1, 0]})
    yield Row("Col2Im", 18, ((1, 2 * 4, 9), c([5, 5]), c([2, 2])), {"dilations": [2, 2]})
    yield Row("Col2Im", 18, ((1, 2 * 8, 8), c([3, 3, 3]), c([2, 2, 2])), {})
    yield Row("Col2Im", 18, ((2, 3 * 3, 5), c([11]), c([3])), {"strides": [2]})
    pooled = np.array([[[[5, 7], [13, 15]]], [[[16, 19], [29, 31]]]])
    yield Row("MaxUnpool", 11, ((2, 1, 2, 2), c(pooled)), {"kernel_shape": [2, 2], "strides": [2, 2]})
    yield Row("MaxUnpool", 9, ((1, 1, 3), c([[[1, 2, 5]]])), {"kernel_shape": [2], "strides": [2]})


def transforms() -> Iterator[Row]:
    for opset in (17, 20):
        for parts in (1, 2):
            x = (2, 6, 5, parts)
            at = {"axis": 1} if opset == 17 else {}
            axis = () if opset == 17 else (None, c(1))
            yield Row("DFT", opset, (x, *axis), at)
            yield Row("DFT", opset, (x, c(8)), at)
            yield Row("DFT", opset, (x, c(4)), at)
        yield Row("DFT", opset, ((2, 6, 5, 1), *axis), {"onesided": 1, **at})
        yield Row("DFT", opset, ((2, 7, 5, 1), *axis), {"onesided": 1, **at})
        yield Row("DFT", opset, ((2, 6, 5, 2), *axis), {"inverse": 1, **at})
    yield Row("DFT", 17, ((2, 6, 5, 2),), {"axis": -2})
    yield Row("DFT", 20, ((2, 6, 5, 2), c(9), c(-3)), {"inverse": 1})
    yield Row("DFT", 20, ((9, 2),))
    window = c(np.hanning(8).astype(np.float32))
    for signal in ((2, 40, 1), (1, 19, 1)):
        for step in (2, 4, 3, 8):
            yield Row("STFT", 17, (signal, c(step), window), {"onesided": 1})
    yield Row("STFT", 17, ((2, 40, 1), c(4), None, c(16)), {})
    yield Row("STFT", 17, ((2, 40, 1), c(4), window, c(8)), {"onesided": 0})
    yield Row("STFT", 17, ((2, 40, 2), c(3), window, c(8)), {"onesided": 0})


def leftovers_of_resize() -> Iterator[Row]:
    x = (1, 2, 9, 11)
    for mode in ("linear", "cubic"):
        for outside in (0, 1):
            form = {"mode": mode, "antialias": 1, "exclude_outside": outside}
            yield Row("Resize", 18, (x, None, c([1.0, 1.0, 0.6, 0.5])), form)
            yield Row("Resize", 18, (x, None, None, c([1, 2, 4, 3])), form)
            yield Row("Resize", 19, (x, None, None, c([1, 2, 4, 20])), form)
            yield Row("Resize", 19, (x, None, None, c([5, 20])), {**form, "axes": [2, 3]})
    roi = c([0.0, 0.0, 0.21, 0.17, 1.0, 1.0, 0.89, 1.31])
    for mode in ("linear", "nearest", "cubic"):
        form = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 4.5}
        yield Row("Resize", 13, (x, roi, None, c([1, 2, 5, 7])), form)
        yield Row("Resize", 13, (x, roi, None, c([1, 2, 14, 1])), form)
        yield Row("Resize", 11, (x, roi, c([1.0, 1.0, 2.0, 3.0])), form)
