"""Forms that are never sent to an engine, whatever its family, each with what is sent instead.

A rule here is bound to the row of the quirk table, or to the missing operation, that it works around.
"""

from __future__ import annotations

import math

import numpy as np

from .. import ops
from ..ir import Op, Replacement, Tensor, Type, Uses, const, rule
from .match import FP16_LEAST, ROUNDING, VIEWS, scalar, split_constant


@rule("square", "square", "the opcode fails to compile before some nonlinearities", required=True, quirks="Q30")
def square(op: Op, uses: Uses) -> Replacement:
    return ops.mul(op.operand("x"), op.operand("x"))


@rule("softplus", "softplus", "falls to 0 above 11.09", required=True, quirks="Q14 Q26")
def softplus(op: Op, uses: Uses) -> Replacement:
    return ops.softplus_safe(op.operand("x"))


@rule("round", "round", "ties go away from zero, and 1024 and above gain a half", required=True, quirks="Q16 Q17")
def round_(op: Op, uses: Uses) -> Replacement:
    return ops.round_half_even(op.operand("x"))


@rule("log-sum-exp", "reduce_log_sum_exp", "does not subtract the maximum", required=True, quirks="Q13")
def log_sum_exp(op: Op, uses: Uses) -> Replacement:
    return ops.logsumexp(op.operand("x"), op.params["axes"], op.params["keep_dims"])


@rule("log-sum", "reduce_log_sum", "accumulates in fp16", required=True, quirks="Q06")
def log_sum(op: Op, uses: Uses) -> Replacement:
    return ops.log_sum(op.operand("x"), op.params["axes"], op.params["keep_dims"])


@rule(
    "wide-sum",
    "reduce_sum reduce_mean reduce_l1_norm reduce_sum_square",
    "long sums accumulate in fp16",
    required=True,
    quirks="Q06",
)
def wide_sum(op: Op, uses: Uses) -> Replacement:
    x, axes, keep = op.operand("x"), op.params["axes"], op.params["keep_dims"]
    if math.prod(x.shape[a] for a in axes) < ops.SHORT:
        return None
    build = {
        "reduce_sum": ops.reduce_sum_wide,
        "reduce_mean": ops.reduce_mean_wide,
        "reduce_l1_norm": ops.reduce_l1,
        "reduce_sum_square": ops.sum_square,
    }[op.kind]
    return build(x, axes, keep)


@rule(
    "l2-norm",
    "reduce_l2_norm",
    "squares overflow above 255, and the sum accumulates in fp16",
    required=True,
    quirks="Q06 Q36",
)
def l2_norm(op: Op, uses: Uses) -> Replacement:
    return ops.reduce_l2(op.operand("x"), op.params["axes"], op.params["keep_dims"])


@rule(
    "thresholded-relu",
    "thresholded_relu",
    "a table of its own keeps x = alpha; written as a select, as MIL defines it",
    required=True,
    quirks="Q41",
)
def thresholded_relu(op: Op, uses: Uses) -> Replacement:
    x = op.operand("x")
    return ops.select(ops.greater_equal(x, op.params["alpha"]), x, const(ops.filled(x.shape, 0.0)))


@rule(
    "norm-forms",
    "layer_norm instance_norm l2_norm",
    "squares overflow above 255, epsilons vanish",
    required=True,
    quirks="Q19 Q36 Q37",
)
def norm_forms(op: Op, uses: Uses) -> Replacement:
    x, epsilon = op.operand("x"), op.params["epsilon"]
    gamma, beta = op.inputs.get("gamma"), op.inputs.get("beta")
    if isinstance(gamma, tuple) or isinstance(beta, tuple):
        return None
    if op.kind == "instance_norm":
        return ops.instance_norm_any(x, gamma, beta, epsilon)
    if op.kind == "l2_norm":  # x / sqrt(sum + eps) = x / sqrt(mean + eps / n) / sqrt(n)
        axes = tuple(range(x.rank - 3, x.rank))
        count = math.prod(x.shape[a] for a in axes)
        return ops.mul(ops.unit_variance(x, axes, epsilon / count), 1.0 / math.sqrt(count))
    axes = op.params["axes"]
    y = ops.standardize(x, axes, epsilon)
    shape = tuple(d if i in axes else 1 for i, d in enumerate(x.shape))
    y = y if gamma is None else ops.mul(y, _shaped(gamma, shape))
    return y if beta is None else ops.add(y, _shaped(beta, shape))


def _shaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return const(x.value.reshape(shape), x.dtype) if x.is_const else ops.reshape(x, shape)


@rule("gelu-modes", "gelu", "only the exact mode was checked on an engine", required=True)
def gelu_modes(op: Op, uses: Uses) -> Replacement:
    x = op.operand("x")
    if op.params["mode"] == "TANH_APPROXIMATION":
        return ops.gelu_tanh(x)
    return ops.mul(x, ops.sigmoid(ops.mul(x, 1.702))) if op.params["mode"] == "SIGMOID_APPROXIMATION" else None


@rule(
    "attention",
    "scaled_dot_product_attention",
    "right only for short sequences without a mask",
    required=True,
    quirks="Q40",
)
def attention(op: Op, uses: Uses) -> Replacement:
    return composed(op)


def composed(op: Op) -> Replacement:
    """The engine's attention as products and a softmax."""
    mask = op.inputs.get("attn_mask")
    if isinstance(mask, tuple):
        return None
    if mask is not None and mask.dtype == "bool":
        keep = ops.as_mask(mask)
        mask = ops.mul(ops.sub(1.0, keep), -1e4)
    return ops.attention(op.operand("query"), op.operand("key"), op.operand("value"), None, mask)


@rule(
    "rounded-scale",
    "mul real_div",
    "a scalar factor right after floor, ceil or round is dropped",
    required=True,
    quirks="Q15",
)
def rounded_scale(op: Op, uses: Uses) -> Replacement:
    x, y = op.operand("x"), op.operand("y")
    shape = op.types[0].shape
    for rounded, factor in ((x, y), (y, x)):
        if rounded.op.kind not in ROUNDING or not factor.is_const or factor.type.size != 1 or math.prod(shape) == 1:
            continue
        full = const(np.broadcast_to(factor.value.reshape(()), shape), factor.dtype)
        if op.kind == "mul":
            return ops.mul(rounded, full)
        if rounded is x:
            return ops.real_div(rounded, full)
    return None


@rule(
    "rounded-scale-1",
    "mul",
    "a product with a rounded single value: no constant is full enough, so the rounding is hidden",
    required=True,
    quirks="Q15",
)
def rounded_scale_single(op: Op, uses: Uses) -> Replacement:
    """floor(x) of one element times a constant: add the fraction back and take it away again, so that the factor does
    not follow the rounding directly."""
    x, y = op.operand("x"), op.operand("y")
    for rounded, factor in ((x, y), (y, x)):
        if rounded.op.kind in ROUNDING and factor.is_const and math.prod(op.types[0].shape) == 1:
            source = rounded.op.operand("x")
            return ops.mul(ops.sub(source, ops.sub(source, rounded)), factor)
    return None


@rule("zero-product", "mul", "a reduction times 0 does not compile", required=True, quirks="Q28")
def zero_product(op: Op, uses: Uses) -> Replacement:
    x, y = op.operand("x"), op.operand("y")
    for reduced, factor in ((x, y), (y, x)):
        value = scalar(factor)
        if value is not None and abs(value) <= FP16_LEAST / 2 and reduced.op.kind.startswith("reduce_"):
            zero = ops.sub(reduced, reduced)
            return zero if zero.type == op.types[0] else ops.broadcast_to(zero, op.types[0].shape)
    return None


@rule("select-shapes", "select", "a select whose operands broadcast was never tested", required=True)
def select_shapes(op: Op, uses: Uses) -> Replacement:
    cond, a, b = op.operand("cond"), op.operand("a"), op.operand("b")
    if a.dtype == "bool":
        return ops.where(cond, a, b)
    if cond.shape == a.shape == b.shape:
        return None
    return ops.where(cond, a, b)


@rule("logic", "logical_and logical_or logical_xor", "no engine has it; arithmetic on masks", required=True)
def logic(op: Op, uses: Uses) -> Replacement:
    build = {"logical_and": ops.bool_and, "logical_or": ops.bool_or, "logical_xor": ops.bool_xor}[op.kind]
    return build(op.operand("x"), op.operand("y"))


@rule(
    "bool-layout",
    "reshape expand_dims squeeze flatten2d transpose concat stack split reverse tile slice_by_size slice_by_index",
    "booleans are only known to live between a comparison and a select",
    required=True,
)
def bool_layout(op: Op, uses: Uses) -> Replacement:
    if op.types[0].dtype != "bool" or all(s.is_const for s in op.sources):
        return None
    moved = Op(
        op.kind,
        {n: tuple(map(ops.as_mask, t)) if isinstance(t, tuple) else ops.as_mask(t) for n, t in op.inputs.items()},
        op.params,
        tuple(Type("fp16", t.shape) for t in op.types),
    )
    return tuple(ops.as_bool(t) for t in moved.outputs)


@rule("bool-constant", "logical_not", "not of a constant is a constant", required=True)
def bool_constant(op: Op, uses: Uses) -> Replacement:
    x = op.operand("x")
    return const(~x.value, "bool") if x.is_const else None


@rule("identity", "identity cast", "an operation that does nothing crashes the compiler", required=True, quirks="Q29")
def identity(op: Op, uses: Uses) -> Replacement:
    x = op.operand("x")
    if x.type == op.types[0]:
        return x
    if x.dtype == "bool" and op.types[0].dtype == "fp16":
        return ops.as_mask(x)
    return ops.as_bool(x) if x.dtype == "fp16" and op.types[0].dtype == "bool" else None


@rule(
    "separate-bias",
    "conv conv_transpose linear",
    "the form known to compile adds the bias as [1, C, 1, 1] afterwards",
    required=True,
)
def separate_bias(op: Op, uses: Uses) -> Replacement:
    bias = op.inputs.get("bias")
    if bias is None or isinstance(bias, tuple):
        return None
    rest = {name: given for name, given in op.inputs.items() if name != "bias"}
    plain = getattr(ops, op.kind)(**rest, **op.params)
    return ops.add(plain, bias) if op.kind == "linear" else ops.add_bias(plain, bias)


@rule(
    "channel-affine",
    VIEWS,
    "a scale or shift of 1024 and more channels between two changes of shape does not compile, or computes wrongly",
    required=True,
    quirks="Q31",
)
def channel_affine(op: Op, uses: Uses) -> Replacement:
    """reshape -> mul or add [1, D, 1, 1] … -> reshape: the constants are applied along a last axis of D instead."""
    chain: list[tuple[str, Tensor]] = []
    x = op.operand("x")
    while x.rank == 4 and x.op.kind in ("mul", "add"):
        pair = split_constant(x.op)
        if (
            pair is None
            or pair[0].type != x.type
            or pair[1].shape != (1, x.shape[1], 1, 1)
            or scalar(pair[1]) is not None
        ):
            return None
        chain.append((x.op.kind, pair[1]))
        x = pair[0]
    if not chain or x.op.kind not in VIEWS or x.shape[1] < _WIDE_AFFINE:
        return None
    n, d, h, w = x.shape
    y = ops.reshape(x, (n, d)) if h * w == 1 else ops.transpose(ops.reshape(x, (n, d, h * w)), (0, 2, 1))
    for kind, constant in reversed(chain):
        y = getattr(ops, kind)(y, constant.value.reshape((1,) * (y.rank - 1) + (d,)))
    if y.rank == 3:
        y = ops.transpose(y, (0, 2, 1))
    return ops.reshape(y, op.types[0].shape)


_WIDE_AFFINE = 1024


@rule(
    "tile", "tile", "factors with other primes than 2 and 3 are undocumented; a product with ones is not", required=True
)
def tile(op: Op, uses: Uses) -> Replacement:
    x = op.operand("x")
    for axis, reps in enumerate(op.params["reps"]):
        rest = reps
        for prime in (2, 3):
            while rest % prime == 0:
                rest //= prime
        if x.shape[axis] == 1 and reps > 1:
            x = ops.broadcast_to(x, [reps if i == axis else d for i, d in enumerate(x.shape)])
        elif rest > 1:
            before, after = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
            copies = ops.broadcast_to(ops.reshape(x, (before, 1, after)), (before, reps, after))
            x = ops.reshape(copies, (*x.shape[:axis], reps * x.shape[axis], *x.shape[axis + 1 :]))
    if x is op.operand("x"):
        return None
    left = [w // d for w, d in zip(op.types[0].shape, x.shape, strict=True)]
    return x if max(left, default=1) == 1 else ops.tile(x, left)


@rule("matmul-rank", "matmul", "a batched product of rank 5 is refused; leading axes are merged", required=True)
def matmul_rank(op: Op, uses: Uses) -> Replacement:
    x, y = op.operand("x"), op.operand("y")
    if max(x.rank, y.rank) < 5:
        return None
    tx, ty = op.params["transpose_x"], op.params["transpose_y"]
    return ops.matmul_any(_swapped(x) if tx else x, _swapped(y) if ty else y)


def _swapped(x: Tensor) -> Tensor:
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    return const(x.value.transpose(order), x.dtype) if x.is_const else ops.transpose(x, order)


RULES = (
    identity,
    square,
    softplus,
    round_,
    log_sum_exp,
    log_sum,
    wide_sum,
    l2_norm,
    thresholded_relu,
    norm_forms,
    gelu_modes,
    attention,
    rounded_scale,
    rounded_scale_single,
    zero_product,
    select_shapes,
    logic,
    bool_layout,
    bool_constant,
    separate_bias,
    channel_affine,
    tile,
    matmul_rank,
)
