"""Rows of windows over three axes, of sampling by known places, and of Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_rows import Row, w


def images() -> Iterator[Row]:
    yield from volumes()


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
