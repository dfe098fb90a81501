"""RNN, GRU and LSTM, unrolled: for sequences of known and moderate length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor, const
from ...ops.recurrent import Activation, Layer, State, gru, lstm, rnn
from ..node import Node, finite, flag
from ..registry import Known, Value, onnx_op
from ..tensors import Array

LONGEST = 512
"""Steps that one node may be unrolled to, both directions counted: about 20 operations each."""

_DEFAULTS: dict[str, tuple[float | None, float | None]] = {
    "leakyrelu": (0.01, None),
    "thresholdedrelu": (None, None),
    "elu": (1.0, None),
    "hardsigmoid": (0.2, 0.5),
    "affine": (None, None),
    "scaledtanh": (None, None),
}
"""alpha and beta where a node gives none: those of the operators of these names. Three have none that is agreed upon:
ThresholdedRelu is 1 in ONNX and 0 in ONNX Runtime.
"""
_TWO = ("hardsigmoid", "affine", "scaledtanh")
Run = Callable[[Tensor, Layer, list[State], int], tuple[Tensor, list[State]]]


def _activations(names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]) -> list[Activation]:
    """The functions of a list of names; alphas and betas are taken in order by those that have them."""
    first, second = list(alphas), list(betas)
    made: list[Activation] = []
    for given in names:
        name = given.lower()
        alpha, beta = _DEFAULTS.get(name, (None, None))
        if name in _DEFAULTS:
            alpha = first.pop(0) if first else alpha
            beta = second.pop(0) if name in _TWO and second else beta
            if alpha is None or (name in _TWO and beta is None):
                raise Refused("attribute form", f"the activation {given} without its alpha and beta")
        made.append(_activation(given, alpha or 0.0, beta or 0.0))
    if first or second:
        raise Refused("attribute form", "more values in activation_alpha or activation_beta than its activations take")
    return made


def _activation(given: str, alpha: float, beta: float) -> Activation:
    match given.lower():
        case "sigmoid":
            return ops.sigmoid
        case "tanh":
            return ops.tanh
        case "relu":
            return ops.relu
        case "softsign":
            return ops.softsign
        case "softplus":
            return ops.softplus_safe
        case "leakyrelu":
            return lambda x: ops.leaky_relu(x, alpha)
        case "thresholdedrelu":
            return lambda x: ops.relu_above(x, alpha)
        case "elu":
            return lambda x: ops.elu(x, alpha)
        case "hardsigmoid":
            return lambda x: ops.sigmoid_hard(x, alpha, beta)
        case "affine":
            return lambda x: ops.add(ops.mul(x, alpha), beta)
        case "scaledtanh":
            return lambda x: ops.mul(ops.tanh(ops.mul(x, beta)), alpha)
        case _:
            raise Refused("attribute form", f"the activation {given!r}")


class _Form:
    """What a node says beside its equations."""

    def __init__(self, node: Node, x: Tensor, w: Array, r: Array, gates: int, attributes: dict[str, Any]) -> None:
        self.node = node
        self.layout = flag(attributes["layout"], "layout")
        if x.rank != 3 or w.ndim != 3 or r.ndim != 3:
            raise Refused("rank", f"X of rank {x.rank}, W of {w.ndim}, R of {r.ndim}; all have 3")
        self.x = ops.transpose(x, (1, 0, 2)) if self.layout else x
        self.steps, self.batch, features = self.x.shape
        self.directions, self.hidden = w.shape[0], r.shape[2]
        directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
        direction = attributes["direction"].lower()
        if direction not in directions:
            raise Refused("attribute form", f"the direction {direction!r}")
        self.reverse = directions[direction]
        wanted = [(len(self.reverse), gates * self.hidden, n) for n in (features, self.hidden)]
        if [w.shape, r.shape] != wanted or attributes["hidden_size"] not in (None, self.hidden):
            raise Refused("attribute form", f"W of shape {w.shape} and R of {r.shape} where {wanted} are needed")
        total = self.steps * self.directions
        if total > LONGEST:
            raise Refused("limit", f"{total} steps to unroll; up to {LONGEST} are unrolled")
        self.shape = (self.directions, gates, self.hidden)
        self.w = finite(w, "W").reshape(*self.shape, -1)
        self.r = finite(r, "R").reshape(*self.shape, -1)
        for value, what in ((w, "W"), (r, "R")):
            node.const(value.reshape(-1), what)
        self.clip = attributes["clip"]
        if self.clip is not None and not self.clip > 0:
            raise Refused("attribute form", f"clip = {self.clip}")
        names = attributes["activations"]
        count = {1: 1, 3: 2, 4: 3}[gates]
        defaults = {1: ["Tanh"], 3: ["Sigmoid", "Tanh"], 4: ["Sigmoid", "Tanh", "Tanh"]}[gates]
        names = list(names) if names is not None else defaults * self.directions
        if gates == 1:  # its schema's default names two, whatever the direction, and ONNX Runtime fills it in
            names = names[: self.directions]
        if len(names) != count * self.directions:
            raise Refused("attribute form", f"{len(names)} activations; {count} for each direction are needed")
        functions = _activations(names, attributes["activation_alpha"], attributes["activation_beta"])
        self.activations = [functions[d * count : (d + 1) * count] for d in range(self.directions)]

    def layer(self, d: int, bias: Array | None, lengths: Array | None) -> Layer:
        """The constants of direction `d`. bias [D, 2 G H]; lengths [B]."""
        biases = None if bias is None else self.parameter(bias, "B", 2 * self.shape[1])[d].reshape(2, *self.shape[1:])
        return Layer(
            self.w[d],
            self.r[d],
            self.activations[d],
            input_bias=None if biases is None else biases[0],
            state_bias=None if biases is None else biases[1],
            clip=self.clip,
            lengths=None if lengths is None else self._lengths(lengths),
            reverse=self.reverse[d],
        )

    def parameter(self, value: Array, what: str, rows: int) -> Array:
        """A parameter [D, rows * H] as [D, rows, H]."""
        if value.shape != (self.directions, rows * self.hidden):
            raise Refused(
                "attribute form", f"{what} of shape {value.shape}; {(self.directions, rows * self.hidden)} is needed"
            )
        self.node.const(finite(value, what), what)
        return value.reshape(self.directions, rows, self.hidden)

    def _lengths(self, value: Array) -> list[int] | None:
        lengths = [int(v) for v in value.reshape(-1)]
        if value.shape != (self.batch,) or min(lengths) < 1 or max(lengths) > self.steps:
            raise Refused("attribute form", f"sequence_lens {lengths} for {self.batch} sequences of {self.steps} steps")
        return None if min(lengths) == self.steps else lengths

    def state(self, value: Value | None, d: int, what: str) -> State:
        """The initial state [B, H] of direction `d`; None where it is 0."""
        if value is None:
            return None
        axis = 1 if self.layout else 0
        shape = [self.batch, self.hidden]
        shape.insert(axis, self.directions)
        if value.shape != tuple(shape):
            raise Refused("attribute form", f"{what} of shape {value.shape}; {tuple(shape)} is needed")
        if isinstance(value, np.ndarray):
            self.node.const(finite(value, what), what)
            return const(value.take(d, axis)) if value.any() else None
        return ops.reshape(ops.slice_axis(value, axis, d, 1), (self.batch, self.hidden))

    def sequence(self, ys: Sequence[Tensor]) -> Tensor:
        """Y [S, D, B, H], or [B, S, D, H], of [S * B, H] for each direction."""
        y = ops.concat_any([ops.reshape(y, (self.steps, 1, self.batch, self.hidden)) for y in ys], 1)
        return ops.transpose(y, (2, 0, 1, 3)) if self.layout else y

    def last(self, states: Sequence[State]) -> Tensor:
        """Y_h or Y_c [D, B, H], or [B, D, H]."""
        shape = (self.batch, 1, self.hidden) if self.layout else (1, self.batch, self.hidden)
        return ops.concat_any([ops.reshape(h, shape) for h in states if h is not None], 1 if self.layout else 0)

    def run(
        self, run: Run, bias: Array | None, lengths: Array | None, initial: Sequence[tuple[Value | None, str]]
    ) -> list[Tensor | None]:
        """Y and the last states."""
        ys, last = [], []
        for d in range(self.directions):
            states = [self.state(value, d, what) for value, what in initial]
            y, states = run(self.x, self.layer(d, bias, lengths), states, d)
            ys.append(y)
            last.append(states)
        whole = self.sequence(ys) if self.node.wanted(0) else None
        return [whole, *(self.last(states) for states in zip(*last, strict=True))]


_VERSIONS = (1, 7, 14, 22)
_ABSENT = ("output_sequence",)
"""Version 1 says with it whether Y is wanted; whether somebody reads it says the same."""


@onnx_op("RNN", since=_VERSIONS, ignores=_ABSENT)
def rnn_(
    node: Node,
    X: Tensor,
    W: Known,
    R: Known,
    B: Known | None = None,
    sequence_lens: Known | None = None,
    initial_h: Value | None = None,
    *,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> list[Tensor | None]:
    """Known weights, a known number of steps."""
    form = _Form(node, X, W, R, 1, {
        "activations": activations, "activation_alpha": activation_alpha, "activation_beta": activation_beta,
        "clip": clip, "direction": direction, "hidden_size": hidden_size, "layout": layout,
    })  # fmt: skip
    return form.run(lambda x, layer, states, d: rnn(x, layer, states[0]), B, sequence_lens, [(initial_h, "initial_h")])


@onnx_op("GRU", since=(*_VERSIONS, 3), ignores=_ABSENT)
def gru_(
    node: Node,
    X: Tensor,
    W: Known,
    R: Known,
    B: Known | None = None,
    sequence_lens: Known | None = None,
    initial_h: Value | None = None,
    *,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> list[Tensor | None]:
    """Known weights, a known number of steps; either place of the reset gate."""
    form = _Form(node, X, W, R, 3, {
        "activations": activations, "activation_alpha": activation_alpha, "activation_beta": activation_beta,
        "clip": clip, "direction": direction, "hidden_size": hidden_size, "layout": layout,
    })  # fmt: skip
    late = flag(linear_before_reset, "linear_before_reset")
    return form.run(
        lambda x, layer, states, d: gru(x, layer, states[0], late),
        B,
        sequence_lens,
        [(initial_h, "initial_h")],
    )


@onnx_op("LSTM", since=_VERSIONS, ignores=_ABSENT)
def lstm_(
    node: Node,
    X: Tensor,
    W: Known,
    R: Known,
    B: Known | None = None,
    sequence_lens: Known | None = None,
    initial_h: Value | None = None,
    initial_c: Value | None = None,
    P: Known | None = None,
    *,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> list[Tensor | None]:
    """Known weights, a known number of steps; peepholes, coupled gates."""
    form = _Form(node, X, W, R, 4, {
        "activations": activations, "activation_alpha": activation_alpha, "activation_beta": activation_beta,
        "clip": clip, "direction": direction, "hidden_size": hidden_size, "layout": layout,
    })  # fmt: skip
    coupled = flag(input_forget, "input_forget")
    holes = None if P is None else form.parameter(P, "P", 3)

    def run(x: Tensor, layer: Layer, states: list[State], d: int) -> tuple[Tensor, list[State]]:
        return lstm(x, layer, states[0], states[1], None if holes is None else holes[d], coupled)

    return form.run(run, B, sequence_lens, [(initial_h, "initial_h"), (initial_c, "initial_c")])
