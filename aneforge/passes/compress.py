"""Weights in fewer bytes: which encoding each one gets, and the program that has them.

Rules of choice (sources: ane-guide ch. 25, ANEForge 0.4.0 `_compile.py` and `_targets.py`):

* a weight changes only where the relative L2 error stays within the tolerance;
* "auto" takes the smallest encoding that the target's engine streams; what it folds to fp16 loses accuracy and gains no
  time, and is done only when asked for by name;
* int8 turns activations beyond 4094 to infinity in a product on every engine (Q10). "auto", and int4 falling back, take
  it only where a bound is proven; asked for by name it is refused where the values are known to go further, and warned
  of where nothing is known. Measured of matrix products; convolutions, of which nothing is known, count as such;
* where a proof that sums stay below the engine's limit (Q04) would not hold for the decoded weights, they stay;
* weights of conv_transpose stay: nobody saw a compressed one compile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .. import ir, ops
from ..ir import Op, Origin, Program, Tensor
from ..targets import Target
from . import encodings
from .encodings import Half, Packed
from .headroom import PRODUCT_MAX, Risk
from .match import FP16_MAX
from .ranges import UNKNOWN, Range, ranges

MIN_ELEMENTS = 1024
"""Below, what a weight saves is not worth an operation."""
INT8_ACTIVATION = 4094.0
"""Largest activation of a product with int8 weights (Q10)."""
KEPT = "fp16"


@dataclass(frozen=True)
class Weight:
    """What became of one weight. `encoding`: "fp16" if it stayed; then `note` says why. `error`: relative L2."""

    origins: Origin
    kind: str
    shape: tuple[int, ...]
    encoding: str
    bytes_before: int
    bytes_after: int
    error: float
    note: str = ""


def compress(
    program: Program, target: Target, how: str, tolerance: float, block: int = 32
) -> tuple[Program, tuple[Weight, ...], tuple[Risk, ...]]:
    """`program`, legal for `target`, with packed weights of its products: "int8", "int4", "sparse", "blockwise", "auto".

    Args:
        tolerance: the largest relative L2 error of a weight.
        block: elements that share a scale, for blockwise.

    Returns:
        The program, a row for each weight in the program's order, and what may go wrong for some inputs.
    """
    known = ranges(program)
    choice = _Choice(target, how, tolerance, block)
    moved: dict[Tensor, Tensor] = {}
    rows: list[Weight] = []
    doubtful: list[Op] = []
    for op in program.ops:
        sources = [moved.get(s, s) for s in op.sources]
        fresh = op
        if any(new is not old for new, old in zip(sources, op.sources, strict=True)):
            fresh = op.with_sources(sources, program.origins(op))
        results = fresh.outputs
        weight = _weight(op)
        if weight is not None:
            bound = known.get(op.operand("x"), UNKNOWN)
            room = choice.room(known.get(op.outputs[0], UNKNOWN))
            row, packed = choice.of(op, weight, bound, room, program.origins(op))
            rows.append(row)
            if packed is not None:
                with ir.only_origin(program.origins(op)):
                    results = (_product(fresh, packed),)
                if row.encoding == "int8" and not bound.size <= INT8_ACTIVATION:
                    doubtful.append(op)
        moved |= {old: new for old, new in zip(op.outputs, results, strict=True) if new is not old}
    if not moved:
        return program, tuple(rows), ()
    outputs = [(name, moved.get(tensor, tensor)) for name, tensor in program.outputs]
    made = Program(program.inputs, outputs, program.origin_table)
    return made, tuple(rows), _doubts(program, doubtful)


def stored_bytes(program: Program) -> int:
    """Bytes of the constants of a program as the blob holds them: fp16, codes, bits."""
    bits = {"uint1": 1, "uint4": 4, "int8": 8, "uint8": 8, "bool": 8, "int32": 32}
    return sum(
        (op.types[0].size * bits.get(op.types[0].dtype, 16) + 7) // 8 for op in program.ops if op.kind == "const"
    )


def _doubts(program: Program, found: Sequence[Op]) -> tuple[Risk, ...]:
    """One for the whole program: a network of fifty layers needs no fifty warnings."""
    if not found:
        return ()
    more = f" here and in {len(found) - 1} more products" if len(found) > 1 else ""
    text = (
        f"int8 weights{more}: activations beyond {INT8_ACTIVATION:.0f} become infinite on the engine in matrix products, "
        "and nobody knows of convolutions (Q10); no bound of them is known here"
    )
    return (Risk(program.origins(found[0]), text),)


def _weight(op: Op) -> Half | None:
    """The weight of a product in fp16, [outputs, …], if it is one that may be packed."""
    if op.kind not in ("conv", "linear", "matmul"):
        return None
    given = op.operand("y" if op.kind == "matmul" else "weight")
    x = op.operand("x")
    if not given.is_const or x.is_const or given.type.size < MIN_ELEMENTS or given.dtype != "fp16":
        return None
    if op.kind != "conv" and (given.rank != 2 or x.rank < 2):
        return None
    value = given.value
    if not np.isfinite(value).all():
        return None
    w = np.clip(value, -FP16_MAX, FP16_MAX).astype(np.float16)
    return np.ascontiguousarray(w.T) if op.kind == "matmul" and not op.params["transpose_y"] else w


def _product(op: Op, packed: Packed) -> Tensor:
    """`op` with the packed weight. A linear layer becomes the matrix product that the encodings were seen with."""
    w = packed.tensor()
    if op.kind == "conv":
        return op.with_sources([w if name == "weight" else op.operand(name) for name in op.inputs]).outputs[0]
    if op.kind == "matmul":
        return ops.matmul(op.operand("x"), w, op.params["transpose_x"], True)
    plain = ops.matmul(op.operand("x"), w, False, True)
    return ops.add(plain, op.operand("bias")) if "bias" in op.inputs else plain


def _growth(decoded: Half, w: Half) -> float:
    """The largest ratio, over the outputs, of the sums of the weights' sizes."""
    after, before = (np.abs(a).reshape(a.shape[0], -1).sum(axis=1, dtype=np.float64) for a in (decoded, w))
    grown = after > before
    return float((after[grown] / np.maximum(before[grown], 1e-30)).max()) if grown.any() else 1.0


@dataclass(frozen=True)
class _Choice:
    target: Target
    how: str
    tolerance: float
    block: int

    def room(self, sums: Range) -> float:
        """By how much the sums may grow and stay below the limit that they are proven to stay below now."""
        limit = PRODUCT_MAX if self.target.has_quirk("Q04") else FP16_MAX
        return limit / sums.size if 0 < sums.size <= limit else math.inf

    def of(self, op: Op, w: Half, bound: Range, room: float, origins: Origin) -> tuple[Weight, Packed | None]:
        why: list[str] = []
        before = 2 * w.size
        for name in self.order(w):
            refusal = self.refusal(name, op, w, bound)
            if refusal:
                why.append(f"{name}: {refusal}")
                continue
            packed = self.makers[name](w)
            error = encodings.error(packed.decoded, w)
            if error > self.tolerance:
                why.append(f"{name}: error {error:.2g} above {self.tolerance:g}")
                continue
            if room < math.inf and _growth(packed.decoded, w) > room:
                why.append(f"{name}: sums that stay below the engine's limit as they are would have no proof of it")
                continue
            note = "" if name in self.target.streams else f"unpacked to fp16 on {self.target.chips}: smaller, no faster"
            return Weight(origins, op.kind, w.shape, name, before, packed.bytes, error, note), packed
        return Weight(origins, op.kind, w.shape, KEPT, before, before, 0.0, "; ".join(why)), None

    def order(self, w: Half) -> Sequence[str]:
        """Encodings to try, best first."""
        if self.how == "int4":
            return ("int4", "int8")
        if self.how != "auto":
            return (self.how,)
        sizes = {
            "int4": encodings.int4_bytes(w),
            "sparse": encodings.sparse_bytes(w),
            "int8": encodings.int8_bytes(w),
        }
        return sorted(sizes, key=lambda name: sizes[name])

    def refusal(self, name: str, op: Op, w: Half, bound: Range) -> str:
        """Why the encoding does not come into question; "" if it does."""
        asked = name == self.how
        if not asked and name not in self.target.streams:
            return f"unpacked to fp16 on {self.target.chips}"
        if name == "int8":
            if not asked and not bound.size <= INT8_ACTIVATION:
                return f"no proof that activations stay within {INT8_ACTIVATION:.0f} (Q10)"
            if bound.closed and bound.products <= 1 and bound.size > INT8_ACTIVATION:
                return f"activations may reach {bound.size:.4g}, and {INT8_ACTIVATION:.0f} is the most (Q10)"
        if name == "int4" and (w.size // w.shape[0]) % 2:
            return f"a row of {w.size // w.shape[0]} elements is not even"
        if name == "sparse" and not 0 < 2 * np.count_nonzero(w) <= w.size:
            return f"{1 - np.count_nonzero(w) / w.size:.0%} zeros, and it takes half"
        if name == "blockwise":
            if op.kind == "conv":
                return "for matrix products only"
            if w.shape[1] % self.block:
                return f"blocks of {self.block} do not divide a row of {w.shape[1]}"
        return ""

    @property
    def makers(self) -> Mapping[str, Callable[[Half], Packed]]:
        return {
            "int8": encodings.int8,
            "int4": encodings.int4,
            "sparse": encodings.sparse,
            "blockwise": lambda w: encodings.blockwise(w, self.block),
        }
