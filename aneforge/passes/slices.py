"""Slices, pads and layout in forms that a target takes."""

from __future__ import annotations

import numpy as np

from .. import ops
from ..ir import Op, Replacement, Rule, Tensor, Uses, const, rule
from ..targets import Target


@rule("slice-by-index", "slice_by_index crop", "only slice_by_size is known on every engine", required=True)
def slice_by_index(op: Op, uses: Uses) -> Replacement:
    x = op.operand("x")
    if op.kind == "crop":
        (top, bottom), (left, right) = op.params["crop_height"], op.params["crop_width"]
        lead = x.rank - 2
        return ops.slice_by_size(
            x, (*(0,) * lead, top, left), (*x.shape[:lead], x.shape[-2] - top - bottom, x.shape[-1] - left - right)
        )
    starts, steps, counts, drop = [], [], [], []
    for i, extent in enumerate(x.shape):
        begin, end, step = (op.params[n][i] for n in ("begin", "end", "stride"))
        if op.params["squeeze_mask"][i]:
            starts.append(begin % extent)
            steps.append(1)
            counts.append(1)
            drop.append(i)
            continue
        first = None if op.params["begin_mask"][i] else begin
        last = None if op.params["end_mask"][i] else end
        span = range(extent)[slice(first, last, step)]
        if not len(span):
            return None
        starts.append(span.start)
        steps.append(span.step)
        counts.append(len(span))
    y = ops.slice_box(x, starts, steps, counts)
    return ops.reshape_if(y, op.types[0].shape)


@rule("pad-axes", "pad", "only H and W of rank 4 are padded; other axes get constant blocks", required=True)
def pad_axes(op: Op, uses: Uses) -> Replacement:
    x, mode = op.operand("x"), op.params["mode"]
    cells = (0,) * (2 * x.rank - len(op.params["pad"])) + op.params["pad"]
    plain = x.rank == 4 and not any(cells[:4])
    if plain and (mode == "constant" or (mode == "reflect" and len(cells) == len(op.params["pad"]))):
        return None
    pairs = list(zip(cells[::2], cells[1::2], strict=True))
    numpy_mode = "edge" if mode == "replicate" else mode
    return ops.pad_any(x, pairs, numpy_mode, op.params["constant_val"])


@rule(
    "concat-pairs",
    "concat",
    "a value between two constants does not always compile: pieces are joined in pairs",
    required=True,
    quirks="Q32",
)
def concat_pairs(op: Op, uses: Uses) -> Replacement:
    pieces, axis = op.sources, op.params["axis"]
    if len(pieces) < 3 or sum(p.is_const for p in pieces) < 2 or all(p.is_const for p in pieces):
        return None
    rest = pieces[:-1]
    if all(p.is_const for p in rest):
        first = const(np.concatenate([p.value for p in rest], axis), rest[0].dtype)
    else:
        first = ops.concat(rest, axis)
    return ops.concat((first, pieces[-1]), axis)


def _turned(x: Tensor) -> Tensor:
    """x with its last two axes exchanged."""
    return ops.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def target_rules(target: Target) -> tuple[Rule, ...]:
    """Rules for what some families lack or get wrong."""
    rules: list[Rule] = []

    if target.has_quirk("Q08") or target.has_quirk("Q09"):

        @rule(
            "width-slice",
            "slice_by_size split",
            "an offset along the last axis makes values beyond 4094 infinite; two such slices concatenated are wrong",
            required=True,
            quirks="Q08 Q09",
        )
        def width_slice(op: Op, uses: Uses) -> Replacement:
            x = op.operand("x")
            last = x.rank - 1
            if op.kind == "split":
                if op.params["axis"] != last:
                    return None
                if x.rank == 1:
                    column = ops.reshape(x, (x.shape[0], 1))
                    parts = ops.split(column, **{**op.params, "axis": 0})
                    return tuple(ops.reshape(p, t.shape) for p, t in zip(parts, op.types, strict=True))
                return tuple(_turned(p) for p in ops.split(_turned(x), **{**op.params, "axis": last - 1}))
            begin, size = op.params["begin"], op.types[0].shape
            if not begin[-1]:
                return None
            if x.rank == 1:
                column = ops.slice_by_size(ops.reshape(x, (x.shape[0], 1)), (begin[0], 0), (size[0], 1))
                return ops.reshape(column, size)
            if size[:-1] != x.shape[:-1]:
                x = ops.slice_by_size(x, (*begin[:-1], 0), (*size[:-1], x.shape[-1]))
            return _turned(ops.slice_axis(_turned(x), -2, begin[-1], size[-1]))

        rules.append(width_slice)

    if target.supports("sin") is not None:

        @rule("sine", "sin cos", "no sine before A15; range reduction and a polynomial", required=True, quirks="Q47")
        def sine(op: Op, uses: Uses) -> Replacement:
            return ops.sine(op.operand("x")) if op.kind == "sin" else ops.cosine(op.operand("x"))

        rules.append(sine)

    if target.has_quirk("Q46"):

        @rule(
            "resize",
            "resize_bilinear resize_nearest_neighbor upsample_bilinear upsample_nearest_neighbor",
            "resizing in software rounds otherwise, or aborts; two products with constants do not",
            required=True,
            quirks="Q46",
        )
        def resize(op: Op, uses: Uses) -> Replacement:
            x = op.operand("x")
            for axis in (-2, -1):
                before, after = x.shape[axis], op.types[0].shape[axis]
                if before != after or op.kind.endswith("bilinear"):
                    matrix = resampling(op, before, after)
                    if matrix.shape[0] != matrix.shape[1] or not np.array_equal(matrix, np.eye(before)):
                        x = ops.resize_matmul(x, axis, matrix)
            return x

        rules.append(resize)

        @rule(
            "reflect-pad",
            "pad",
            "reflection is there from A14 on; before, a selection of known elements",
            required=True,
        )
        def reflect_pad(op: Op, uses: Uses) -> Replacement:
            if op.params["mode"] != "reflect":
                return None
            x = op.operand("x")
            cells = (0,) * (2 * x.rank - len(op.params["pad"])) + op.params["pad"]
            for axis in range(x.rank):
                pair = cells[2 * axis : 2 * axis + 2]
                if any(pair):
                    x = ops.gather_constant(x, np.pad(np.arange(x.shape[axis]), pair, mode="reflect"), axis)
            return x

        rules.append(reflect_pad)
    return tuple(rules)


def resampling(op: Op, before: int, after: int) -> np.ndarray:
    """The matrix [after, before] of MIL's resize along one axis; positions as coremltools 9.0 gives them."""
    i = np.arange(after, dtype=np.float64)
    matrix = np.zeros((after, before))
    if op.kind in ("resize_nearest_neighbor", "upsample_nearest_neighbor"):
        matrix[np.arange(after), np.minimum(np.floor(i * before / after).astype(int), before - 1)] = 1.0
        return matrix
    mode = op.params.get("sampling_mode")
    if mode is None:
        mode = "STRICT_ALIGN_CORNERS" if op.params["align_corners"] else "UNALIGN_CORNERS"
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        single = 0.0 if mode.startswith("STRICT") else (before - 1) / 2
        at = i * (before - 1) / (after - 1) if after > 1 else np.full(1, single)
    elif mode == "DEFAULT":
        at = i * before / after
    elif mode == "UNALIGN_CORNERS":
        at = (i + 0.5) * before / after - 0.5
    else:
        at = (i + 0.5) * max(1, before - 1) / after
    at = np.clip(at, 0, before - 1)
    low = np.floor(at).astype(int)
    high = np.minimum(low + 1, before - 1)
    np.add.at(matrix, (np.arange(after), low), 1.0 - (at - low))
    np.add.at(matrix, (np.arange(after), high), at - low)
    return matrix


RULES = (slice_by_index, pad_axes, concat_pairs)
