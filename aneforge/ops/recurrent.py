"""Recurrent layers, unrolled: the engine has no loops, and no native lstm, gru or rnn (facts: MIL's are refused).

One direction of one layer at a time. The products with the input are made for all steps at once, as rows; in a step
there is one product for each gate, so that no gate is cut out of the last axis (Q08, Q09). Steps are slices of rows.
A state that is not given is 0 and costs nothing in the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Tensor, const
from . import elementwise as e
from . import matrix as mx
from . import shape as s
from .layout import pad_any, slice_axis
from .smooth import clamp

Activation = Callable[[Tensor], Tensor]
State = Tensor | None
Step = Callable[[int, Sequence[State]], list[Tensor]]
Weights = NDArray[Any]


@dataclass(frozen=True)
class Layer:
    """What all three have: one direction's constants, and how it runs.

    weight [G, H, I], recurrence [G, H, H], input_bias and state_bias [G, H]; activations in ONNX's order; clip bounds
    what goes into an activation; lengths [B] are the steps of each sequence, where they differ.
    """

    weight: Weights
    recurrence: Weights
    activations: Sequence[Activation]
    input_bias: Weights | None = None
    state_bias: Weights | None = None
    clip: float | None = None
    lengths: Sequence[int] | None = None
    reverse: bool = False

    def bounded(self, x: Tensor) -> Tensor:
        return x if self.clip is None else clamp(x, -self.clip, self.clip)

    def recurrent(self, h: Tensor, gate: int) -> Tensor:
        """h [B, H] @ recurrence[gate].T"""
        return mx.matmul(h, self.recurrence[gate], transpose_y=True)


@dataclass(eq=False)
class Rows:
    """The input's part of every gate, for all steps: [S * B, H] each."""

    layer: Layer
    x: Tensor  # [S, B, I]
    with_state_bias: Sequence[bool]
    _gates: dict[int, Tensor] = field(default_factory=dict)

    def at(self, gate: int, step: int) -> Tensor:
        """[B, H]"""
        batch = self.x.shape[1]
        if gate not in self._gates:
            self._gates[gate] = self._product(gate)
        return slice_axis(self._gates[gate], 0, step * batch, batch)

    def _product(self, gate: int) -> Tensor:
        steps, batch, features = self.x.shape
        rows = s.reshape(self.x, (steps * batch, features))
        y = mx.matmul(rows, self.layer.weight[gate], transpose_y=True)
        biases = [self.layer.input_bias, self.layer.state_bias if self.with_state_bias[gate] else None]
        given = [b[gate].astype(np.float64) for b in biases if b is not None]
        return e.add(y, sum(given)) if given and np.any(sum(given)) else y


def rnn(x: Tensor, layer: Layer, h: State = None) -> tuple[Tensor, list[State]]:
    """H' = f(x W' + H R' + b). x [S, B, I] -> (Y [S * B, H], [H])."""
    rows = Rows(layer, x, (True,))

    def step(t: int, states: Sequence[State]) -> list[Tensor]:
        (h,) = states
        return [layer.activations[0](layer.bounded(_plus(rows.at(0, t), h, layer, 0)))]

    return _unrolled(x, layer, step, [h])


def gru(x: Tensor, layer: Layer, h: State = None, linear_before_reset: bool = False) -> tuple[Tensor, list[State]]:
    """Gates z, r, h: n = g(x W' + (r H) R' + b), or g(x W' + b + r (H R' + b')) when linear before reset;
    H' = (1 - z) n + z H. x [S, B, I] -> (Y [S * B, H], [H]).
    """
    rows = Rows(layer, x, (True, True, not linear_before_reset))
    f, g = layer.activations
    late = layer.state_bias[2] if linear_before_reset and layer.state_bias is not None else None

    def candidate(t: int, h: State) -> Tensor:
        given = rows.at(2, t)
        if h is None and (late is None or not late.any()):
            return given
        r = f(layer.bounded(_plus(rows.at(1, t), h, layer, 1)))
        if not linear_before_reset:
            assert h is not None
            return e.add(given, layer.recurrent(e.mul(r, h), 2))
        if h is None:
            return e.add(given, e.mul(r, late))  # type: ignore[arg-type]
        product = layer.recurrent(h, 2)
        return e.add(given, e.mul(r, product if late is None else e.add(product, late)))

    def step(t: int, states: Sequence[State]) -> list[Tensor]:
        (h,) = states
        z = f(layer.bounded(_plus(rows.at(0, t), h, layer, 0)))
        n = g(layer.bounded(candidate(t, h)))
        return [e.sub(n, e.mul(z, n)) if h is None else e.add(n, e.mul(z, e.sub(h, n)))]

    return _unrolled(x, layer, step, [h])


def lstm(
    x: Tensor,
    layer: Layer,
    h: State = None,
    c: State = None,
    peepholes: Weights | None = None,
    input_forget: bool = False,
) -> tuple[Tensor, list[State]]:
    """Gates i, o, f, c; peepholes [3, H] for i, o, f: C' = f C + i g(..), H' = o h(C'). With input_forget, f is 1 - i.
    x [S, B, I] -> (Y [S * B, H], [H, C]).
    """
    rows = Rows(layer, x, (True,) * 4)
    f, g, out = layer.activations

    def gate(number: int, t: int, h: State, c: State, seen: int) -> Tensor:
        pre = _plus(rows.at(number, t), h, layer, number)
        if peepholes is not None and c is not None:
            pre = e.add(pre, e.mul(c, peepholes[seen]))
        return f(layer.bounded(pre))

    def step(t: int, states: Sequence[State]) -> list[Tensor]:
        h, c = states
        i = gate(0, t, h, c, 0)
        cell = e.mul(i, g(layer.bounded(_plus(rows.at(3, t), h, layer, 3))))
        if c is not None:
            forget = e.sub(1.0, i) if input_forget else gate(2, t, h, c, 2)
            cell = e.add(e.mul(forget, c), cell)
        o = gate(1, t, h, cell, 1)
        return [e.mul(o, out(cell)), cell]

    return _unrolled(x, layer, step, [h, c])


def _plus(given: Tensor, h: State, layer: Layer, gate: int) -> Tensor:
    return given if h is None else e.add(given, layer.recurrent(h, gate))


def _unrolled(x: Tensor, layer: Layer, step: Step, states: list[State]) -> tuple[Tensor, list[State]]:
    """Runs the steps in order. A sequence that has ended keeps its state, and its outputs are 0: masks of 0 and 1."""
    steps, batch, _ = x.shape
    lengths = np.asarray([steps] * batch if layer.lengths is None else layer.lengths)
    count = int(lengths.max())
    outputs: dict[int, Tensor] = {}
    for t in reversed(range(count)) if layer.reverse else range(count):
        made = step(t, states)
        live = t < lengths
        if live.all():
            outputs[t], states = made[0], list(made)
            continue
        mask, rest = (const(m.astype(np.float32).reshape(batch, 1)) for m in (live, ~live))
        kept = [e.mul(new, mask) for new in made]
        outputs[t] = kept[0]
        states = [new if old is None else e.add(new, e.mul(old, rest)) for new, old in zip(kept, states, strict=True)]
    rows = [outputs[t] for t in range(count)]
    y = rows[0] if count == 1 else s.concat(rows, 0)
    return pad_any(y, [(0, (steps - count) * batch), (0, 0)]) if count < steps else y, states
