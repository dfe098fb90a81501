"""How long a program would take on the engine: an estimate for reports, never a measurement.

One dispatch costs a floor; each operation beyond what the floor covers costs the larger of its memory traffic and its
arithmetic. Constants and formula: targets/cost.json, which names its source (median error there about 30 %: good for
comparing, not for promising).
"""

from __future__ import annotations

from .ir import Op, Program, Tensor
from .targets import Target

_BYTES = 2  # of an fp16 element
_PACKED = {"uint1": 1 / 8, "uint4": 1 / 2, "int8": 1.0}
_ENCODING = {
    "constexpr_affine_dequantize": "int8",
    "constexpr_lut_to_dense": "int4",
    "constexpr_sparse_to_dense": "sparse",
}


def microseconds(program: Program, target: Target) -> float:
    """Estimated time of one run of `program` on the engine of `target`."""
    cost = target.cost
    total = cost.floor_us
    for op in program.ops:
        if not (op.is_leaf or op.kind.startswith("constexpr_")):
            moved = sum(_moved(t, target) for t in (*op.sources, *op.outputs))
            total += max(0.0, max(moved / cost.bytes_per_us, flops(op) / cost.flops_per_us) - cost.floor_us)
    return total


def _moved(tensor: Tensor, target: Target) -> float:
    """Bytes of an operand: packed weights count as they stand in memory, where the engine streams them."""
    op = tensor.op
    encoding = _ENCODING.get(op.kind)
    if encoding in target.streams:
        return sum(s.type.size * _PACKED.get(s.dtype, float(_BYTES)) for s in op.sources)
    return _BYTES * tensor.type.size


def flops(op: Op) -> int:
    """Arithmetic of the operations that are made of products; 0 for all others."""
    if op.kind in ("conv", "conv_transpose"):
        # [N, C, ..] with weight [Cout, Cin / groups, ..]; transposed [Cin, Cout / groups, ..], from each input element.
        weight, base = op.operand("weight"), op.outputs[0] if op.kind == "conv" else op.operand("x")
        return 2 * base.type.size * (weight.type.size // weight.shape[0])
    if op.kind == "linear":
        return 2 * op.outputs[0].type.size * op.operand("x").shape[-1]
    if op.kind == "matmul":
        return 2 * op.outputs[0].type.size * _inner(op.operand("x"), bool(op.params.get("transpose_x")))
    return 0


def _inner(x: Tensor, transposed: bool) -> int:
    return x.shape[-2] if transposed and x.rank > 1 else x.shape[-1]
