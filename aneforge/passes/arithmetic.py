"""Rules on constants in sums and products. Constants are combined in float64 and narrowed once, by the writer."""

from __future__ import annotations

import numpy as np

from .. import ops
from ..ir import Op, Replacement, Tensor, Uses, const, miss, rule
from .match import ROUNDING, constant, in_range, made_by, scalar, split_constant

BINARY = "add sub mul real_div maximum minimum"


@rule("neutral", "add sub mul real_div", "x + 0, x - 0, x * 1, x / 1")
def neutral(op: Op, uses: Uses) -> Replacement:
    x, y = op.operand("x"), op.operand("y")
    none = 0.0 if op.kind in ("add", "sub") else 1.0
    if x.type == op.types[0] and scalar(y) == none:
        return x
    if op.kind in ("add", "mul") and y.type == op.types[0] and scalar(x) == none:
        return y
    return None


@rule("scalar-constant", BINARY, "a constant of equal elements beside a full tensor is a scalar")
def scalar_constant(op: Op, uses: Uses) -> Replacement:
    """Not after a rounding: there the engine drops scalar factors, and the full constant is on purpose (Q15)."""
    for name, other in (("x", "y"), ("y", "x")):
        given, rest = op.operand(name), op.operand(other)
        if given.rank == 0 or not given.is_const or rest.type != op.types[0]:
            continue
        if (value := scalar(given)) is None:
            continue
        if rest.op.kind in ROUNDING:
            miss("the engine drops a scalar factor after a rounding (Q15)", rest)
        else:
            return getattr(ops, op.kind)(**{name: value, other: rest})  # type: ignore[no-any-return]
    return None


@rule("constant-chain", "add sub mul", "(x + a) + b is x + (a + b), and so for products")
def constant_chain(op: Op, uses: Uses) -> Replacement:
    """Products only where the product of the constants is well inside fp16; sums only where no larger constant comes
    up.
    """
    outer = _shifted(op) if op.kind in ("add", "sub") else split_constant(op)
    if outer is None:
        return None
    below = made_by(outer[0], "mul") if op.kind == "mul" else made_by(outer[0], "add", "sub")
    inner = None if below is None else (split_constant(below) if op.kind == "mul" else _shifted(below))
    if inner is None:
        return None
    a, b = constant(inner[1]), constant(outer[1])
    if a is None or b is None:
        return None
    if uses(outer[0]) != 1:
        return miss("the inner result has another reader", outer[0])
    if inner[0].op.kind in ROUNDING:
        return miss("the engine drops a scalar factor after a rounding (Q15)", outer[0])
    both = a * b if op.kind == "mul" else a + b
    if both.size > max(a.size, b.size):
        return miss("the combined constant would be larger", outer[0])
    if not in_range(both):
        return miss("fp16 does not hold the combined constant well", outer[0])
    if np.broadcast_shapes(inner[0].shape, both.shape) != op.types[0].shape:
        return None
    return ops.mul(inner[0], both) if op.kind == "mul" else ops.add(inner[0], both)


def _shifted(op: Op) -> tuple[Tensor, Tensor] | None:
    """(x, c) of x + c; x - c counts as x + (-c)."""
    if op.kind == "add":
        return split_constant(op)
    x, y = op.operand("x"), op.operand("y")
    if x.is_const or not y.is_const:
        return None
    return x, const(-y.value.astype(np.float64))


@rule("bias-of-sum", "add", "two biased products are added: one bias, the sum of both, is enough")
def bias_of_sum(op: Op, uses: Uses) -> Replacement:
    """(u + a) + (v + b) -> (u + (a + b)) + v, as a residual block with a projection has it."""
    pairs = []
    for x in (op.operand("x"), op.operand("y")):
        below = made_by(x, "add")
        pair = None if below is None else split_constant(below)
        if pair is None or pair[0].op.kind not in ("conv", "conv_transpose", "matmul") or x.type != op.types[0]:
            return None
        if uses(x) != 1:
            return miss("a biased product has another reader", x)
        pairs.append((pair[0], pair[1], constant(pair[1])))
    (u, first, a), (v, second, b) = pairs
    if a is None or b is None or first.shape != second.shape or u.type != v.type:
        return miss("the biases differ in shape", *op.sources)
    if not in_range(a + b):
        return miss("fp16 does not hold the sum of the biases well", *op.sources)
    return ops.add(ops.add(u, a + b), v)


@rule("divide-by-power", "real_div", "dividing by a power of two is multiplying by its exact inverse")
def divide_by_power(op: Op, uses: Uses) -> Replacement:
    x, value = op.operand("x"), scalar(op.operand("y"))
    if value is None or value == 0 or x.type != op.types[0]:
        return None
    mantissa, exponent = np.frexp(value)
    if x.op.kind in ROUNDING:
        return miss("the engine drops a scalar factor after a rounding (Q15)", x)
    return ops.mul(x, 1.0 / value) if abs(mantissa) == 0.5 and -14 <= exponent <= 15 else None


@rule(
    "constant-layout",
    "reshape transpose expand_dims squeeze flatten2d slice_by_size reverse",
    "a constant is laid out once",
)
def constant_layout(op: Op, uses: Uses) -> Replacement:
    x = op.operand("x")
    if not x.is_const:
        return None
    value, shape = x.value, op.types[0].shape
    if op.kind == "transpose":
        value = np.ascontiguousarray(value.transpose(op.params["perm"]))
    elif op.kind == "slice_by_size":
        value = value[tuple(slice(b, b + n) for b, n in zip(op.params["begin"], shape, strict=True))]
    elif op.kind == "reverse":
        value = np.flip(value, op.params["axes"])
    else:
        value = value.reshape(shape)
    return const(value, x.dtype)


RULES = (
    constant_layout,
    neutral,
    constant_chain,
    bias_of_sum,
    divide_by_power,
    scalar_constant,
)
