"""Small programs that show a row of the quirk table, and programs at the edge of a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import ops
from ..ir import Program, Tensor, input, origin
from ..targets import Limits
from .programs import program_of

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Probe:
    """A program whose plain fp16 meaning is `right`; another value shows the row `row`."""

    row: str
    build: Callable[..., Tensor]
    arrays: tuple[Array, ...]
    right: Array
    rtol: float = 2e-3
    atol: float = 7e-3

    def program(self) -> Program:
        with origin(self.row):
            return program_of(self.build(*(input(f"x{i}", a.shape) for i, a in enumerate(self.arrays))))

    def shown(self, got: Array) -> bool:
        """Whether `got` is another value than the plain one."""
        return not np.allclose(got, self.right, rtol=self.rtol, atol=self.atol, equal_nan=True)


def _row(*values: float) -> Array:
    return np.array([values], np.float64)


def probes() -> tuple[Probe, ...]:
    """One for each row that a value can show."""
    ones, inf, nan = np.ones((1, 4096)), np.inf, np.nan
    wide = np.array([[1.0, 5000.0, 4096.0, -6000.0, 3.0, 2.0]])
    places = np.arange(6.0)[None] + 1
    long = np.sin(np.arange(520 * 4.0)).reshape(1, 1, 520, 4)
    scores = long[0, 0] @ long[0, 0].T / 2
    weights = np.exp(scores - scores.max(1, keepdims=True))
    attended = (weights / weights.sum(1, keepdims=True) @ long[0, 0])[None, None]

    def matmul(x: Tensor) -> Tensor:
        return ops.matmul(x, np.ones((1, 2)), False, True)

    def joined(x: Tensor) -> Tensor:
        return ops.concat((ops.slice_by_size(x, (0, 3), (1, 2)), ops.slice_by_size(x, (0, 1), (1, 2))), 1)

    return (
        Probe("Q04", matmul, (_row(20000.0, 20000.0),), _row(40000.0)),
        Probe("Q06", lambda x: ops.reduce_sum(x, 1, True), (ones,), _row(4096.0)),
        Probe("Q08", lambda x: ops.slice_by_size(x, (0, 1), (1, 4)), (wide,), wide[:, 1:5]),
        Probe("Q09", joined, (places,), places[:, [3, 4, 1, 2]]),
        Probe("Q11", lambda x: ops.add(x, 1.0), (_row(nan, 1.0),), _row(nan, 2.0)),
        Probe("Q12", ops.sqrt, (_row(-1.0, 4.0),), _row(nan, 2.0)),
        Probe("Q13", lambda x: ops.reduce_log_sum_exp(x, 1, True), (np.full((1, 32), 30.0),), _row(30 + np.log(32.0))),
        Probe("Q14", ops.softplus, (_row(0.0, 12.0, 60.0),), _row(np.log(2.0), 12.0, 60.0)),
        Probe("Q15", lambda x: ops.mul(ops.floor(x), 3.0), (_row(1.5, -2.5, 7.25),), _row(3.0, -9.0, 21.0)),
        Probe("Q16", ops.round, (_row(1024.0, 1025.0, -2047.0),), _row(1024.0, 1025.0, -2047.0), rtol=0),
        Probe("Q17", ops.round, (_row(0.5, 1.5, 2.5, -0.5),), _row(0.0, 2.0, 2.0, 0.0)),
        Probe("Q21", lambda x: ops.log(x, 0.0), (_row(0.0, 1.0),), _row(-inf, 0.0)),
        Probe("Q26", ops.softsign, (_row(inf, 1.0),), _row(1.0, 0.5)),
        Probe("Q40", lambda q: ops.scaled_dot_product_attention(q, q, q), (long,), attended, atol=0.1),
        Probe("Q41", lambda x: ops.thresholded_relu(x, 1.0), (_row(1.0, 0.5, 2.0),), _row(0.0, 0.0, 2.0)),
    )


@dataclass(frozen=True)
class Edge:
    """A limit: extents to try, from the claimed one up, and the program of an extent."""

    limit: str
    extents: tuple[int, ...]
    build: Callable[[int], Program]


def edges(limits: Limits) -> tuple[Edge, ...]:
    """Limits that a small program shows. `extents` begin at what is claimed for the engine."""

    def up(claimed: int, *others: int) -> tuple[int, ...]:
        return (claimed, *(n for n in others if n > claimed))

    def of(shape: Callable[[int], tuple[int, ...]], made: Callable[[Tensor, int], Tensor]) -> Callable[[int], Program]:
        def build(n: int) -> Program:
            with origin("edge"):
                return program_of(made(input("x", shape(n)), n))

        return build

    def kernel(height: int, width: int) -> NDArray[np.float64]:
        return np.full((1, 1, height, width), 1 / (height * width))

    relu = ops.relu
    return (
        Edge("max_width", up(limits.max_width, 16385, 65536, 65537), of(lambda n: (1, n), lambda x, n: relu(x))),
        Edge(
            "max_height", up(limits.max_height, 16385, 65536, 65537), of(lambda n: (1, 1, n, 8), lambda x, n: relu(x))
        ),
        Edge("max_channels", up(limits.max_channels, 65537), of(lambda n: (1, n, 1, 1), lambda x, n: relu(x))),
        Edge(
            "kernel_width",
            up(limits.kernel_width, 14, 15, 16, 17),
            of(lambda n: (1, 1, 4, 40), lambda x, n: ops.conv(x, kernel(1, n))),
        ),
        Edge(
            "kernel_height",
            up(limits.kernel_height, 30, 32, 33),
            of(lambda n: (1, 1, 40, 4), lambda x, n: ops.conv(x, kernel(n, 1))),
        ),
        Edge(
            "pool_window",
            up(limits.pool_window, 30, 31, 32, 64),
            of(lambda n: (1, 1, 64, 8), lambda x, n: ops.max_pool(x, (n, 1), (1, 1), pad=(0, 0, 0, 0))),
        ),
    )


def models() -> dict[str, Program]:
    """Small networks whose time stands beside its estimate."""
    image = np.random.default_rng(1)

    def convolutions() -> Tensor:
        x = input("x", (1, 32, 56, 56))
        for _ in range(8):
            x = ops.relu(ops.conv(x, image.standard_normal((32, 32, 3, 3)) / 17, pad=(1, 1, 1, 1)))
        return x

    def layers() -> Tensor:
        x = input("x", (128, 512))
        for _ in range(4):
            x = ops.relu(ops.matmul(x, image.standard_normal((512, 512)) / 23, False, True))
        return x

    def attention() -> Tensor:
        q, k, v = (input(n, (1, 4, 128, 64)) for n in "qkv")
        scores = ops.softmax(ops.mul(ops.matmul(q, k, False, True), 0.125), 3)
        return ops.matmul(scores, v)

    def relu() -> Tensor:
        return ops.relu(input("x", (1, 64)))

    builds: dict[str, Callable[[], Tensor]] = {
        "one relu": relu,
        "8 convolutions": convolutions,
        "4 matrix products": layers,
        "attention": attention,
    }
    made = {}
    for name, build in builds.items():
        with origin(name):
            made[name] = program_of(build())
    return made
