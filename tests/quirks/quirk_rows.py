"""One entry for each row of the quirk table: how the host backend shows it, what works around it, or why neither is here.

A case is a program written plainly. `shows`: run as it is, it gives another value than it should. `mends`: rewritten, it
gives the right one, and the form that is never sent is gone. tests/quirks/mutate.py takes each simulation and each
workaround away and looks which of the two checks fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from aneforge import backends, mil, ops, passes
from aneforge.ir import Op, Program, Tensor, const, input, origin
from aneforge.options import Options
from aneforge.targets import resolve

Build = Callable[..., Tensor]
INF = math.inf
R = np.random.default_rng(11)


@dataclass(frozen=True)
class Case:
    """`forbidden` says which operations must not be left. `workarounds` are names of mutate.py. `wrong` False: the plain
    program is not run, because no backend here fails with it."""

    row: str
    what: str
    build: Build
    arrays: tuple[np.ndarray, ...]
    want: Callable[..., np.ndarray]
    workarounds: tuple[str, ...]
    target: str = "m1"
    wrong: bool = True
    forbidden: Callable[[Op], bool] = field(default=lambda op: False)
    rtol: float = 2e-3

    def __str__(self) -> str:
        return f"{self.row} {self.what}"

    def program(self) -> Program:
        tensors = [input(f"x{i}", a.shape) for i, a in enumerate(self.arrays)]
        with origin("node"):
            made = self.build(*tensors)
        return Program([(f"x{i}", t) for i, t in enumerate(tensors)], [("y", made)])

    def run(self, program: Program) -> np.ndarray:
        options = Options(backend="host", target=self.target)
        executable = backends.compile(mil.write(program, options.numerics), options, resolve(self.target))
        fed = [self.arrays[int(port.name.removeprefix("x"))].astype(np.float32) for port in executable.inputs]
        return executable.run(fed)[0].astype(np.float64)

    def right(self) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(self.want(*(a.astype(np.float16).astype(np.float64) for a in self.arrays)))

    def close(self, got: np.ndarray) -> bool:
        return np.allclose(got, self.right(), rtol=self.rtol, atol=7e-3, equal_nan=True)

    def shows(self) -> None:
        got = self.run(self.program())
        assert not self.close(got), f"{self}: nothing of the quirk is to be seen"

    def mends(self) -> None:
        target = resolve(self.target)
        after = passes.legalize(passes.optimize(self.program())[0], target)
        left = [op.kind for op in after.ops if self.forbidden(op)]
        assert not any(t.op.is_leaf for _, t in after.outputs), f"{self}: an output is an input"
        assert not left, f"{self}: still there: {left}"
        np.testing.assert_allclose(self.run(after), self.right(), rtol=self.rtol, atol=7e-3, err_msg=str(self))


def kind(*kinds: str) -> Callable[[Op], bool]:
    return lambda op: op.kind in kinds


def width_offset(op: Op) -> bool:
    return op.kind == "slice_by_size" and op.params["begin"][-1] > 0


def standard(x: np.ndarray, epsilon: float = 1e-5) -> np.ndarray:
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(1, keepdims=True) + epsilon)


def soft(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def norm_in_pieces(x: Tensor) -> Tensor:
    d = ops.sub(x, ops.reduce_mean(x, 1, True))
    return ops.real_div(d, ops.sqrt(ops.add(ops.reduce_mean(ops.mul(d, d), 1, True), 1e-5)))


def attend(q: np.ndarray) -> np.ndarray:
    return soft(q @ np.swapaxes(q, -1, -2) / math.sqrt(q.shape[-1])) @ q


def whole(shape: tuple[int, ...], most: int) -> np.ndarray:
    return R.integers(-most, most + 1, shape).astype(np.float64)


LOW = float(np.finfo(np.float32).min)
WIDE = R.standard_normal((1, 1024, 1, 1))
CASES = (
    Case("Q04", "a sum of 64000", lambda x: ops.reduce_sum_wide(x, 1), (np.full((1, 64), 1000.0),),
         lambda x: x.sum(1, keepdims=True), ("composition:reduce_sum_wide",), wrong=False),
    Case("Q04", "by a product with ones", lambda x: ops.matmul(x, np.ones((1, 64)), False, True),
         (np.full((1, 64), 1000.0),), lambda x: x.sum(1, keepdims=True), ()),
    Case("Q06", "sum", lambda x: ops.reduce_sum(x, 1, True), (np.ones((1, 4096)),),
         lambda x: x.sum(1, keepdims=True), ("rule:wide-sum",)),
    Case("Q06", "log of a sum", lambda x: ops.reduce_log_sum(x, 1, True), (np.full((1, 4096), 2.0),),
         lambda x: np.log(x.sum(1, keepdims=True)), ("rule:log-sum",), wrong=False, forbidden=kind("reduce_log_sum")),
    Case("Q08", "slice", lambda x: ops.slice_by_size(x, (0, 2), (2, 3)), (whole((2, 6), 6000) * 8,),
         lambda x: x[:, 2:5], ("rule:width-slice",), forbidden=width_offset),
    Case("Q09", "two slices joined", lambda x: ops.concat((ops.slice_by_size(x, (0, 3), (2, 2)), ops.slice_by_size(x, (0, 1), (2, 2))), 1),
         (whole((2, 6), 50),), lambda x: np.concatenate([x[:, 3:5], x[:, 1:3]], 1), ("rule:width-slice",),
         wrong=False, forbidden=width_offset),
    Case("Q12", "root of a negative number", ops.sqrt, (np.array([[-1.0, 4.0]]),), np.sqrt, ()),
    Case("Q12", "a row of nothing but masked", lambda x: ops.softmax(ops.add(x, np.full((1, 6), -INF)), -1),
         (np.zeros((2, 6)),), soft, ("rule:mask-clamp",), wrong=False),
    Case("Q13", "log-sum-exp", lambda x: ops.reduce_log_sum_exp(x, 1, True), (np.full((1, 32), 30.0),),
         lambda x: x[:, :1] + np.log(32), ("rule:log-sum-exp",)),
    Case("Q14", "softplus", ops.softplus, (np.array([[-3.0, 0.0, 12.0, 60.0]]),),
         lambda x: np.logaddexp(x, 0), ("rule:softplus",), "m4"),
    Case("Q15", "floor and a factor", lambda x: ops.mul(ops.floor(x), 3.0), (np.array([[1.5, -2.5, 7.25]]),),
         lambda x: np.floor(x) * 3, ("rule:rounded-scale",), "m4"),
    Case("Q15", "of one element", lambda x: ops.mul(ops.floor(x), 3.0), (np.array([[7.25]]),),
         lambda x: np.floor(x) * 3, ("rule:rounded-scale-1",), "m4"),
    Case("Q16", "round from 1024 up", ops.round, (np.array([[1024.0, 1025.0, -2047.0]]),), np.rint, ("rule:round",), "m4", rtol=0),
    Case("Q17", "ties", ops.round, (np.array([[0.5, 1.5, 2.5, -0.5, -1.5]]),), np.rint, ("rule:round",)),
    Case("Q19", "a small epsilon", lambda x: ops.layer_norm(x, (1,), None, None, 1e-12), (np.zeros((2, 8)),),
         lambda x: x * 0.0, ("rule:norm-forms",), wrong=False, forbidden=kind("layer_norm")),
    Case("Q21", "log of zero", ops.log, (np.array([[0.0, 1.0, 2.0]]),), np.log, ("rule:log-zero",)),
    Case("Q24", "log of softmax", lambda x: ops.log(ops.softmax(x, 1), 0.0), (np.array([[0.0, 60.0, 5.0]]),),
         lambda x: np.log(soft(x)), ("rule:log-softmax",)),
    Case("Q26", "softsign of infinity", ops.softsign, (np.array([[INF, 1.0]]),), lambda x: np.array([[1.0, 0.5]]), ()),
    Case("Q26", "softplus of infinity", ops.softplus, (np.array([[INF, 1.0]]),),
         lambda x: np.logaddexp(x, 0), ("rule:softplus",), wrong=False),
    Case("Q27", "two masks", lambda x: ops.softmax(ops.add(ops.add(x, np.full((1, 6), LOW)), np.full((2, 1), -65504.0)), -1),
         (np.zeros((2, 6)),), soft, ("rule:mask-clamp",), rtol=2e-2, wrong=False),
    Case("Q28", "a reduction times 0", lambda x: ops.mul(ops.reduce_max(x, 1, True), 0.0), (np.ones((2, 4)),),
         lambda x: x[:, :1] * 0, ("rule:zero-product",), wrong=False,
         forbidden=lambda op: op.kind == "mul" and any(s.op.kind == "reduce_max" for s in op.sources)),
    Case("Q29", "a reshape to the same shape", lambda x: ops.relu(ops.reshape(ops.relu(x), (3, 4))), (np.ones((3, 4)),),
         lambda x: x, ("rule:view-noop",), wrong=False, forbidden=kind("reshape")),
    Case("Q29", "identity", lambda x: ops.relu(ops.identity(ops.relu(x))), (np.ones((3, 4)),),
         lambda x: x, ("rule:identity",), wrong=False, forbidden=kind("identity")),
    Case("Q29", "an output that is an input", lambda x: x, (np.ones((3, 4)),), lambda x: x, ("ports",), wrong=False),
    Case("Q30", "square", lambda x: ops.tanh(ops.square(x)), (np.ones((1, 65)),), lambda x: np.tanh(x * x),
         ("rule:square",), wrong=False, forbidden=kind("square")),
    Case("Q31", "a wide affine between reshapes",
         lambda x: ops.reshape(ops.mul(ops.reshape(x, (1, 1024, 1, 1)), WIDE), (1024, 1)), (np.ones((1, 1024)),),
         lambda x: x.reshape(1024, 1) * WIDE.reshape(1024, 1), ("rule:channel-affine",), wrong=False,
         forbidden=lambda op: op.kind == "mul" and op.types[0].shape == (1, 1024, 1, 1)),
    Case("Q32", "pads of two axes", lambda x: ops.pad(x, (1, 1, 1, 1, 0, 0, 0, 0), "constant", 2.0), (np.ones((2, 3, 4, 5)),),
         lambda x: np.pad(x, ((1, 1), (1, 1), (0, 0), (0, 0)), constant_values=2.0), ("rule:pad-axes",), wrong=False,
         forbidden=lambda op: op.kind == "pad" or (op.kind == "concat" and sum(s.is_const for s in op.sources) > 1)),
    Case("Q32", "a value between two constants", lambda x: ops.concat((const(np.ones((1, 4))), x, const(np.ones((2, 4)))), 0),
         (np.full((3, 4), 2.0),), lambda x: np.concatenate([np.ones((1, 4)), x, np.ones((2, 4))]), ("rule:concat-pairs",),
         wrong=False, forbidden=lambda op: op.kind == "concat" and len(op.sources) > 2),
    Case("Q36", "a norm of large values", lambda x: ops.reduce_l2_norm(x, 1, True), (np.full((2, 8), 900.0),),
         lambda x: np.sqrt((x * x).sum(1, keepdims=True)), ("rule:l2-norm",), wrong=False, forbidden=kind("reduce_l2_norm")),
    Case("Q36", "squares added up", lambda x: ops.reduce_sum_square(x, 1, True), (np.full((1, 4096), 1.5),),
         lambda x: (x * x).sum(1, keepdims=True), ("rule:wide-sum",)),
    Case("Q37", "layer norm of large values", norm_in_pieces, (R.standard_normal((4, 8)) * 3000,), standard,
         ("rule:unit-variance",), rtol=1e-2),
    Case("Q37", "layer norm as an operation", lambda x: ops.layer_norm(x, (1,)), (R.standard_normal((4, 64)) * 3000,), standard,
         ("rule:norm-forms",), rtol=1e-2, wrong=False, forbidden=kind("layer_norm")),
    Case("Q40", "the engine's attention", lambda q: ops.scaled_dot_product_attention(q, q, q), (R.standard_normal((1, 2, 5, 4)),),
         attend, ("rule:attention",), wrong=False, forbidden=kind("scaled_dot_product_attention")),
    Case("Q41", "the threshold itself", lambda x: ops.relu_above(x, 1.0), (np.array([[1.0, 0.5, 2.0]]),),
         lambda x: np.where(x > 1, x, 0), ("composition:relu_above",), wrong=False),
    Case("Q41", "as MIL defines it", lambda x: ops.thresholded_relu(x, 1.0), (np.array([[1.0, 0.5, 2.0]]),),
         lambda x: np.where(x >= 1, x, 0), ("rule:thresholded-relu",), wrong=False, forbidden=kind("thresholded_relu")),
    Case("Q46", "resize", lambda x: ops.upsample_nearest_neighbor(x, 2, 2), (whole((1, 1, 2, 3), 9),),
         lambda x: x.repeat(2, 2).repeat(2, 3), ("rule:resize",), wrong=False, forbidden=kind("upsample_nearest_neighbor")),
    Case("Q47", "sine", ops.sin, (np.linspace(-20, 20, 24).reshape(2, 12),), np.sin, ("rule:sine",), wrong=False,
         forbidden=kind("sin"), rtol=1e-2),
)  # fmt: skip

NO_CASE = {
    "Q01": "it is the arithmetic of numerics engine and fp16 themselves: nothing to switch off",
    "Q02": "it is the order of the host's kernels: nothing to switch off",
    "Q03": "the order of the sum is not simulated, and no order is relied upon",
    "Q05": "two fuzzer graphs, no cause known: nothing to imitate and nothing to avoid",
    "Q07": "at most one unit in the last place: within every tolerance",
    "Q10": "int8 weights are chosen only within a proven bound (tests/passes/test_compress.py); simulated: test_host_places.py",
    "Q11": "shown at the ports by tests/native/test_host_quirks.py; models with NaN constants are refused by the importer",
    "Q18": "ties at the output grid: one unit in the last place, and nothing can be done about it",
    "Q20": "the sign of a zero",
    "Q22": "fp16's own range: exp is given what its maximum was subtracted from (Q13, Q24)",
    "Q23": "the operation is right as it is",
    "Q25": "tables that nobody published: tolerances",
    "Q33": "a refusal by passes/limits.py, tested in tests/passes/test_legalize.py",
    "Q34": "the compiler's process, which the host backend does not have",
    "Q35": "the compiler's time, which the host backend does not have",
    "Q38": "the importer keeps integers off the engine: tests/onnx/test_onnx_ranges.py",
    "Q39": "no text form of argmax is sent at all",
    "Q42": "no integers are computed with: trunc is a composition, tested in tests/ops",
    "Q43": "within fp16's tolerance",
    "Q44": "a property that the host has, too: tests/native",
    "Q45": "bools do not cross a region: tests/provider",
}

# Simulations that only a case of its own would show, and why there is none.
NO_SIMULATION = {
    "Q10": "on a text with 8-bit weights: tests/native/test_host_places.py",
    "Q11": "at the ports, not in a program: tests/native/test_host_quirks.py",
    "Q41": "the host computes what MIL defines, which is the quirk: nothing to switch off",
}
