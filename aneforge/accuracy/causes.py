"""Why one operation loses what fp32 keeps, and what helps: from the values that fp32 has there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..ir import Op, Tensor
from .measure import HALF_MAX, PRODUCT_MAX, Array, peak

PRODUCTS = frozenset(["conv", "conv_transpose", "matmul", "linear"])
_STEPS = frozenset(
    ["equal", "not_equal", "greater", "greater_equal", "less", "less_equal", "floor", "ceil", "round", "sign"]
)
_TINY = 2.0**-20
"""From here up fp16 holds numbers to 1 part in 32."""
_SMALLEST = 2.0**-24


@dataclass(frozen=True)
class Cause:
    """`kind`: overflow, product, faint, cancellation, step, steep or rounding; two sentences."""

    kind: str
    text: str
    remedy: str
    size: float = 0.0
    """For overflow and product: how large the values get."""

    def worse_than(self, other: Cause | None) -> bool:
        """Whether this one says more about a node than what was found in it before."""
        if other is None or other.kind == "rounding":
            return True
        return self.kind == other.kind and self.size > other.size


ROUNDING = Cause(
    "rounding", "fp16 has 11 bits, and what is computed here needs more", "keep the node on the CPU if it matters"
)


def cause(op: Op, values: Mapping[Tensor, Array]) -> Cause | None:
    """What is known of `op` that makes it lose in fp16; None if nothing stands out.

    Args:
        values: fp32 values of its operands (constants need not be there) and results.
    """
    given = [t.value if t.is_const else values[t] for t in op.sources if t.is_const or t in values]
    made = [values[t] for t in op.outputs if t in values]
    largest = max((peak(v) for v in made), default=0.0)
    if op.kind in PRODUCTS and largest > PRODUCT_MAX:
        return _product(op, largest)
    if largest > HALF_MAX:
        return Cause(
            "overflow",
            f"{op.kind} reaches {largest:.3g}, and fp16 ends at {HALF_MAX:.0f}",
            _rescale(largest, HALF_MAX),
            largest,
        )
    return _faint(op, given, largest) or _shape_of_function(op, given, largest)


def _product(op: Op, largest: float) -> Cause:
    text = f"{op.kind} reaches {largest:.3g}; sums beyond {PRODUCT_MAX:.0f} become infinite there (Q04)"
    return Cause("product", text, _rescale(largest, PRODUCT_MAX), largest)


def _rescale(largest: float, limit: float) -> str:
    factor = 2 ** max(1, math.ceil(math.log2(largest / limit)))
    return (
        f"rescale: divide its input (or fold 1/{factor} into its weights) and multiply by {factor} where the values are "
        "small again; or keep it on the CPU"
    )


def _faint(op: Op, given: list[Array], largest: float) -> Cause | None:
    """Numbers too small for fp16, where their size matters."""
    if op.kind in ("log", "rsqrt", "inverse", "real_div", "pow") and given:
        inner = np.abs(given[-1] if op.kind == "real_div" else given[0])
        small = inner[(inner > 0) & (inner < _TINY)]
        if small.size:
            text = f"{op.kind} of numbers down to {float(small.min()):.2g}; fp16 holds none below {_SMALLEST:.0g}"
            return Cause(
                "faint", text, "keep it on the CPU with what makes these numbers, or raise the epsilon to 1e-4"
            )
    if 0 < largest < 2.0**-17:
        text = f"{op.kind} gives numbers of at most {largest:.2g}, which fp16 holds in a few bits, if at all"
        return Cause("faint", text, "rescale: multiply by a power of two before, divide where the numbers are used")
    return None


def _shape_of_function(op: Op, given: list[Array], largest: float) -> Cause | None:
    source = max((peak(v) for v in given), default=0.0)
    if op.kind in ("add", "sub") and source > 64 * max(largest, 1e-30):
        text = f"{op.kind} of numbers up to {source:.3g} leaves at most {largest:.3g}: the leading digits cancel"
        return Cause("cancellation", text, "subtract before the values grow (a mean, a bias), or keep both on the CPU")
    if op.kind in _STEPS:
        return Cause(
            "step", f"{op.kind} jumps where its operands lie closer than fp16 can tell", "harmless if few cells flip"
        )
    if op.kind in ("exp", "exp2", "pow", "sin", "cos") and source > 16:
        text = f"{op.kind} of numbers up to {source:.3g}, whose last fp16 digit is {source / 2048:.2g}"
        return Cause("steep", text, "reduce the argument first (subtract a maximum, a multiple of the period)")
    return None
