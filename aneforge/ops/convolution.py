"""Convolutions. Rank 3 to 5 by MIL; the engine takes rank 4 only (`conv_any` in `windows`)."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Tensor, Type
from .base import Operand, declare, floating, make, one_of, operand, whole, wholes

PAD_TYPES = ("valid", "custom", "same", "same_lower")


def window_extent(extent: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> int:
    """How many windows fit: floor((d + pads - ((k - 1) * dilation + 1)) / stride) + 1."""
    return (extent + before + after - ((kernel - 1) * dilation + 1)) // stride + 1


def same_pads(extent: int, kernel: int, stride: int, dilation: int, lower: bool = False) -> tuple[int, int]:
    """Pads that give ceil(extent / stride) windows; the odd cell at the end, or at the start for `lower`."""
    total = max(0, stride * -(-extent // stride) - extent + (kernel - 1) * dilation + 1 - stride)
    small = total // 2
    return (total - small, small) if lower else (small, total - small)


@declare
def conv(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    strides: int | Sequence[int] = 1,
    pad_type: str = "custom",
    pad: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution: x [N, Cin, *d], weight [Cout, Cin / groups, *k], bias [Cout]; `pad` is (before, after) for each
    axis in turn.

    The engine form has no bias: `conv_bias` adds it as [1, Cout, 1, 1] afterwards.
    """
    kind = "conv"
    floating(kind, "x", x)
    w = operand(kind, "weight", weight)
    spatial = x.rank - 2
    if not 1 <= spatial <= 3:
        raise ValueError(f"conv: x has rank 3 to 5, not {x.rank} {x.shape}")
    if w.rank != x.rank:
        raise ValueError(f"conv: x {x.shape} needs a weight of rank {x.rank}, not {w.shape}")
    g = whole(kind, "groups", groups)
    if g < 1 or x.shape[1] % g or w.shape[0] % g:
        raise ValueError(f"conv: {g} groups do not divide {x.shape[1]} input and {w.shape[0]} output channels")
    if w.shape[1] * g != x.shape[1]:
        raise ValueError(
            f"conv: weight {w.shape} with {g} groups takes {w.shape[1] * g} channels, x {x.shape} has {x.shape[1]}"
        )
    one_of(kind, "pad_type", pad_type, PAD_TYPES)
    stride, dilation = wholes(kind, "strides", strides, spatial), wholes(kind, "dilations", dilations, spatial)
    pads = wholes(kind, "pad", pad, 2 * spatial)
    if min(stride) < 1 or min(dilation) < 1 or min(pads) < 0:
        raise ValueError(f"conv: strides {stride} and dilations {dilation} are 1 and more, pad {pads} 0 and more")
    out = []
    for i, (extent, kernel) in enumerate(zip(x.shape[2:], w.shape[2:], strict=True)):
        if pad_type in ("same", "same_lower"):
            out.append(-(-extent // stride[i]))
            continue
        before, after = (pads[2 * i], pads[2 * i + 1]) if pad_type == "custom" else (0, 0)
        out.append(window_extent(extent, kernel, stride[i], dilation[i], before, after))
        if out[-1] < 1:
            raise ValueError(
                f"conv: a kernel of {kernel}, dilation {dilation[i]}, does not fit into {extent} + {before} + {after}"
            )
    inputs = {"x": x, "weight": w}
    if bias is not None:
        inputs["bias"] = b = operand(kind, "bias", bias)
        if b.shape != (w.shape[0],):
            raise ValueError(f"conv: bias {b.shape} is not ({w.shape[0]},)")
    params = {"strides": stride, "pad_type": pad_type, "pad": pads, "dilations": dilation, "groups": g}
    return make(kind, inputs, params, Type(x.dtype, (x.shape[0], w.shape[0], *out)))


@declare
def conv_transpose(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    pad: int | Sequence[int] = 0,
    output_shape: Sequence[int] | None = None,
    pad_type: str = "custom",
    strides: int | Sequence[int] = 1,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Transposed convolution: x [N, Cin, *d], weight [Cin, Cout / groups, *k]; out = (d - 1) * s + (k - 1) * dilation
    + 1 - pads.
    """
    kind = "conv_transpose"
    floating(kind, "x", x)
    w = operand(kind, "weight", weight)
    spatial = x.rank - 2
    if not 1 <= spatial <= 3 or w.rank != x.rank:
        raise ValueError(f"conv_transpose: x {x.shape} and weight {w.shape} have one rank, 3 to 5")
    g = whole(kind, "groups", groups)
    if g < 1 or w.shape[0] != x.shape[1] or x.shape[1] % g:
        raise ValueError(f"conv_transpose: weight {w.shape} with {g} groups does not fit x {x.shape}")
    one_of(kind, "pad_type", pad_type, PAD_TYPES)
    stride, dilation = wholes(kind, "strides", strides, spatial), wholes(kind, "dilations", dilations, spatial)
    pads = wholes(kind, "pad", pad, 2 * spatial)
    if min(stride) < 1 or min(dilation) < 1 or min(pads) < 0:
        raise ValueError(
            f"conv_transpose: strides {stride} and dilations {dilation} are 1 and more, pad {pads} 0 and more"
        )
    params = {"pad": pads, "pad_type": pad_type, "strides": stride, "dilations": dilation, "groups": g}
    lead = (x.shape[0], w.shape[1] * g)
    if output_shape is not None:
        shape = wholes(kind, "output_shape", output_shape, x.rank)
        params["output_shape"] = shape
        if shape[:2] != lead:
            raise ValueError(f"conv_transpose: output_shape {shape} does not begin with {lead}")
    else:
        out = []
        for i, (extent, kernel) in enumerate(zip(x.shape[2:], w.shape[2:], strict=True)):
            if pad_type in ("same", "same_lower"):
                out.append(extent * stride[i])
                continue
            cut = pads[2 * i] + pads[2 * i + 1] if pad_type == "custom" else 0
            out.append((extent - 1) * stride[i] + (kernel - 1) * dilation[i] + 1 - cut)
        shape = (*lead, *out)
    if min(shape) < 1:
        raise ValueError(f"conv_transpose: pad {pads} leaves nothing of x {x.shape}: {shape}")
    inputs = {"x": x, "weight": w}
    if bias is not None:
        inputs["bias"] = b = operand(kind, "bias", bias)
        if b.shape != (lead[1],):
            raise ValueError(f"conv_transpose: bias {b.shape} is not ({lead[1]},)")
    return make(kind, inputs, params, Type(x.dtype, shape))
