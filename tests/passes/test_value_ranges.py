"""Bounds hold for what an independent evaluator computes, and what is built on them: halved sums, and risks."""

from __future__ import annotations

import numpy as np
import pytest
from ops.evaluate import program as built
from ops.evaluate import run

from aneforge import ir, ops, passes, pipeline
from aneforge.onnx.importer import import_graph
from aneforge.onnx.view import from_model
from aneforge.options import Options
from aneforge.passes.headroom import halved, risks
from aneforge.passes.ranges import Range, ranges
from aneforge.targets import resolve
from tests.provider.graphs import model, node

M1 = resolve("m1")
DRAW = np.random.default_rng(7)


def weights(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


# From y in [-3, 5], [2, 3, 6, 6]
FORMS = {
    "add": lambda y: ops.add(y, 2.5),
    "sub": lambda y: ops.sub(1.0, y),
    "mul": lambda y: ops.mul(y, -2.0),
    "mul with itself": lambda y: ops.mul(y, y),
    "mul of two": lambda y: ops.mul(y, ops.sub(y, 4.0)),
    "real_div": lambda y: ops.real_div(y, ops.add(ops.sigmoid(y), 0.5)),
    "real_div negative": lambda y: ops.real_div(y, ops.sub(ops.sigmoid(y), 2.0)),
    "maximum": lambda y: ops.maximum(y, 1.0),
    "minimum": lambda y: ops.minimum(y, 1.0),
    "abs": ops.abs,
    "square": lambda y: ops.square(ops.add(y, 10.0)),
    "clip": lambda y: ops.clip(y, -1.0, 2.0),
    "relu": ops.relu,
    "relu6": lambda y: ops.relu6(ops.mul(y, 3.0)),
    "silu": ops.silu,
    "gelu": ops.gelu,
    "elu": lambda y: ops.elu(y, 1.5),
    "leaky_relu": lambda y: ops.leaky_relu(y, 0.1),
    "leaky_relu negative": lambda y: ops.leaky_relu(y, -0.5),
    "sigmoid": ops.sigmoid,
    "sigmoid_hard": lambda y: ops.sigmoid_hard(y, 0.2, 0.5),
    "softmax": lambda y: ops.softmax(y, 1),
    "tanh": ops.tanh,
    "exp": ops.exp,
    "sqrt": lambda y: ops.sqrt(ops.abs(y)),
    "log": lambda y: ops.log(ops.add(ops.abs(y), 0.5), 0.0),
    "floor": ops.floor,
    "ceil": ops.ceil,
    "erf": ops.erf,
    "select": lambda y: ops.select(ops.greater(y, 0.0), ops.mul(y, 2.0), ops.sub(y, 7.0)),
    "concat": lambda y: ops.concat((y, ops.mul(y, 3.0)), 1),
    "transpose": lambda y: ops.transpose(y, (0, 2, 3, 1)),
    "pad": lambda y: ops.pad(y, (1, 1, 1, 1), "constant", 9.0),
    "max_pool": lambda y: ops.max_pool(y, 2, 2, "custom", (1, 1, 1, 1)),
    "avg_pool": lambda y: ops.avg_pool(ops.add(y, 10.0), 2, 2, "custom", (1, 1, 1, 1)),
    "reduce_sum": lambda y: ops.reduce_sum(y, (2, 3), True),
    "reduce_mean": lambda y: ops.reduce_mean(y, (1,), True),
    "reduce_max": lambda y: ops.reduce_max(y, (1,), True),
    "conv": lambda y: ops.conv(y, weights(4, 3, 3, 3)),
    "conv padded": lambda y: ops.conv(ops.add(y, 5.0), weights(4, 3, 3, 3), pad_type="custom", pad=(1, 1, 1, 1)),
    "conv of one sign": lambda y: ops.conv(ops.relu(y), weights(4, 3, 2, 2)),
    "conv in groups": lambda y: ops.conv(y, weights(6, 1, 3, 3), groups=3),
    "conv_transpose": lambda y: ops.conv_transpose(y, weights(3, 4, 2, 2)),
    "matmul": lambda y: ops.matmul(y, weights(6, 5)),
    "matmul transposed": lambda y: ops.matmul(y, weights(5, 6), transpose_y=True),
    "matmul of two": lambda y: ops.matmul(y, y, transpose_y=True),
    "linear": lambda y: ops.linear(ops.reshape(y, (36, 6)), weights(5, 6), weights(5)),
    "linear_activation": lambda y: ops.linear_activation(y, -2.0, 3.0),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_bounds_hold(form: str) -> None:
    x = ir.input("x0", (2, 3, 6, 6))
    out = FORMS[form](ops.clip(x, -3.0, 5.0))
    made = built(out)
    bound = ranges(made)[made.outputs[0][1]]
    assert bound.closed
    for scale in (1.0, 100.0):  # the second: values at the ends only
        got = run(made, {"x0": DRAW.standard_normal(x.shape) * scale}, "fp32")["y0"].astype(np.float64)
        assert bound.low * (1 + 1e-6) - 1e-4 <= got.min()
        assert got.max() <= bound.high * (1 + 1e-6) + 1e-4


@pytest.mark.parametrize("form", ["conv", "matmul", "matmul transposed", "linear", "mul with itself", "reduce_sum"])
def test_bounds_are_near(form: str) -> None:
    """The worst input, found by trying signs: it reaches 6 tenths of the bound."""
    x = ir.input("x0", (2, 3, 6, 6))
    made = built(FORMS[form](ops.clip(x, -5.0, 5.0)))
    bound = ranges(made)[made.outputs[0][1]]
    best = np.zeros(x.shape)
    reached = 0.0
    for i in range(1500):
        tried = np.where(DRAW.random(x.shape) < (0.5 if i < 50 else 0.03), -best + 5 * (best == 0), best)
        size = float(np.abs(run(made, {"x0": tried}, "fp32")["y0"]).max())
        if size >= reached:
            reached, best = size, tried
    assert reached > 0.6 * bound.size


def test_what_is_known_of_inputs() -> None:
    bytes_, promised, other = ir.input("x0", (2, 3), "uint8"), ops_input(4.0), ir.input("x2", (2, 3))
    made = built(ops.add(ops.cast(bytes_, "fp16"), ops.add(promised, other)))
    found = {t.op.params["name"]: r for t, r in ranges(made).items() if t.op.kind == "input"}
    assert found == {"x0": Range(0, 255), "x1": Range(-4, 4), "x2": Range()}


def ops_input(bound: float) -> ir.Tensor:
    from aneforge.ops import builders  # noqa: PLC0415

    return builders.input((2, 3), max_abs=bound, name="x1")


def test_unknown_stays_unknown() -> None:
    x = ir.input("x0", (4, 4))
    made = built(ops.sub(ops.exp(x), ops.relu(x)))
    assert ranges(made)[made.outputs[0][1]] == Range()
    made = built(ops.matmul(x, weights(4, 4)))
    assert ranges(made)[made.outputs[0][1]] == Range()


class TestHalved:
    """The sum of 48 products of 1000 and something in [0, 1]: up to 48000, beyond the engine's 32752, within fp16."""

    def products(self) -> ir.Program:
        x = ir.input("x0", (2, 48))
        return built(
            ops.relu(ops.matmul(ops.clip(x, 0.0, 1.0), np.full((3, 48), 1000.0, np.float32), transpose_y=True))
        )

    def test_before_and_after(self) -> None:
        before = self.products()
        after = halved(before, M1, ranges(before))
        assert [op.kind for op in before.ops if not op.is_leaf] == ["clip", "matmul", "relu"]
        assert [op.kind for op in after.ops if not op.is_leaf] == ["clip", "matmul", "mul", "relu"]
        x = DRAW.random((2, 48))
        assert np.allclose(run(before, {"x0": x}, "fp32")["y0"], run(after, {"x0": x}, "fp32")["y0"])

    def test_the_engine_gives_the_number(self) -> None:
        options = Options.parse({"backend": "host", "target": "m1"})
        x = np.ones((2, 48), np.float32)
        (got,) = pipeline.compile_program(self.products(), options, M1).executable.run([x], [np.float32])
        assert np.allclose(got, 48000, rtol=1e-3)
        unhalved = pipeline.finish(pipeline.Lowered(passes.legalize(self.products(), M1), {}, (), {}), options, M1)
        assert np.isinf(unhalved.executable.run([x], [np.float32])[0]).all()

    def test_origins_stay(self) -> None:
        with ir.origin(3):
            before = self.products()
            after = halved(before, M1, ranges(before))
            before = self.products()
        after = halved(before, M1, ranges(before))
        assert all(after.origins(op) == {3} for op in after.ops if not op.is_leaf)

    def test_what_is_small_or_too_large_is_left_alone(self) -> None:
        for scale in (10.0, 5000.0):
            x = ir.input("x0", (2, 48))
            made = built(ops.matmul(ops.sigmoid(x), np.full((3, 48), scale, np.float32), transpose_y=True))
            assert halved(made, M1, ranges(made)) is made


class TestRisks:
    @pytest.mark.parametrize(
        ("build", "text"),
        [
            (lambda x: ops.matmul(ops.sigmoid(x), np.full((48, 3), 5000.0, np.float32)), "may reach 2.4"),
            (lambda x: ops.mul(ops.clip(x, 0.0, 6.0), 20000.0), "values may reach 1.2e+05"),
            (lambda x: ops.log(ops.softmax(x, -1), 0.0), "log of a softmax"),
            (lambda x: ops.log(ops.clip(x, 1e-10, 1.0), 0.0), "numbers down to 1e-10"),
            (lambda x: ops.real_div(x, ops.exp(x)), "real_div of a exp"),
        ],
    )
    def test_are_named(self, build: object, text: str) -> None:
        program = built(build(ir.input("x0", (2, 48))))  # type: ignore[operator]
        found = risks(program, M1, ranges(program))
        assert any(text in risk.text for risk in found), found

    @pytest.mark.parametrize(
        "build",
        [
            lambda x: ops.matmul(x, np.full((48, 3), 5000.0, np.float32)),
            lambda x: ops.matmul(ops.sigmoid(x), np.full((48, 3), 50.0, np.float32)),
            lambda x: ops.log(ops.add(ops.softmax(x, -1), 1e-3), 0.0),
            lambda x: ops.log(ops.softmax(x, -1), 1e-3),
            lambda x: ops.real_div(x, ops.add(ops.exp(x), 1.0)),
        ],
    )
    def test_no_noise(self, build: object) -> None:
        program = built(build(ir.input("x0", (2, 48))))  # type: ignore[operator]
        assert not risks(program, M1, ranges(program))

    def test_loose_bounds_say_nothing(self) -> None:
        y = ops.sigmoid(ir.input("x0", (2, 48)))
        for _ in range(4):
            y = ops.relu(ops.matmul(y, np.full((48, 48), 3.0, np.float32)))
        made = built(y)
        assert ranges(made)[made.outputs[0][1]].size > 1e6
        assert not risks(made, M1, ranges(made))

    def test_models_carry_them(self) -> None:
        made = model([node("Clip", "x lo hi", "c"), node("MatMul", "c w", "y")], {"x": [2, 48]}, {"y": [2, 3]},
                     {"w": np.full((48, 3), 5000, np.float32), "lo": np.float32(0), "hi": np.float32(1)})  # fmt: skip
        imported = import_graph(from_model(made), Options(), M1, passes.check_node)
        lowered = pipeline.lower(imported.program(), Options.parse({"target": "m1"}), M1)
        assert [(set(risk.origins), "2.4" in risk.text) for risk in lowered.risks] == [({1}, True)]


def test_reports_show_them() -> None:
    import aneforge.provider  # noqa: PLC0415
    from tests.provider.graphs import session  # noqa: PLC0415

    made = model([node("Sigmoid", "x", "c"), node("MatMul", "c w", "y")], {"x": [2, 48]}, {"y": [2, 3]},
                 {"w": np.full((48, 3), 5000, np.float32)})  # fmt: skip
    warnings = aneforge.provider.report(session(made)).warnings
    assert len(warnings) == 1
    assert warnings[0].startswith("MatMul 'n_y': matmul: its sums may reach 2.4")
    assert not aneforge.provider.report(session(model([node("Exp", "x", "y")], {"x": [2]}, {"y": [2]}))).warnings
