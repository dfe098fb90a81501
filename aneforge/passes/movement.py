"""Rules that move transposes towards the end of a program, where those of opposite sense meet and cancel.

TensorFlow's exporters leave a pair around every convolution, ConvNeXt's models one around every block. Moving them one
by one may also leave more of them than there were, where a result has several readers: so `optimize` tries these rules
together, and keeps what they make only if fewer elements are moved about in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import ops
from ..ir import Op, Program, Replacement, Tensor, Uses, const, miss, rule
from ..ops.contract import LONGEST
from .match import VIEWS, constant, made_by, split_constant
from .norms import equal_sum

_UNARY = (
    "abs square sqrt exp exp2 erf sign floor ceil round relu relu6 sigmoid tanh silu softsign atan sin cos log rsqrt "
    "inverse gelu elu leaky_relu threshold thresholded_relu clip scaled_tanh clamped_relu sigmoid_hard linear_activation "
    "softplus"
)
_BINARY = "add sub mul real_div maximum minimum pow"
_REDUCE = "reduce_sum reduce_mean reduce_max reduce_min reduce_l1_norm reduce_l2_norm reduce_sum_square"


def moved_elements(program: Program) -> int:
    """How many elements the transposes of a program move."""
    return sum(op.types[0].size for op in program.ops if op.kind == "transpose")


def fits(program: Program) -> bool:
    """Whether every engine takes the extents that the transposes and convolutions of a program meet: what they did not
    meet before, they must not meet for being moved."""
    return all(
        max(op.operand("x").shape[-2:], default=0) <= LONGEST for op in program.ops if op.kind in ("transpose", "conv")
    )


def _inverse(perm: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(perm)), key=lambda i: perm[i]))


def _before(x: Tensor, perm: tuple[int, ...]) -> Tensor | None:
    """What, transposed by `perm`, is x (broadcast to that rank), if it is there without a new transpose."""
    back = _inverse(perm)
    if x.is_const:
        value = x.value.reshape((1,) * (len(perm) - x.rank) + x.shape) if x.rank else x.value
        return const(value.transpose(back), x.dtype) if x.rank else x
    if x.rank != len(perm):
        return None
    below = made_by(x, "transpose")
    if below is not None and below.params["perm"] == perm:
        return below.operand("x")
    real = [p for p in back if x.shape[p] != 1]
    return ops.reshape_if(x, tuple(x.shape[p] for p in back)) if real == sorted(real) else None


def _perm_of(op: Op) -> tuple[int, ...] | None:
    """The permutation of an operand that is transposed and has the shape of the result."""
    for x in op.sources:
        below = made_by(x, "transpose")
        if below is not None and x.shape == op.types[0].shape:
            return tuple(below.params["perm"])
    return None


@rule("transpose-sink", f"{_UNARY} {_BINARY}", "what is computed element by element may be transposed afterwards")
def sink(op: Op, uses: Uses) -> Replacement:
    perm = _perm_of(op)
    if perm is None:
        return None
    moved = {name: _before(op.operand(name), perm) for name in op.inputs}
    if any(x is None for x in moved.values()):
        return miss("another operand is not transposed", *op.sources)
    return ops.transpose(getattr(ops, op.kind)(**moved, **op.params), perm)


@rule("transpose-sink-concat", "concat", "pieces that are all transposed alike are joined first")
def sink_concat(op: Op, uses: Uses) -> Replacement:
    below = next((b for x in op.sources if (b := made_by(x, "transpose")) is not None), None)
    if below is None:
        return None
    perm = tuple(below.params["perm"])
    moved = [_before(x, perm) for x in op.sources]
    if any(x is None for x in moved):
        return miss("another piece is not transposed", *op.sources)
    pieces = [x for x in moved if x is not None]
    return ops.transpose(ops.concat(pieces, perm[op.params["axis"]]), perm)


@rule("transpose-sink-axes", f"{_REDUCE} softmax slice_by_size pad reverse", "its axes are known by number")
def sink_axes(op: Op, uses: Uses) -> Replacement:
    """Reductions, softmax, slices, pads: the same along the axes as they were before the transpose."""
    below = made_by(op.operand("x"), "transpose")
    if below is None:
        return None
    x, perm = below.operand("x"), tuple(below.params["perm"])
    if op.kind == "softmax":
        return ops.transpose(ops.softmax(x, perm[op.params["axis"]]), perm)
    if op.kind == "reverse":
        return ops.transpose(ops.reverse(x, [perm[a] for a in op.params["axes"]]), perm)
    if op.kind == "slice_by_size":
        back = _inverse(perm)
        begin, size = ([given[p] for p in back] for given in (op.params["begin"], op.types[0].shape))
        return ops.transpose(ops.slice_by_size(x, begin, size), perm)
    if op.kind == "pad":
        cells = (0,) * (2 * x.rank - len(op.params["pad"])) + tuple(op.params["pad"])
        pairs = [cells[2 * p : 2 * p + 2] for p in _inverse(perm)]
        if any(any(pair) for pair in pairs[:-2]):
            return miss("before the transpose it would pad other axes than height and width", op.operand("x"))
        flat = [cell for pair in pairs for cell in pair]
        return ops.transpose(ops.pad(x, flat, op.params["mode"], op.params["constant_val"]), perm)
    axes = [perm[a] for a in op.params["axes"]]
    reduced = getattr(ops, op.kind)(x, axes, op.params["keep_dims"])
    if op.params["keep_dims"]:
        return ops.transpose(reduced, perm)
    left = [p for p in perm if p not in axes]
    order = [sorted(left).index(p) for p in left]
    return reduced if order == sorted(order) else ops.transpose(reduced, order)


@rule(
    "transpose-sink-sum", "conv matmul", "a sum written as a product with equal weights knows its axes by number, too"
)
def sink_sum(op: Op, uses: Uses) -> Replacement:
    summed = equal_sum(op)
    image = op.operand("x")
    while image.op.kind in VIEWS:
        image = image.op.operand("x")
    below = made_by(image, "transpose")
    if summed is None or below is None:
        return None
    weight, before, count = summed
    axes = next(
        (
            range(first, last)
            for first in range(image.rank)
            for last in range(first + 1, image.rank + 1)
            if math.prod(image.shape[:first]) == before and math.prod(image.shape[first:last]) == count
        ),
        None,
    )
    if axes is None:
        return miss("what is summed is not one or more whole axes", image)
    perm = tuple(below.params["perm"])
    made = ops.weighted_sum(below.operand("x"), [perm[a] for a in axes], weight)
    return ops.reshape_if(ops.transpose(made, perm), op.types[0].shape)


@rule("linear-to-conv", VIEWS, "a linear layer on transposed images is a 1x1 convolution, transposed afterwards")
def linear_to_conv(op: Op, uses: Uses) -> Replacement:
    """reshape(matmul(reshape(transpose(x [N, C, ..])), W) + b) -> transpose(conv(x, W) + b), the bias being optional."""
    inner, bias = op.operand("x"), None
    pair = split_constant(inner.op) if inner.op.kind == "add" else None
    if pair is not None and pair[0].type == inner.type and pair[1].type.size in (1, inner.shape[-1]):
        inner, bias = pair[0], pair[1].value.reshape(-1)
        if bias.size > 1 and pair[1].shape[-1] != bias.size:
            return None
    product = made_by(inner, "matmul")
    if product is None or product.params["transpose_x"] or product.operand("y").rank != 2:
        return None
    image = product.operand("x")
    while image.op.kind in VIEWS:
        image = image.op.operand("x")
    below, weight = made_by(image, "transpose"), product.operand("y")
    if below is None or not weight.is_const:
        return None
    x, shape = below.operand("x"), op.types[0].shape
    perm = (0, *range(2, x.rank), 1)
    if x.rank < 3 or tuple(below.params["perm"]) != perm or product.operand("x").shape[-1] != x.shape[1]:
        return None
    matrix = weight.value if product.params["transpose_y"] else weight.value.T
    if shape != (*image.shape[:-1], matrix.shape[0]):
        return miss("the result is laid out otherwise", image)
    flat = ops.reshape_if(x, (*x.shape[:2], math.prod(x.shape[2:-1]), x.shape[-1]))
    made = ops.conv(flat, matrix.reshape(*matrix.shape, 1, 1))
    if bias is not None:
        made = ops.add_bias(made, np.broadcast_to(bias, (matrix.shape[0],)))
    return ops.transpose(ops.reshape_if(made, (x.shape[0], matrix.shape[0], *x.shape[2:])), perm)


@rule("flatten-order", "matmul", "the order in which a flattened image is read belongs to the rows of the weight")
def flatten_order(op: Op, uses: Uses) -> Replacement:
    """matmul(flatten(transpose(x)), W) -> matmul(flatten(x), W with its rows in x's order)."""
    flat, weight = op.operand("x"), op.operand("y")
    view = made_by(flat, *VIEWS)
    below = None if view is None else made_by(view.operand("x"), "transpose")
    if below is None or op.params["transpose_x"] or weight.rank != 2:
        return None
    image, x, perm = below.outputs[0], below.operand("x"), below.params["perm"]
    if perm[0] != 0 or flat.shape != (image.shape[0], math.prod(image.shape[1:])):
        return None
    value = constant(weight)
    if value is None:
        return miss("the weight is computed at run time", flat)
    if uses(flat) != 1:
        return miss("what is flattened has another reader", flat)
    rows = weight.value.T if op.params["transpose_y"] else weight.value
    order = [0, *(i for i in _inverse(perm) if i)]
    turned = rows.reshape(*image.shape[1:], rows.shape[1]).transpose([i - 1 for i in order[1:]] + [image.rank - 1])
    again = turned.reshape(rows.shape)
    matrix = again.T if op.params["transpose_y"] else again
    return ops.matmul(ops.reshape(x, flat.shape), matrix, False, op.params["transpose_y"])


MOVES = (sink, sink_concat, sink_axes, sink_sum, linear_to_conv)
RULES = (flatten_order,)
