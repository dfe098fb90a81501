"""Blocks that networks are built of, by name. The elementary rules have folded and moved what there is to fold and move:
a block is recognized in what they leave, for the report, and only what is peculiar to it is rewritten (docs/decisions.md,
D12).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import ops
from ..ir import Op, Replacement, Tensor, Uses, miss, recognize, rule
from .match import made_by, scalar, split_constant
from .norms import mean_of

GROUP = "composite"
_LONGEST = 96
"""Operations of the longest block, with its norms in their safe forms."""


# ---------------------------------------------------------------- what blocks are made of


def _conv(x: Tensor, kernel: int = 0) -> Op | None:
    """The convolution, 2-d and with a known weight, whose result x is, perhaps after a bias. `kernel` 0 is any."""
    while (pair := split_constant(x.op) if x.op.kind == "add" else None) is not None:
        x = pair[0]
    op = made_by(x, "conv")
    if (
        op is None
        or not op.operand("weight").is_const
        or (kernel and op.operand("weight").shape[2:] != (kernel, kernel))
    ):
        return None
    return op


def _depthwise(op: Op) -> bool:
    return op.params["groups"] == op.operand("x").shape[1] > 1 and max(op.operand("weight").shape[2:]) > 1


def _pointwise(op: Op) -> bool:
    """A product over channels alone, and not one with equal weights, which is a sum."""
    if op.kind == "matmul":
        return op.operand("y").is_const and op.operand("y").rank == 2 and scalar(op.operand("y")) is None
    weight = op.operand("weight")
    return weight.shape[2:] == (1, 1) and op.params["groups"] == 1 and scalar(weight) is None


def _addends(x: Tensor) -> list[Tensor]:
    """What is added up into x, constants left out; a sum that is read more than once counts whole in no case."""
    found: list[Tensor] = []
    todo = [x]
    while todo:
        here = todo.pop()
        if here.op.kind == "add" and len(found) + len(todo) < 6:
            todo += here.op.sources
        elif not here.is_const:
            found.append(here)
    return found


def _within(y: Tensor, x: Tensor) -> list[Op] | None:
    """The operations that make y of x and constants, y's first; None if something else is needed, or too many are."""
    found: dict[Op, None] = {}
    todo = [y]
    while todo:
        here = todo.pop()
        if here is x or here.is_const or here.op in found:
            continue
        if here.op.is_leaf or len(found) == _LONGEST:
            return None
        found[here.op] = None
        todo += here.op.sources
    return list(found)


def _results(found: list[Op]) -> list[Tensor]:
    return [op.outputs[0] for op in found]


# ---------------------------------------------------------------- ResNet


@rule("resnet-basic-block", "relu", "two 3x3 convolutions and what they add to: ResNet-18 and 34", group=GROUP)
def resnet_basic_block(op: Op, uses: Uses) -> Replacement:
    """relu(conv3(relu(conv3(x))) + skip(x)); the skip is x, or a 1x1 convolution of it."""
    parts = _addends(op.operand("x"))
    if len(parts) != 2:
        return None
    for main, skip in (parts, parts[::-1]):
        second = _conv(main, 3)
        middle = None if second is None else made_by(second.operand("x"), "relu")
        first = None if middle is None else _conv(middle.operand("x"), 3)
        if second is None or first is None or (first.params["groups"], second.params["groups"]) != (1, 1):
            continue
        x = first.operand("x")
        projection = _conv(skip, 1)
        start = skip if projection is None or skip is x else projection.operand("x")
        if start is not x:
            miss("the skip does not start where the block does", main, skip)
        elif max(second.params["strides"]) > 1:
            miss("the second convolution has a stride", main)
        elif (found := _within(op.outputs[0], x)) is not None:
            return recognize(*_results(found))
    return None


# ---------------------------------------------------------------- MobileNetV4


def _uib(op: Op) -> tuple[list[Op], Tensor] | None:
    """(operations, input) of a universal inverted bottleneck that ends in the projection `op`."""
    if not op.operand("weight").is_const or not _pointwise(op):
        return None
    active = made_by(op.operand("x"), "relu")
    middle = None if active is None else _conv(active.operand("x"))
    if middle is None:
        return None
    depthwise = _depthwise(middle)
    if depthwise:
        active = made_by(middle.operand("x"), "relu")
        expansion = None if active is None else _conv(active.operand("x"))
    else:
        expansion = middle
    if expansion is None or not _pointwise(expansion):
        return None
    if expansion.operand("weight").shape[0] <= max(op.operand("weight").shape[0], expansion.operand("weight").shape[1]):
        miss("the inner channels are not more than the outer ones", expansion.outputs[0])
        return None
    x = expansion.operand("x")
    first = _conv(x)
    if first is not None and _depthwise(first):
        x, depthwise = first.operand("x"), True
    if not depthwise:
        miss("there is no depthwise convolution in it", expansion.outputs[0])
        return None
    found = _within(op.outputs[0], x)
    return None if found is None else (found, x)


def _after_bias(y: Tensor, uses: Uses) -> tuple[Tensor, Tensor | None]:
    """The result with its bias, and what else is added to it afterwards."""
    for _ in range(2):
        readers = uses.readers(y)
        if len(readers) != 1 or readers[0].kind != "add":
            break
        other = next((s for s in readers[0].sources if s is not y), y)
        if not other.is_const:
            return readers[0].outputs[0], other
        y = readers[0].outputs[0]
    return y, None


@rule("mobilenetv4-uib", "conv", "MobileNetV4's universal inverted bottleneck, without a skip", group=GROUP)
def mobilenetv4_uib(op: Op, uses: Uses) -> Replacement:
    """conv1(relu(dw?(relu(conv1(dw?(x)))))): the start and middle depthwise convolutions are optional, not both."""
    found = _uib(op)
    if found is None:
        return None
    last, other = _after_bias(op.outputs[0], uses)
    return None if other is found[1] else recognize(last if other is None else op.outputs[0], *_results(found[0]))


@rule("mobilenetv4-uib-skip", "conv", "MobileNetV4's universal inverted bottleneck, added to its input", group=GROUP)
def mobilenetv4_uib_skip(op: Op, uses: Uses) -> Replacement:
    found = _uib(op)
    if found is None:
        return None
    last, other = _after_bias(op.outputs[0], uses)
    if other is None:
        return None
    if other is not found[1]:
        return miss("what is added is not the block's input", last)
    return recognize(last, *_results(found[0]))


# ---------------------------------------------------------------- ConvNeXt V2


def _response(n: Tensor, x: Tensor) -> bool:
    """Whether n is g / (mean of g over the channels + eps), g being computed of x."""
    if n.op.kind != "real_div" or n.type.size >= x.type.size:
        return False
    g, below = n.op.operand("x"), n.op.operand("y")
    if below.op.kind in ("add", "maximum") and (pair := split_constant(below.op)) is not None:
        below = pair[0]
    mean = mean_of(below)
    return mean is not None and mean[0] is g and len(mean[1]) == 1 and _within(g, x) is not None


@rule(
    "convnextv2-grn",
    "add",
    "x + (gamma * (x * n) + beta) is x * (1 + gamma * n) + beta: two operations on whole images instead of four",
    group=GROUP,
)
def convnextv2_grn(op: Op, uses: Uses) -> Replacement:
    """Global response normalization: n = g / (mean(g) + eps) has one value for each channel, g = |x| over the image."""
    beta: Tensor | None = None
    terms = list(op.sources)
    for i, term in enumerate(terms):  # beta stands with either
        pair = split_constant(term.op) if term.op.kind == "add" else None
        if pair is not None and uses(term) == 1:
            terms[i], beta = pair
    for x, scaled in (terms, terms[::-1]):
        found = _gated(scaled, x)
        if found is None or x.type != op.types[0]:
            continue
        n, gain = found
        shape = n.shape
        along = 1.0 if gain is None else gain.value
        if np.broadcast_shapes(np.shape(along), shape) != shape:
            return miss("the gain is not one for each channel", scaled)
        if uses(scaled) != 1:
            return miss("the normalized value has another reader", scaled)
        y = ops.mul(x, ops.add(n if gain is None else ops.mul(n, gain), 1.0))
        return y if beta is None else ops.add(y, beta)
    return None


def _gated(y: Tensor, x: Tensor) -> tuple[Tensor, Tensor | None] | None:
    """(n, gamma) if y is x * n * gamma in any order, n a response of x."""
    factors: list[Tensor] = []
    todo = [y]
    while todo:
        here = todo.pop()
        if here.op.kind == "mul" and here is not x and len(factors) < 4:
            todo += here.op.sources
        else:
            factors.append(here)
    rest = [f for f in factors if f is not x]
    n = next((f for f in rest if _response(f, x)), None)
    gains = [f for f in rest if f is not n]
    if n is None or len(rest) == len(factors) or len(gains) > 1 or not all(g.is_const for g in gains):
        return None
    return n, gains[0] if gains else None


@rule("convnextv2-block", "add", "ConvNeXt V2's block: depthwise, norm, expansion, GELU, GRN, projection", group=GROUP)
def convnextv2_block(op: Op, uses: Uses) -> Replacement:
    """x + project(GRN(gelu(expand(norm(depthwise(x)))))), in either layout."""
    if any(s.is_const for s in op.sources) or len(parts := _addends(op.outputs[0])) != 2:
        return None
    for x in parts:
        found = _within(op.outputs[0], x)
        if found is None:
            continue
        convs = [each for each in found if each.kind == "conv"]
        entry = [each for each in convs if each.operand("x") is x and _depthwise(each)]
        inner = [each for each in found if each.kind in ("conv", "matmul") and each not in entry and _pointwise(each)]
        kinds = {each.kind for each in found}
        if len(entry) != 1 or len(inner) != 2:
            continue
        for wanted, what in (({"rsqrt"}, "a norm"), ({"gelu", "tanh"}, "a GELU")):
            if not kinds & wanted:
                return miss(f"between its products it lacks {what}", *_results(found))
        if not any(_is_response(each) for each in found):
            return miss("between its products it lacks a global response normalization", *_results(found))
        return recognize(*_results(found))
    return None


def _is_response(op: Op) -> bool:
    if op.kind != "real_div":
        return False
    return any(_response(op.outputs[0], x) for x in _norms_of(op.operand("x")))


def _norms_of(g: Tensor) -> Iterator[Tensor]:
    """What g may be the norm of: values below it that are larger."""
    seen, todo = {g}, [g]
    while todo and len(seen) < 24:
        here = todo.pop()
        for source in here.op.sources:
            if source not in seen and not source.is_const:
                seen.add(source)
                todo.append(source)
                if source.type.size > g.type.size:
                    yield source


RULES = (convnextv2_grn, resnet_basic_block, mobilenetv4_uib, mobilenetv4_uib_skip, convnextv2_block)
