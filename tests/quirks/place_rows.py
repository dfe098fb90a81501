"""Places in a program that an engine gets wrong: what poison shows, and what `check` names."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

import numpy as np

import aneforge as af
from aneforge import backends, mil, ops, passes
from aneforge.ir import Program, Tensor, input, origin
from aneforge.options import Options
from aneforge.targets import resolve

ALL = frozenset({"m1", "m2", "m3", "m4", "m5"})
R = np.random.default_rng(5)
FACTOR = R.standard_normal((1, 10240, 1, 1))


@dataclass(frozen=True)
class Place:
    row: str
    what: str
    build: Callable[[Tensor], Tensor]
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.row} {self.what}"

    def program(self) -> Program:
        x = input("x", self.shape)
        with origin("node"):
            return Program([("x", x)], [("y", self.build(x))])


@dataclass(frozen=True)
class Poison(Place):
    """Plain, it is NaN under ANEFORGE_POISON=1 on `target`, and finite without; lowered, it is finite either way."""

    target: str = "m5"

    def run(self, program: Program, poison: str) -> np.ndarray:
        options = Options(backend="host", target=self.target)
        with mock.patch.dict(os.environ, ANEFORGE_POISON=poison):
            executable = backends.compile(mil.write(program, options.numerics), options, resolve(self.target))
        return executable.run([R.standard_normal(t.shape).astype(np.float32) for _, t in program.inputs])[0]

    def poisons(self) -> None:
        plain = self.program()
        assert np.isnan(self.run(plain, "1")).all(), f"{self}: nothing of the poison is to be seen"
        assert np.isfinite(self.run(plain, "0")).all()
        lowered = passes.legalize(passes.optimize(plain)[0], resolve(self.target))
        assert np.isfinite(self.run(lowered, "1")).all()


@dataclass(frozen=True)
class Hazard(Place):
    """`check` names the row for the engines `who`, and for no other; lowered, nothing is left of it."""

    who: frozenset[str] = ALL

    def named(self) -> None:
        plain = self.program()
        for mac in sorted(ALL):
            found = [v for v in af.check(plain, mac) if self.row in str(v)]
            assert bool(found) == (mac in self.who), f"{self}: {mac}"
            assert af.check(passes.legalize(passes.optimize(plain)[0], resolve(mac)), mac) == []


def joined(x: Tensor) -> Tensor:
    return ops.concat((ops.slice_by_size(x, (0, 3), (2, 2)), ops.slice_by_size(x, (0, 1), (2, 2))), 1)


def wide(x: Tensor) -> Tensor:
    return ops.reshape(ops.mul(ops.reshape(x, (1, 10240, 1, 1)), FACTOR), (10240, 1))


POISON = (
    Poison("Q09", "two slices joined", joined, (2, 6), "m2"),
    Poison("Q31", "a wide affine", wide, (1, 10240)),
    Poison("Q40", "long attention", lambda x: ops.scaled_dot_product_attention(x, x, x), (1, 1, 520, 4)),
)
OLD = frozenset({"m1", "m2", "m3"})
HAZARDS = (
    Hazard("Q09", "slice_by_size", lambda x: ops.slice_by_size(x, (0, 2), (2, 3)), (2, 6), OLD),
    Hazard("Q08", "split", lambda x: ops.add(*ops.split(x, 2, axis=1)), (2, 6), OLD),
    Hazard("Q13", "reduce_log_sum_exp", lambda x: ops.reduce_log_sum_exp(x, 1, True), (2, 6)),
    Hazard("Q15", "mul", lambda x: ops.mul(ops.floor(x), 3.0), (2, 6)),
    Hazard("Q17", "round", ops.round, (2, 6)),
    Hazard("Q28", "mul", lambda x: ops.mul(ops.reduce_max(x, 1, True), 0.0), (2, 6)),
    Hazard("Q29", "output", lambda x: x, (2, 6)),
    Hazard("Q29", "reshape", lambda x: ops.relu(ops.reshape(ops.relu(x), (2, 6))), (2, 6)),
    Hazard("Q30", "square", lambda x: ops.tanh(ops.square(x)), (2, 65)),
)
