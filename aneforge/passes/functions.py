"""Rules that recognize a function written out in small operations, and put its safe form in its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from .. import ops
from ..ir import Op, Replacement, Tensor, Uses, miss, rule
from .match import close, made_by, polynomial, products, scalar, split_constant

_ROOT = 1.0 / math.sqrt(2.0)
_K = math.sqrt(2.0 / math.pi)


def _without(items: Sequence[Tensor], *drop: Tensor) -> list[Tensor] | None:
    rest = list(items)
    for each in drop:
        for i, item in enumerate(rest):
            if item is each:
                del rest[i]
                break
        else:
            return None
    return rest


def _number(items: Sequence[Tensor]) -> float | None:
    """The product of factors that are all numbers; 1 for none."""
    out = 1.0
    for item in items:
        value = scalar(item)
        if value is None:
            return None
        out *= value
    return out


@rule("silu", "mul", "x * sigmoid(x)")
def silu(op: Op, uses: Uses) -> Replacement:
    for gate, x in ((op.operand("x"), op.operand("y")), (op.operand("y"), op.operand("x"))):
        below = made_by(gate, "sigmoid")
        if below is None or below.operand("x") is not x:
            continue
        if uses(gate) == 1:
            return ops.silu(x)
        miss("the sigmoid has another reader", gate)
    return None


@rule("mish", "mul", "x * tanh(softplus(x)), in the form without a logarithm")
def mish(op: Op, uses: Uses) -> Replacement:
    for gate, x in ((op.operand("x"), op.operand("y")), (op.operand("y"), op.operand("x"))):
        tanh = made_by(gate, "tanh")
        if tanh is None or not _is_softplus(tanh.operand("x"), x):
            continue
        if uses(gate) == 1:
            return ops.mish(x)
        miss("the tanh has another reader", gate)
    return None


def _is_softplus(y: Tensor, x: Tensor) -> bool:
    """Whether y is softplus of x: MIL's own, the safe composition, or log(1 + exp(x))."""
    op = y.op
    if op.kind == "softplus":
        return op.operand("x") is x
    if op.kind == "log":
        inner = made_by(op.operand("x"), "add")
        exp = None if inner is None else made_by(inner.operand("x"), "exp")
        return exp is not None and inner is not None and exp.operand("x") is x and scalar(inner.operand("y")) == 1.0
    if op.kind != "add":
        return False
    relu, log = made_by(op.operand("x"), "relu"), made_by(op.operand("y"), "log")
    one = None if log is None else made_by(log.operand("x"), "add")
    exp = None if one is None else made_by(one.operand("x"), "exp")
    minus = None if exp is None else made_by(exp.operand("x"), "mul")
    size = None if minus is None else made_by(minus.operand("x"), "abs")
    return relu is not None and relu.operand("x") is x and size is not None and size.operand("x") is x


@rule("hardswish", "mul real_div", "x * relu6(x + 3) / 6 overflows in fp16 where x * 6 does; the gate first")
def hardswish(op: Op, uses: Uses) -> Replacement:
    scale, top = 1.0, op.outputs[0]
    if op.kind == "real_div":
        divisor = scalar(op.operand("y"))
        if divisor is None or divisor == 0:
            return None
        scale, top = 1.0 / divisor, op.operand("x")
    for items in products(top):
        found = _gated(items, scale)
        if found is not None and found.type == op.types[0]:
            return ops.hardswish(found)
        if found is not None:
            miss("x is broadcast")
    return None


def _gated(items: Sequence[Tensor], scale: float) -> Tensor | None:
    """x, if the items and the scale multiply to x * gate(x) / 6."""
    for item in items:
        gate, share = item, scale
        if gate.op.kind == "real_div" and (divisor := scalar(gate.op.operand("y"))):
            gate, share = gate.op.operand("x"), scale / divisor
        x = _six_gate(gate)
        rest = None if x is None else _without(items, item, x)
        value = None if rest is None else _number(rest)
        if value is not None and abs(value * share * 6.0 - 1.0) < 2e-3:
            return x
        if rest is not None:
            computed = (
                "a factor is computed" if value is None else "the gate and the constants are not those of a sixth"
            )
            miss(computed, item)
    return None


def _six_gate(gate: Tensor) -> Tensor | None:
    """x of min(max(x + 3, 0), 6)."""
    op = gate.op
    if op.kind == "minimum":
        pair = split_constant(op)
        if pair is None or scalar(pair[1]) != 6.0 or pair[0].op.kind != "relu":
            return None
        op = pair[0].op
    elif op.kind != "relu6" and not (op.kind == "clip" and (op.params["alpha"], op.params["beta"]) == (0.0, 6.0)):
        return None
    shifted = made_by(op.operand("x"), "add")
    if shifted is None:
        return None
    x, y = shifted.operand("x"), shifted.operand("y")
    if scalar(y) is None and scalar(x) is None:
        return None
    return x if scalar(y) == 3.0 else y if scalar(x) == 3.0 else miss("the gate is not shifted by 3", gate)


@rule(
    "hardsigmoid", "mul real_div clip", "relu6(x + 3) / 6 and clip(a x + b, 0, 1) are one operation, exact at both ends"
)
def hardsigmoid(op: Op, uses: Uses) -> Replacement:
    if op.kind == "clip":
        if (op.params["alpha"], op.params["beta"]) != (0.0, 1.0):
            return None
        line = op.operand("x")
        root = line
        while root.op.kind in ("add", "sub", "mul", "real_div") and any(s.is_const for s in root.op.sources):
            root = next((s for s in root.op.sources if not s.is_const), root)
        found = polynomial(line, root) if root is not line else None
        if found is None or set(found) - {0, 1} or not found.get(1) or root.type != op.types[0]:
            return None
        return ops.sigmoid_hard(root, found[1], found.get(0, 0.0))
    factors = [op.operand("x"), op.operand("y")]
    gate = next((g for g in factors if _six_gate(g) is not None), None)
    rest = None if gate is None else _without(factors, gate)
    value = None if rest is None else _number(rest)
    x = None if gate is None else _six_gate(gate)
    if gate is None or x is None or value is None or x.type != op.types[0]:
        return None
    share = 1.0 / value if op.kind == "real_div" and value and gate is factors[0] else value
    if op.kind == "real_div" and gate is not factors[0]:
        return None
    if abs(share * 6.0 - 1.0) < 2e-3:
        return ops.sigmoid_hard(x, 1.0 / 6.0, 0.5)
    return miss("the gate is not divided by 6", gate)


@rule("gelu", "mul", "0.5 x (1 + erf(x / sqrt 2))")
def gelu(op: Op, uses: Uses) -> Replacement:
    return _gelu(op, "erf", {1: _ROOT}, lambda x: ops.gelu(x, "EXACT"))


@rule(
    "gelu-tanh", "mul", "0.5 x (1 + tanh(k (x + 0.044715 x^3))): the cubic overflows above 40; the safe form clamps it"
)
def gelu_tanh(op: Op, uses: Uses) -> Replacement:
    return _gelu(op, "tanh", {1: _K, 3: 0.044715 * _K}, ops.gelu_tanh)


def _gelu(op: Op, kind: str, inner: Mapping[int, float], build: Callable[[Tensor], Tensor]) -> Replacement:
    for items in products(op.outputs[0]):
        for gate in items:
            curve = _one_plus(gate, kind)
            if curve is None:
                continue
            for x in items:
                rest = _without(items, gate, x) if x is not gate and scalar(x) is None else None
                found = None if rest is None else polynomial(curve.operand("x"), x)
                if rest is None or found is None:
                    continue
                value = _number(rest)
                if not close(found, inner):
                    miss(f"the argument of {kind} has other coefficients", gate)
                elif value is None:
                    miss("a factor is computed at run time", gate)
                elif abs(value - 0.5) > 1e-3:
                    miss("the constants do not multiply to a half", gate)
                elif x.type != op.types[0]:
                    miss("x is broadcast", gate)
                else:
                    return build(x)
    return None


def _one_plus(gate: Tensor, kind: str) -> Op | None:
    """The Op of `kind` in 1 + kind(..)."""
    one = made_by(gate, "add")
    if one is None:
        return None
    x, y = one.operand("x"), one.operand("y")
    return made_by(x, kind) if scalar(y) == 1.0 else made_by(y, kind) if scalar(x) == 1.0 else None


@rule("log-softmax", "log", "log(softmax(x)) turns small probabilities into -inf (Q24)", quirks="Q24")
def log_softmax(op: Op, uses: Uses) -> Replacement:
    below = made_by(op.operand("x"), "softmax")
    if below is None:
        return None
    if op.params["epsilon"] != 0.0:
        return miss("the logarithm has an epsilon", op.operand("x"))
    return ops.log_softmax(below.operand("x"), below.params["axis"])


@rule("logsumexp", "log", "log(sum(exp(x))) overflows above 11; the maximum comes out first")
def logsumexp(op: Op, uses: Uses) -> Replacement:
    total = made_by(op.operand("x"), "reduce_sum")
    terms = None if total is None else made_by(total.operand("x"), "exp")
    if total is None or terms is None or op.params["epsilon"] != 0.0 or uses(total.outputs[0]) > 1:
        return None
    x = terms.operand("x")
    if x.op.kind == "sub" and made_by(x.op.operand("y"), "reduce_max") is not None:
        return None  # it is out already
    return ops.logsumexp(x, total.params["axes"], total.params["keep_dims"])


RULES = (silu, mish, hardswish, hardsigmoid, gelu_tanh, gelu, log_softmax, logsumexp)
