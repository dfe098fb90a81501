"""ONNX's arithmetic of windows, shared by Conv, ConvTranspose and pools: pads from auto_pad and output_shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import Refused

Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class Window:
    """One kernel over some spatial axes; `pads` are (before, after) for each axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pairs

    @property
    def reach(self) -> tuple[int, ...]:
        """Cells from the first tap to the last, inclusive."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def fill(name: str, given: Sequence[int] | None, count: int, default: int) -> tuple[int, ...]:
    """An attribute with one number for each axis.

    Raises:
        Refused: another count, or a number below the default."""
    values = (default,) * count if not given else tuple(given)
    if len(values) != count or min(values, default=default) < default:
        raise Refused("attribute form", f"{name} {list(values)} does not fit {count} spatial axes")
    return values


def pairs(pads: Sequence[int] | None, count: int) -> Pairs:
    """ONNX writes all beginnings, then all ends."""
    values = [0] * (2 * count) if not pads else list(pads)
    if len(values) != 2 * count:
        raise Refused("attribute form", f"pads {values} do not fit {count} spatial axes")
    return [(values[i], values[i + count]) for i in range(count)]


def window(
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
) -> Window:
    """The window of a Conv or a pool over axes of the given extents, with explicit pads.

    SAME_*: ceil(extent / stride) windows; an odd cell goes to the end for SAME_UPPER, to the beginning for SAME_LOWER.
    """
    n = len(extents)
    size, step = fill("kernel_shape", kernel, n, 1), fill("strides", strides, n, 1)
    dilation = fill("dilations", dilations, n, 1)
    made = Window(size, step, dilation, pairs(pads, n) if auto_pad == "NOTSET" else [(0, 0)] * n)
    if auto_pad in ("NOTSET", "VALID"):
        return made
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise Refused("attribute form", f"auto_pad {auto_pad!r} is not known")
    same: Pairs = []
    for extent, s, reach in zip(extents, step, made.reach, strict=True):
        total = max(0, (-(-extent // s) - 1) * s + reach - extent)
        same.append((total - total // 2, total // 2) if auto_pad == "SAME_LOWER" else (total // 2, total - total // 2))
    return Window(size, step, dilation, same)


def transposed_pads(
    extents: Sequence[int],
    made: Window,
    output_padding: Sequence[int],
    output_shape: Sequence[int] | None,
    auto_pad: str,
) -> Pairs:
    """What a transposed convolution cuts off at either end of each axis; negative numbers add cells.

    Raises:
        Refused: an output larger than the kernel reaches by more than one cell: implementations disagree there.
    """
    full = [(d - 1) * s + r for d, s, r in zip(extents, made.strides, made.reach, strict=True)]
    if output_shape:
        wanted = list(output_shape)[-len(full) :]
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [d * s for d, s in zip(extents, made.strides, strict=True)]
    else:
        return [(b, a - o) for (b, a), o in zip(made.pads, output_padding, strict=True)]
    cuts: Pairs = []
    for natural, extra, want in zip(full, output_padding, wanted, strict=True):
        total = natural + extra - want
        if total < -1 or (total < 0 and (auto_pad == "SAME_UPPER" or not output_shape)):
            raise Refused("attribute form", f"an output of {want} cells, where the kernel reaches {natural + extra}")
        half = total // 2
        before = half if auto_pad == "SAME_UPPER" else total - half
        cuts.append((before, total - before - extra))
    return cuts
