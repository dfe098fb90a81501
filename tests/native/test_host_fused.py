"""Programs of many operations, where the fast kernels choose layouts and fuse: against the plain kernels, which do neither."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from milkit import MODES, Program, Ref


class Net:
    """Image and matrix operations by chance; `shapes` knows every value."""

    def __init__(self, mode: str, seed: int) -> None:
        self.program = Program("fp32" if mode == "fp32" else "fp16")
        self.rng = np.random.default_rng(seed)
        self.shapes: dict[str, tuple[int, ...]] = {}

    def normal(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        return (self.rng.standard_normal(shape) * scale).astype(np.float16).astype(np.float64)

    def input(self, *shape: int) -> Ref:
        return self.note(self.program.input(self.normal(*shape)), shape)

    def note(self, name: Ref, shape: tuple[int, ...]) -> Ref:
        self.shapes[name] = tuple(shape)
        return name

    def op(self, kind: str, size: tuple[int, ...] | None = None, /, **args: Any) -> Ref:
        size = self.shapes[args["x"]] if size is None else size
        return self.note(self.program.op(kind, size, **args), size)

    def conv(
        self, x: Ref, filters: int, kernel: tuple[int, int], stride: int = 1, groups: int = 1, bias: str = "in"
    ) -> Ref:
        n, channels, h, w = self.shapes[x]
        kh, kw = kernel
        weight = self.normal(filters, channels // groups, kh, kw, scale=(2 / (channels // groups * kh * kw)) ** 0.5)
        pad = [kh // 2, kh // 2, kw // 2, kw // 2]
        shape = (n, filters, (h + 2 * (kh // 2) - kh) // stride + 1, (w + 2 * (kw // 2) - kw) // stride + 1)
        args: dict[str, Any] = {"bias": self.normal(filters)} if bias == "in" else {}
        y = self.op("conv", shape, x=x, weight=weight, strides=np.int32([stride] * 2), pad_type="custom", pad=np.int32(pad),
                    dilations=np.int32([1, 1]), groups=groups, **args)  # fmt: skip
        return self.op("add", x=y, y=self.normal(1, filters, 1, 1)) if bias == "add" else y

    def deconv(self, x: Ref, filters: int, kernel: int, stride: int) -> Ref:
        n, channels, h, w = self.shapes[x]
        shape = (n, filters, (h - 1) * stride + kernel, (w - 1) * stride + kernel)
        weight = self.normal(channels, filters, kernel, kernel, scale=0.2)
        return self.op("conv_transpose", shape, x=x, weight=weight, strides=np.int32([stride] * 2), pad_type="valid")

    def pool(self, x: Ref, kernel: int, stride: int, pad: int, average: bool, ceil_mode: bool = False) -> Ref:
        n, c, h, w = self.shapes[x]

        def size(extent: int) -> int:
            room = extent + 2 * pad - kernel
            out = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
            return out - 1 if ceil_mode and pad and (out - 1) * stride >= extent + pad else out

        args: dict[str, Any] = {"exclude_padding_from_average": bool(self.rng.random() < 0.5)} if average else {}
        return self.op("avg_pool" if average else "max_pool", (n, c, size(h), size(w)), x=x, kernel_sizes=np.int32([kernel] * 2),
                       strides=np.int32([stride] * 2), pad_type="custom", pad=np.int32([pad] * 4), ceil_mode=ceil_mode, **args)  # fmt: skip

    def mean(self, x: Ref) -> Ref:
        """As the lowering writes it: a product with a column of equal numbers."""
        n, c, h, w = self.shapes[x]
        flat = self.op("reshape", (n * c, h * w), x=x, shape=np.int32([n * c, h * w]))
        total = self.op(
            "matmul", (n * c, 1), x=flat, y=np.full((h * w, 1), 1 / (h * w)), transpose_x=False, transpose_y=False
        )
        return self.op("reshape", (n, c, 1, 1), x=total, shape=np.int32([n, c, 1, 1]))

    def activate(self, x: Ref, kind: str) -> Ref:
        match kind:
            case "hard_swish":
                return self.op("mul", x=x, y=self.op("sigmoid_hard", x=x, alpha=1 / 6, beta=0.5))
            case "swish":
                return self.op("mul", x=self.op("sigmoid", x=x), y=x)
            case "clip":
                return self.op("clip", x=x, alpha=-0.5, beta=2.0)
            case "prelu":
                return self.op("prelu", x=x, alpha=self.normal(self.shapes[x][1]))
            case _:
                return self.op(kind, x=x)


ACTIVATIONS = ("relu", "relu6", "clip", "silu", "tanh", "gelu", "sigmoid", "swish", "hard_swish", "prelu")


def random_image_net(mode: str, seed: int) -> tuple[Net, list[Ref]]:
    net = Net(mode, seed)
    rng = net.rng
    batch, channels = int(rng.choice([1, 1, 2])), int(rng.choice([1, 3, 5, 16, 20]))
    height, width = int(rng.integers(5, 20)), int(rng.choice([1, 7, 16, 23]))
    values = [net.input(batch, channels, height, width)]
    outputs = []

    def like(x: Ref) -> Ref:
        same = [v for v in values if net.shapes[v] == net.shapes[x]]
        return same[int(rng.integers(len(same)))]

    for _ in range(int(rng.integers(4, 14))):
        x = values[int(rng.integers(max(0, len(values) - 4), len(values)))]
        n, c, h, w = net.shapes[x]
        bias = str(rng.choice(["in", "add", "none"]))
        match int(rng.integers(15)):
            case 0 | 1 | 2:
                kernel = (int(rng.choice([1, 3, 5])), int(rng.choice([1, 3])))
                y = net.conv(x, int(rng.choice([3, 8, 16, 17, 32, 48])), kernel, int(rng.choice([1, 1, 2])), 1, bias)
                if rng.random() < 0.7:
                    y = net.activate(y, str(rng.choice(ACTIVATIONS)))
            case 3 if c > 1:
                y = net.activate(net.conv(x, c, (3, 3), int(rng.choice([1, 2])), c, bias), "relu6")
            case 4 if c % 4 == 0:
                y = net.conv(x, c * int(rng.choice([1, 2])), (3, 3), 1, int(rng.choice([2, 4])), bias)
            case 5 if h > 4 and w > 4:
                y = net.pool(x, int(rng.choice([2, 3])), int(rng.choice([1, 2])), int(rng.choice([0, 1])), rng.random() < 0.5,
                             rng.random() < 0.3)  # fmt: skip
            case 6:
                a, b = (x, like(x)) if rng.random() < 0.5 else (like(x), x)
                y = net.op(str(rng.choice(["add", "mul", "sub"])), net.shapes[x], x=a, y=b)
            case 7:
                gate = net.activate(net.conv(net.mean(x), c, (1, 1)), "sigmoid")
                y = net.op("mul", net.shapes[x], x=gate, y=x) if rng.random() < 0.5 else net.op("mul", x=x, y=gate)
            case 8:
                y = net.op("add", x=net.op("mul", x=x, y=net.normal(1, c, 1, 1)), y=0.5)
            case 9:
                others = [v for v in values if net.shapes[v][0] == n and net.shapes[v][2:] == (h, w)]
                other = others[int(rng.integers(len(others)))]
                y = net.note(net.program.op("concat", (n, c + net.shapes[other][1], h, w), values=(x, other), axis=1,
                                            interleave=False), (n, c + net.shapes[other][1], h, w))  # fmt: skip
            case 10 if h < 24:
                y = net.op(
                    "upsample_nearest_neighbor", (n, c, h * 2, w * 2), x=x, scale_factor_height=2, scale_factor_width=2
                )
            case 11:
                y = net.op(
                    "pad", (n, c, h + 3, w + 1), x=x, pad=np.int32([1, 2, 0, 1]), mode="constant", constant_val=-1.5
                )
            case 12:
                y = net.deconv(x, int(rng.choice([2, 16, 24])), int(rng.choice([2, 3])), 2)
            case 13 if w == 1:
                line = net.op("reshape", (n, c, h), x=x, shape=np.int32([n, c, h]))
                y = net.op("reshape", (n, c, h, 1), x=net.op("tanh", x=line), shape=np.int32([n, c, h, 1]))
            case _:
                y = net.activate(x, str(rng.choice(ACTIVATIONS)))
        values.append(y)
        if rng.random() < 0.12:
            outputs.append(y)
    return net, list(dict.fromkeys([*outputs, values[-1]]))


def agree(net: Net, outputs: list[Ref], mode: str, **options: str) -> None:
    """Fast and plain kernels within rounding of each other; fast kernels the same for any number of threads."""
    with np.errstate(all="ignore"):
        plain = net.program.run(outputs, numerics=mode, kernels="plain")
        fast = net.program.run(outputs, numerics=mode, threads=1, **options)
        many = net.program.run(outputs, numerics=mode, threads=3, **options)
    for p, f, m in zip(plain, fast, many, strict=True):
        np.testing.assert_array_equal(f, m)
        finite = np.isfinite(p)
        np.testing.assert_array_equal(f[~finite], p[~finite])
        largest = np.abs(p[finite]).max(initial=1e-3)
        assert np.abs(f[finite] - p[finite]).max(initial=0) <= largest * (2e-5 if mode == "fp32" else 2e-2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(60))
def test_random_image_networks(mode: str, seed: int) -> None:
    agree(*random_image_net(mode, seed), mode)


@pytest.mark.parametrize("conv", ["direct", "winograd"])
@pytest.mark.parametrize("mode", MODES)
def test_ways_to_convolve(mode: str, conv: str) -> None:
    net = Net(mode, 3)
    x = net.conv(net.input(1, 40, 30, 29), 64, (3, 3))
    y = net.activate(net.op("add", x=net.conv(net.activate(x, "relu"), 64, (3, 3), bias="add"), y=x), "relu")
    agree(net, [y], mode, conv=conv)


@pytest.mark.parametrize("conv", ["auto", "winograd"])
def test_infinities_stay_where_they_belong(conv: str) -> None:
    """The transforms of Winograd's algorithm would spread them over a tile."""
    net = Net("fp16", 4)
    x = net.input(1, 32, 24, 24)
    net.program.feeds[0][0, 5, 10, 11] = np.inf
    net.program.feeds[0][0, 7, 3, 20] = -np.inf
    y = net.activate(net.conv(x, 48, (3, 3)), "relu")
    agree(net, [y], "fp16", conv=conv)
    (got,) = net.program.run([y], numerics="fp16", conv=conv)
    assert 0 < np.isinf(got).sum() <= 2 * 9 * 48


@pytest.mark.parametrize("mode", MODES)
def test_what_follows_a_product(mode: str) -> None:
    net = Net(mode, 5)
    x, skip = net.input(6, 40), net.input(1, 6, 50)
    y = net.op("matmul", (6, 50), x=x, y=net.normal(40, 50, scale=0.2), transpose_x=False, transpose_y=False)
    y = net.op("reshape", (1, 6, 50), x=y, shape=np.int32([1, 6, 50]))
    y = net.op("gelu", x=net.op("add", x=y, y=net.normal(50)), mode="EXACT")
    y = net.op("sub", (1, 6, 50), x=skip, y=y)
    most = net.op("reduce_max", (1, 6, 1), x=y, axes=np.int32([-1]), keep_dims=True)
    scaled = net.op("mul", x=net.op("mul", x=net.op("sub", x=y, y=most), y=0.5), y=net.normal(50))
    square = net.op("mul", x=scaled, y=scaled)
    agree(net, [net.op("softmax", x=square, axis=-1), most], mode)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("mode", MODES)
def test_softmax_of_every_axis(mode: str, axis: int) -> None:
    net = Net(mode, 6)
    agree(net, [net.op("softmax", x=net.input(3, 5, 7, 18), axis=axis)], mode)


@pytest.mark.parametrize("mode", MODES)
def test_attention(mode: str) -> None:
    net = Net(mode, 7)
    q, k, v = (net.input(2, 3, 37, 16) for _ in range(3))
    scores = net.op("matmul", (2, 3, 37, 37), x=q, y=k, transpose_x=False, transpose_y=True)
    weights = net.op("softmax", x=net.op("mul", x=scores, y=0.25), axis=-1)
    agree(net, [net.op("matmul", (2, 3, 37, 16), x=weights, y=v, transpose_x=False, transpose_y=False)], mode)
