"""Host kernels against plain NumPy loops in float64: convolutions, pools, resizing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from milkit import MODES, In, check

RNG = np.random.default_rng(11)


def paddings(
    kind: str,
    size: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pad: Sequence[int],
):
    out = []
    for i, d in enumerate(size):
        extent = (kernel[i] - 1) * dilations[i] + 1
        total = max(0, strides[i] * -(-d // strides[i]) - d + extent - strides[i])
        out.append({
            "valid": (0, 0), "custom": (pad[2 * i], pad[2 * i + 1]),
            "same": (total // 2, total - total // 2), "same_lower": (total - total // 2, total // 2),
        }[kind])  # fmt: skip
    return out


def conv(x, weight, bias=None, strides=None, pad_type="valid", pad=None, dilations=None, groups=1):
    n = x.ndim - 2
    strides, dilations, pad = strides or [1] * n, dilations or [1] * n, pad or [0] * 2 * n
    kernel = weight.shape[2:]
    pads = paddings(pad_type, x.shape[2:], kernel, strides, dilations, pad)
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    size = [(x.shape[2 + i] - ((kernel[i] - 1) * dilations[i] + 1)) // strides[i] + 1 for i in range(n)]
    per_group, channels = weight.shape[0] // groups, weight.shape[1]
    out = np.zeros((x.shape[0], weight.shape[0], *size))
    for f in range(weight.shape[0]):
        g = f // per_group
        image = x[:, g * channels : (g + 1) * channels]
        for tap in itertools.product(*map(range, kernel)):
            window = tuple(
                slice(t * dilations[i], t * dilations[i] + (size[i] - 1) * strides[i] + 1, strides[i])
                for i, t in enumerate(tap)
            )
            out[:, f] += np.einsum(
                "nc...,c->n...", image[(slice(None), slice(None), *window)], weight[(f, slice(None), *tap)]
            )
    return out if bias is None else out + bias.reshape(-1, *[1] * n)


def conv_transpose(
    x, weight, bias=None, strides=None, pad_type="valid", pad=None, dilations=None, groups=1, output_shape=None
):
    n = x.ndim - 2
    strides, dilations, pad = strides or [1] * n, dilations or [1] * n, pad or [0] * 2 * n
    kernel, d = weight.shape[2:], x.shape[2:]
    extents = [(kernel[i] - 1) * dilations[i] + 1 for i in range(n)]
    whole = [(d[i] - 1) * strides[i] + extents[i] for i in range(n)]
    per_group, filters, channels = weight.shape[1], weight.shape[1] * groups, x.shape[1] // groups
    size = [
        max(whole[i], strides[i] * d[i], *(output_shape or [0])) + 64 for i in range(n)
    ]  # room for whatever is cut out below
    full = np.zeros((x.shape[0], filters, *size))
    for c in range(x.shape[1]):
        for f in range(per_group):
            for tap in itertools.product(*map(range, kernel)):
                window = tuple(
                    slice(t * dilations[i], t * dilations[i] + (d[i] - 1) * strides[i] + 1, strides[i])
                    for i, t in enumerate(tap)
                )
                full[(slice(None), c // channels * per_group + f, *window)] += x[:, c] * weight[(c, f, *tap)]
    cut = []
    for i in range(n):
        total = max(0, extents[i] - strides[i])
        before = {"valid": 0, "custom": pad[2 * i], "same": total // 2, "same_lower": total - total // 2}[pad_type]
        length = d[i] * strides[i] if pad_type.startswith("same") else whole[i]
        if pad_type == "custom":
            length -= pad[2 * i] + pad[2 * i + 1]
        cut.append(slice(before, before + (output_shape[2 + i] if output_shape else length)))
    out = full[(slice(None), slice(None), *cut)]
    return out if bias is None else out + bias.reshape(-1, *[1] * n)


CONVS = [
    # x, weight, everything else
    (
        (1, 3, 8, 8),
        (4, 3, 3, 3),
        {"pad_type": "custom", "pad": [1, 1, 1, 1], "strides": [1, 1], "dilations": [1, 1], "groups": 1},
    ),
    ((2, 3, 9, 7), (5, 3, 3, 2), {"pad_type": "custom", "pad": [2, 0, 1, 3], "strides": [2, 3], "dilations": [2, 1]}),
    ((1, 6, 10, 11), (6, 1, 3, 3), {"pad_type": "same", "strides": [2, 2], "groups": 6}),
    ((1, 4, 7, 8), (6, 2, 2, 3), {"pad_type": "same_lower", "groups": 2}),
    ((1, 16, 5, 5), (32, 16, 1, 1), {"pad_type": "valid"}),
    ((1, 32, 14, 14), (32, 32, 3, 3), {"pad_type": "same"}),
    ((1, 3, 33, 33), (24, 3, 7, 7), {"pad_type": "custom", "pad": [3, 3, 3, 3], "strides": [2, 2]}),
    ((1, 24, 12, 12), (24, 1, 5, 5), {"pad_type": "same", "groups": 24, "strides": [2, 2]}),
    ((1, 1, 4, 4), (1, 1, 4, 4), {}),
    ((2, 5, 17), (4, 5, 3), {"pad_type": "custom", "pad": [1, 2], "strides": [2]}),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), {"pad_type": "custom", "pad": [1, 0, 1, 1, 0, 1], "strides": [1, 2, 1]}),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", range(len(CONVS)))
def test_conv(case: int, mode: str) -> None:
    shape, kernel, params = CONVS[case]
    x, weight, bias = (
        RNG.normal(size=shape),
        RNG.normal(size=kernel) / np.sqrt(np.prod(kernel[1:])),
        RNG.normal(size=kernel[0]),
    )
    for with_bias in ({}, {"bias": bias}):
        check(mode, "conv", conv, atol=2e-6, x=In(x), weight=weight, **with_bias, **params)
    check(mode, "conv", conv, atol=2e-6, threads=1, x=In(x), weight=In(weight), **params)


@pytest.mark.parametrize("mode", MODES)
def test_conv_transpose(mode: str) -> None:
    cases = [
        ((1, 3, 4, 5), (3, 2, 3, 3), {}),
        ((2, 4, 4, 5), (4, 3, 2, 2), {"strides": [2, 2]}),
        ((1, 4, 5, 4), (4, 2, 3, 3), {"strides": [2, 2], "pad_type": "custom", "pad": [1, 1, 1, 0], "groups": 2}),
        ((1, 4, 5, 4), (4, 1, 4, 4), {"strides": [2, 2], "pad_type": "same", "groups": 4}),
        ((1, 2, 5, 4), (2, 2, 3, 3), {"strides": [2, 1], "pad_type": "same_lower", "dilations": [1, 2]}),
        (
            (1, 2, 3, 3),
            (2, 2, 3, 3),
            {"strides": [2, 2], "pad_type": "custom", "pad": [1, 1, 1, 1], "output_shape": [1, 2, 6, 6]},
        ),
        ((1, 2, 3, 3), (2, 2, 2, 2), {"strides": [3, 3], "pad_type": "same"}),
        ((1, 3, 6), (3, 2, 3), {"strides": [2]}),
        ((1, 2, 3, 3, 3), (2, 2, 2, 2, 2), {"strides": [2, 1, 2]}),
    ]
    for shape, kernel, params in cases:
        x, weight = RNG.normal(size=shape), RNG.normal(size=kernel)
        check(mode, "conv_transpose", conv_transpose, atol=2e-6, x=In(x), weight=weight, **params)
        bias = RNG.normal(size=kernel[1] * params.get("groups", 1))
        check(mode, "conv_transpose", conv_transpose, atol=2e-6, x=In(x), weight=weight, bias=bias, **params)


def pool(reduce_window, pad_value):
    def oracle(x, kernel_sizes, strides, pad_type, pad=None, ceil_mode=False, exclude_padding_from_average=None):
        n, d = x.ndim - 2, x.shape[2:]
        pad = pad or [0] * 2 * n
        pads = paddings(pad_type, d, kernel_sizes, strides, [1] * n, pad)
        size = []
        for i in range(n):
            total = d[i] + sum(pads[i]) - kernel_sizes[i]
            s = (total + (strides[i] - 1 if ceil_mode else 0)) // strides[i] + 1
            if ceil_mode and sum(pads[i]) > 0 and (s - 1) * strides[i] >= d[i] + pads[i][0]:
                s -= 1
            size.append(s)
        padded = np.pad(x, [(0, 0), (0, 0), *[(b, a + k + s) for (b, a), k, s in zip(pads, kernel_sizes, strides, strict=True)]],
                        constant_values=pad_value)  # fmt: skip
        real = np.pad(np.ones(d), [(b, a + k + s) for (b, a), k, s in zip(pads, kernel_sizes, strides, strict=True)])
        out = np.zeros((*x.shape[:2], *size))
        for at in itertools.product(*map(range, size)):
            window = tuple(slice(a * s, a * s + k) for a, s, k in zip(at, strides, kernel_sizes, strict=True))
            values = padded[(slice(None), slice(None), *window)].reshape(*x.shape[:2], -1)
            out[(slice(None), slice(None), *at)] = reduce_window(
                values, real[window].sum(), bool(exclude_padding_from_average)
            )
        return out

    return oracle


POOLS = [
    ((1, 3, 8, 8), {"kernel_sizes": [2, 2], "strides": [2, 2], "pad_type": "valid"}),
    ((2, 3, 9, 7), {"kernel_sizes": [3, 2], "strides": [2, 1], "pad_type": "custom", "pad": [1, 0, 1, 1]}),
    ((1, 2, 7, 8), {"kernel_sizes": [3, 3], "strides": [2, 2], "pad_type": "same"}),
    ((1, 2, 7, 8), {"kernel_sizes": [3, 3], "strides": [2, 2], "pad_type": "same_lower"}),
    (
        (1, 2, 8, 7),
        {"kernel_sizes": [3, 3], "strides": [2, 2], "pad_type": "custom", "pad": [1, 1, 1, 1], "ceil_mode": True},
    ),
    ((1, 2, 7, 7), {"kernel_sizes": [2, 2], "strides": [2, 2], "pad_type": "valid", "ceil_mode": True}),
    ((1, 2, 13), {"kernel_sizes": [4], "strides": [3], "pad_type": "custom", "pad": [1, 2]}),
    ((1, 2, 4, 5, 6), {"kernel_sizes": [2, 3, 2], "strides": [1, 2, 2], "pad_type": "same"}),
    ((1, 40, 7, 7), {"kernel_sizes": [7, 7], "strides": [1, 1], "pad_type": "valid"}),
]


@pytest.mark.parametrize("mode", MODES)
def test_pools(mode: str) -> None:
    maximum = pool(lambda v, real, exclude: v.max(-1), -np.inf)
    average = pool(lambda v, real, exclude: v.sum(-1) / (real if exclude else v.shape[-1]), 0)
    euclid = pool(lambda v, real, exclude: np.sqrt((v * v).sum(-1)), 0)
    for shape, params in POOLS:
        x = RNG.normal(size=shape)
        check(mode, "max_pool", maximum, ulp=0, x=In(x), **params)
        for exclude in (False, True):
            check(mode, "avg_pool", average, atol=1e-6, x=In(x), **params, exclude_padding_from_average=exclude)
        check(mode, "l2_pool", euclid, x=In(x), **params)


def lerp(x: np.ndarray, axis: int, positions: np.ndarray) -> np.ndarray:
    p = np.clip(positions, 0, x.shape[axis] - 1)
    low = np.floor(p).astype(int)
    w = (p - low).reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])
    return np.take(x, low, axis) * (1 - w) + np.take(x, np.minimum(low + 1, x.shape[axis] - 1), axis) * w


def positions(mode: str, n: int, m: int) -> np.ndarray:
    i = np.arange(m)
    if mode == "STRICT_ALIGN_CORNERS":
        return i * (n - 1) / (m - 1) if m > 1 else np.zeros(1)
    if mode == "ALIGN_CORNERS":
        return i * (n - 1) / (m - 1) if m > 1 else np.full(1, (n - 1) / 2)
    if mode == "DEFAULT":
        return i * n / m
    if mode == "UNALIGN_CORNERS":
        return (i + 0.5) * n / m - 0.5
    return (i + 0.5) * max(1, n - 1) / m


@pytest.mark.parametrize("mode", MODES)
def test_resize(mode: str) -> None:
    def nearest(x, target_size_height, target_size_width):
        h = np.arange(target_size_height) * x.shape[-2] // target_size_height
        w = np.arange(target_size_width) * x.shape[-1] // target_size_width
        return x[..., h, :][..., w]

    def bilinear(x, target_size_height, target_size_width, sampling_mode):
        x = lerp(x, -2, positions(sampling_mode, x.shape[-2], target_size_height))
        return lerp(x, -1, positions(sampling_mode, x.shape[-1], target_size_width))

    for shape in [(1, 2, 3, 5), (2, 3, 4, 4), (3, 4, 1)]:
        x = RNG.normal(size=shape)
        for h, w in [(6, 10), (7, 3), (1, 1), (2, 9)]:
            check(mode, "resize_nearest_neighbor", nearest, ulp=0, x=In(x), target_size_height=h, target_size_width=w)
            for sampling in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "UNALIGN_CORNERS", "OFFSET_CORNERS"):
                check(mode, "resize_bilinear", bilinear, atol=1e-6, x=In(x), target_size_height=h, target_size_width=w,
                      sampling_mode=sampling)  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_upsample(mode: str) -> None:
    x = RNG.normal(size=(1, 2, 3, 4))

    def nearest(x, scale_factor_height, scale_factor_width):
        return x.repeat(int(scale_factor_height), -2).repeat(int(scale_factor_width), -1)

    def bilinear(x, scale_factor_height, scale_factor_width, align_corners):
        kind = "STRICT_ALIGN_CORNERS" if align_corners else "UNALIGN_CORNERS"
        x = lerp(x, -2, positions(kind, x.shape[-2], int(x.shape[-2] * scale_factor_height)))
        return lerp(x, -1, positions(kind, x.shape[-1], int(x.shape[-1] * scale_factor_width)))

    for h, w in [(2, 3), (2.0, 1.0)]:
        check(mode, "upsample_nearest_neighbor", nearest, ulp=0, x=In(x), scale_factor_height=h, scale_factor_width=w)
    for align in (False, True):
        check(
            mode,
            "upsample_bilinear",
            bilinear,
            atol=1e-6,
            x=In(x),
            scale_factor_height=2.0,
            scale_factor_width=2.5,
            align_corners=align,
        )
