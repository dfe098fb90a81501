"""Rules that remove layout operations which do nothing, or undo each other."""

from __future__ import annotations

import math

from .. import ops
from ..ir import Op, Replacement, Tensor, Uses, miss, rule
from .match import VIEWS, made_by


@rule(
    "view-noop",
    VIEWS,
    "a change of shape that changes nothing is no operation; alone it crashes the compiler (Q29)",
    quirks="Q29",
)
def view_noop(op: Op, uses: Uses) -> Replacement:
    x = op.operand("x")
    return x if x.type == op.types[0] else None


@rule("view-chain", VIEWS, "only the last of several changes of shape matters")
def view_chain(op: Op, uses: Uses) -> Replacement:
    below = made_by(op.operand("x"), *VIEWS)
    if below is None:
        return None
    return ops.reshape_if(below.operand("x"), op.types[0].shape)


@rule("view-between", VIEWS, "a change of shape and its reverse around functions of single elements do nothing")
def view_between(op: Op, uses: Uses) -> Replacement:
    shape, x = op.types[0].shape, op.operand("x")
    chain: list[Op] = []
    while x.op.kind in _SINGLE and uses(x) == 1:
        own = [s for s in x.op.sources if not _fits_both(s, x.shape, shape)]
        if len(own) != 1 or own[0].shape != x.shape:
            return None
        chain.append(x.op)
        x = own[0]
    if not chain or x.op.kind not in VIEWS or x.op.operand("x").shape != shape:
        return None
    if uses(x) != 1:
        return miss("the inner change of shape has another reader", x)
    y = x.op.operand("x")
    for each in reversed(chain):
        given = {n: t if isinstance(t, Tensor) and t.is_const else y for n, t in each.inputs.items()}
        y = getattr(ops, each.kind)(**given, **each.params)
    return y


def _fits_both(c: Tensor, one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether c is a number, or a row along a last axis that both shapes have: the bias of a product of rows."""
    if not c.is_const or c.rank > 1:
        return False
    return c.rank == 0 or (one[-1:] == other[-1:] == c.shape)


_SINGLE = frozenset(
    """abs sqrt exp exp2 erf sign floor ceil round relu relu6 sigmoid tanh silu softsign log rsqrt inverse gelu elu
    leaky_relu clip sigmoid_hard square add sub mul real_div maximum minimum pow""".split()  # noqa: SIM905 - read as words
)


@rule("transpose-noop", "transpose", "axes of extent 1 may move freely: the order of elements stays")
def transpose_noop(op: Op, uses: Uses) -> Replacement:
    x, perm = op.operand("x"), op.params["perm"]
    real = [p for p in perm if x.shape[p] != 1]
    if real != sorted(real):
        return None
    return x if x.type == op.types[0] else ops.reshape(x, op.types[0].shape)


@rule("transpose-chain", "transpose", "two permutations are one")
def transpose_chain(op: Op, uses: Uses) -> Replacement:
    below = made_by(op.operand("x"), "transpose")
    if below is None:
        return None
    first, second = below.params["perm"], op.params["perm"]
    order = [first[p] for p in second]
    x = below.operand("x")
    return x if order == list(range(x.rank)) else ops.transpose(x, order)


@rule("slice-noop", "slice_by_size slice_by_index crop", "a slice of everything")
def slice_noop(op: Op, uses: Uses) -> Replacement:
    x = op.operand("x")
    if x.type != op.types[0] or any(step < 0 for step in op.params.get("stride", ())):
        return None
    return x


@rule("slice-chain", "slice_by_size", "a slice of a slice is one slice")
def slice_chain(op: Op, uses: Uses) -> Replacement:
    below = made_by(op.operand("x"), "slice_by_size")
    if below is None:
        return None
    begin = [a + b for a, b in zip(below.params["begin"], op.params["begin"], strict=True)]
    return ops.slice_by_size(below.operand("x"), begin, op.types[0].shape)


@rule("single", "concat split tile reverse pad", "one piece, one copy, no cell: nothing to do")
def single(op: Op, uses: Uses) -> Replacement:
    if op.kind == "concat":
        values = op.sources
        return values[0] if len(values) == 1 else None
    x = op.operand("x")
    if op.kind == "split":
        return (x,) if len(op.types) == 1 else None
    if op.kind == "tile":
        return x if all(r == 1 for r in op.params["reps"]) else None
    if op.kind == "reverse":
        return x if all(x.shape[a] == 1 for a in op.params["axes"]) else None
    return x if not any(op.params["pad"]) else None


@rule("concat-chain", "concat", "a concat along the axis of a concat is one concat")
def concat_chain(op: Op, uses: Uses) -> Replacement:
    axis = op.params["axis"]
    flat: list[Tensor] = []
    for value in op.sources:
        below = made_by(value, "concat")
        if below is not None and below.params["axis"] == axis and uses(value) == 1:
            flat += below.sources
        elif below is not None and below.params["axis"] == axis:
            miss("the inner concat has another reader", value)
            flat.append(value)
        else:
            flat.append(value)
    # Two constant borders around a value in one concat do not always compile (Q32): such pairs stay nested.
    if len(flat) == len(op.sources):
        return None
    if sum(t.is_const for t in flat) > 1:
        return miss("two constants in one concat do not always compile (Q32)")
    return ops.concat(flat, axis)


@rule("split-concat", "concat", "all pieces of one split, in order, along its axis, are what was split")
def split_concat(op: Op, uses: Uses) -> Replacement:
    below = op.sources[0].op
    if below.kind != "split" or below.params["axis"] != op.params["axis"]:
        return None
    if op.sources != below.outputs:
        return miss("not all pieces of the split, in their order", op.sources[0])
    return below.operand("x")


@rule("transpose-reshape", "transpose", "between two changes of shape, axes that stay neighbours move as one")
def transpose_merge(op: Op, uses: Uses) -> Replacement:
    """Lowers the rank of a transpose where neighbouring axes keep their order: [a, b, c, d] by (0, 2, 3, 1) is [a, b,
    cd] by (0, 2, 1). Only from rank 5 on, which some operations of the engine refuse."""
    x, perm = op.operand("x"), op.params["perm"]
    if x.rank < 5:
        return None
    groups: list[list[int]] = []
    for p in perm:
        if groups and p == groups[-1][-1] + 1:
            groups[-1].append(p)
        else:
            groups.append([p])
    if len(groups) == len(perm):
        return None
    order = sorted(range(len(groups)), key=lambda g: groups[g][0])
    merged = ops.reshape(x, [math.prod(x.shape[p] for p in groups[g]) for g in order])
    moved = ops.transpose(merged, [order.index(g) for g in range(len(groups))])
    return ops.reshape(moved, op.types[0].shape)


RULES = (
    view_noop,
    view_chain,
    view_between,
    transpose_noop,
    transpose_chain,
    transpose_merge,
    slice_noop,
    slice_chain,
    single,
    concat_chain,
    split_concat,
)
