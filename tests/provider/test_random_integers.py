"""Random graphs of small integers, codes, masks and floats: equal to ONNX Runtime's CPU provider, whoever runs a node."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import helper

import aneforge.provider
from tests.provider.graphs import model, reference, session

F, I64, I32, U8, I8, B = (np.dtype(t) for t in (np.float32, np.int64, np.int32, np.uint8, np.int8, np.bool_))
WIDE, BYTES = (I64, I32), (U8, I8)
GRAPHS = 40


@dataclass
class Draft:
    """A graph being drawn: what values there are, and what they hold."""

    random: random.Random
    values: dict[str, tuple[np.dtype, tuple[int, ...]]]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def const(self, *choices: float, dtype: np.dtype) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(self.random.choice(choices), dtype)
        return name

    def like(self, name: str) -> str:
        """A value of the type and shape of another."""
        return self.random.choice([n for n, v in self.values.items() if v == self.values[name]])

    def mask(self, shape: tuple[int, ...]) -> str | None:
        found = [n for n, v in self.values.items() if v == (B, shape)]
        return self.random.choice(found) if found else None

    def node(self, op: str, inputs: list[str], dtype: np.dtype, shape: tuple[int, ...], **attributes: object) -> None:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"n_{name}", **attributes))
        self.values[name] = (dtype, shape)


def along(shape: tuple[int, ...], axis: int, extent: int) -> tuple[int, ...]:
    return tuple(extent if i == axis else d for i, d in enumerate(shape))


def steps(d: Draft, x: str) -> Iterator[Callable[[], None]]:
    """What may be done with a value."""
    kind, shape = d.values[x]
    pick, axis = d.random.choice, d.random.randint(0, 1)
    number = kind != B
    yield lambda: d.node(
        "Cast", [x], to := pick([F, I64, I32, U8, I8, B]), shape, to=helper.np_dtype_to_tensor_dtype(to)
    )
    yield lambda: d.node("Concat", [x, d.like(x)], kind, along(shape, axis, 2 * shape[axis]), axis=axis)
    if number and kind != I64:
        yield lambda: d.node(pick(["ArgMax", "ArgMin"]), [x], I64, along(shape, axis, 1), axis=axis)
    if number and kind not in BYTES:
        c = d.const(1, -1, 2, 3, -5, 10, 100, dtype=kind)
        yield lambda: d.node(pick(["Add", "Sub", "Mul"]), d.random.sample([x, c], 2), kind, shape)
        yield lambda: d.node(pick(["Less", "Greater", "Equal"]), [x, d.const(0, 1, 3, 50, dtype=kind)], B, shape)
        yield lambda: d.node(pick(["ReduceMax", "ReduceMin"]), [x], kind, along(shape, axis, 1), axes=[axis])
    if number:
        low, high = d.const(0, 3, 17, dtype=kind), d.const(7, 100, 120, dtype=kind)
        yield lambda: d.node("Clip", [x, low, high], kind, shape)
        yield lambda: d.node(pick(["Max", "Min", "Add", "Sub"]), [x, d.like(x)], kind, shape)
    if number and kind != F:
        by = d.const(2, 3, 7, 10, 100, dtype=kind)
        yield lambda: d.node("Mod", [x, by], kind, shape, fmod=pick([0, 1]))
        yield lambda: d.node("Div", [x, by], kind, shape)
    if number and kind != I8 and (open_ := d.mask(shape)):
        yield lambda: d.node("Where", [open_, x, d.like(x)], kind, shape)
    if kind in (F, U8, I8):
        scale, to = d.const(0.25, 0.5, 1, 2, dtype=F), kind if kind != F else pick(BYTES)
        zero = d.const(0, 5, 100, dtype=to)
        op, made = ("QuantizeLinear", to) if kind == F else ("DequantizeLinear", F)
        yield lambda: d.node(op, [x, scale, zero], made, shape)


def draw(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    chosen, r = random.Random(seed), np.random.default_rng(seed)
    feeds = {
        "x": (r.integers(-64, 64, (3, 8)) / 4).astype(F),
        "u": r.integers(0, 256, (3, 8)).astype(U8),
        "s": r.integers(-128, 128, (3, 8)).astype(I8),
    }
    d = Draft(chosen, {n: (a.dtype, a.shape) for n, a in feeds.items()})
    for _ in range(8):
        chosen.choice(list(steps(d, chosen.choice(list(d.values)))))()
    made = [n for n in d.values if n.startswith("v")]
    types = {n: helper.np_dtype_to_tensor_dtype(kind) for n, (kind, _) in d.values.items()}
    shapes = {n: d.values[n][1] for n in made}
    return model(d.nodes, {n: a.shape for n, a in feeds.items()}, shapes, d.constants, types), feeds


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_random_integers(seed: int) -> None:
    """In fp32, where no rounding decides which side of an edge a float lies on."""
    made, feeds = draw(seed)
    run = session(made, {"numerics": "fp32"})
    report = aneforge.provider.report(run)
    assert {n.kind for n in report.nodes} & {"bug"} == set()
    assert report.regions
    for name, got, want in zip(
        [o.name for o in made.graph.output], run.run(None, feeds), reference(made, feeds), strict=True
    ):
        assert got.dtype == want.dtype
        assert np.allclose(got, want, rtol=1e-6) if want.dtype.kind == "f" else np.array_equal(got, want), name
