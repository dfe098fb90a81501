"""Elementwise arithmetic: one or two operands, numpy broadcast.

Names are MIL's, so some hide a builtin inside this module.
"""

from __future__ import annotations

from typing import Protocol

from ..ir import DTYPES, Tensor, Type
from .base import FLOATS, Operand, broadcast, declare, floating, make, number, one_of, operand, tensor


class Unary(Protocol):
    def __call__(self, x: Tensor) -> Tensor: ...


class Binary(Protocol):
    def __call__(self, x: Operand, y: Operand) -> Tensor: ...


def unary(kind: str, doc: str) -> Unary:
    """Declares an operation that keeps shape and dtype of its one operand."""

    def call(x: Tensor) -> Tensor:
        return make(kind, {"x": floating(kind, "x", x)}, {}, x.type)

    call.__name__ = call.__qualname__ = kind
    call.__doc__ = doc
    return declare(call, kind)


def operands(kind: str, x: Operand, y: Operand) -> tuple[Tensor, Tensor]:
    """Both operands as Tensors of one dtype; at least one must be a Tensor already, so that a type is given."""
    left, right = operand(kind, "x", x), operand(kind, "y", y)
    if left.type.dtype not in FLOATS or left.type.dtype != right.type.dtype:
        raise TypeError(f"{kind}: x is {left.type} and y {right.type}; both are floats of one type")
    return left, right


def binary(kind: str, doc: str) -> Binary:
    """Declares an arithmetic operation on two operands. A number or an array becomes a constant."""

    def call(x: Operand, y: Operand) -> Tensor:
        left, right = operands(kind, x, y)
        shape = broadcast(kind, left.type.shape, right.type.shape)
        return make(kind, {"x": left, "y": right}, {}, Type(left.type.dtype, shape))

    call.__name__ = call.__qualname__ = kind
    call.__doc__ = doc
    return declare(call, kind)


add = binary("add", "x + y")
sub = binary("sub", "x - y")
mul = binary("mul", "x * y")
real_div = binary("real_div", "x / y")
floor_div = binary("floor_div", "floor(x / y)")
mod = binary("mod", "x - y * floor(x / y), the sign of the divisor. No engine has it: use `mod_floor`")
maximum = binary("maximum", "The greater of x and y")
minimum = binary("minimum", "The smaller of x and y")
pow = binary("pow", "x ** y. The engine's result for x < 0 is unknown: use `power` for whole exponents")

abs = unary("abs", "|x|")
acos = unary("acos", "Arc cosine. No engine has it")
asin = unary("asin", "Arc sine. No engine has it")
atan = unary("atan", "Arc tangent; off by up to 0.1 near its seams on the engine (Q25)")
atanh = unary("atanh", "Inverse hyperbolic tangent. No engine has it")
ceil = unary("ceil", "Smallest whole number not below x. Never let a scalar mul follow (Q15)")
cos = unary("cos", "Cosine; from A15 on")
cosh = unary("cosh", "Hyperbolic cosine. No engine has it")
erf = unary("erf", "Error function")
exp = unary("exp", "e ** x; infinite above 11.09 in fp16 (Q22)")
exp2 = unary("exp2", "2 ** x")
floor = unary("floor", "Greatest whole number not above x. Never let a scalar mul follow (Q15)")
round = unary(
    "round", "Nearest whole number; wrong on the engine for ties and above 1024 (Q16, Q17): use `round_half_even`"
)
sign = unary("sign", "-1, 0 or 1")
sin = unary("sin", "Sine; from A15 on")
sinh = unary("sinh", "Hyperbolic sine. No engine has it")
sqrt = unary("sqrt", "Square root; of a negative number 0 on the engine (Q12)")
square = unary("square", "x * x. Emit mul(x, x): this opcode does not always compile (Q30)")
tan = unary("tan", "Tangent. No engine has it")


@declare
def inverse(x: Tensor, epsilon: float = 1e-4) -> Tensor:
    """1 / (x + epsilon)."""
    return make(
        "inverse", {"x": floating("inverse", "x", x)}, {"epsilon": number("inverse", "epsilon", epsilon)}, x.type
    )


@declare
def log(x: Tensor, epsilon: float = 0.0) -> Tensor:
    """Natural logarithm of x + epsilon. log(0) is -45440 on A13 (Q21): legalization gives -inf there."""
    return make("log", {"x": floating("log", "x", x)}, {"epsilon": number("log", "epsilon", epsilon)}, x.type)


@declare
def rsqrt(x: Tensor, epsilon: float = 0.0) -> Tensor:
    """1 / sqrt(x + epsilon). An epsilon below 6e-8 is 0 in fp16."""
    return make("rsqrt", {"x": floating("rsqrt", "x", x)}, {"epsilon": number("rsqrt", "epsilon", epsilon)}, x.type)


@declare
def clip(x: Tensor, alpha: float, beta: float) -> Tensor:
    """min(max(x, alpha), beta), alpha < beta. `clamp` takes any pair of bounds."""
    low, high = number("clip", "alpha", alpha), number("clip", "beta", beta)
    if not low < high:
        raise ValueError(f"clip: alpha {low} is not below beta {high}")
    return make("clip", {"x": floating("clip", "x", x)}, {"alpha": low, "beta": high}, x.type)


@declare
def threshold(x: Tensor, alpha: float) -> Tensor:
    """max(x, alpha)."""
    return make(
        "threshold", {"x": floating("threshold", "x", x)}, {"alpha": number("threshold", "alpha", alpha)}, x.type
    )


@declare
def cast(x: Tensor, dtype: str) -> Tensor:
    """x in another dtype. The engine takes only uint8 -> fp16, directly on an input."""
    return make(
        "cast", {"x": tensor("cast", "x", x)}, {"dtype": one_of("cast", "dtype", dtype, DTYPES)}, Type(dtype, x.shape)
    )
