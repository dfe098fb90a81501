"""Operations that move, cut, join or make tensors."""

import numpy as np

from .registry import (
    Any,
    Flag,
    Flags,
    Float,
    Int,
    Ints,
    IntTable,
    Many,
    Scalar,
    Wide,
    Word,
    operation,
    require,
)


def _axis(axis, rank):
    require(-rank <= axis < rank, f"axis {axis} at rank {rank}")
    return int(axis) % rank


@operation
def reshape(x: Any, shape: Ints):
    require(min(shape, default=1) >= 1, f"only static shapes: {list(shape)}")
    require(np.prod(shape, dtype=np.int64) == x.size, f"reshape of {x.shape} to {list(shape)}")
    return x.reshape(tuple(shape))


@operation
def transpose(x: Any, perm: Ints):
    normal = [_axis(p, x.ndim) for p in perm]
    require(sorted(normal) == list(range(x.ndim)), f"perm {list(perm)} at rank {x.ndim}")
    return x.transpose(normal)


@operation
def expand_dims(x: Any, axes: Ints):
    rank = x.ndim + len(axes)
    normal = [_axis(a, rank) for a in axes]
    require(len(set(normal)) == len(normal), f"axes {list(axes)}")
    return np.expand_dims(x, tuple(normal))


@operation
def squeeze(x: Any, axes: Ints = None):
    normal = [i for i, d in enumerate(x.shape) if d == 1] if axes is None else [_axis(a, x.ndim) for a in axes]
    require(all(x.shape[a] == 1 for a in normal), f"squeeze of {x.shape} at {normal}")
    return np.squeeze(x, tuple(normal))


@operation
def flatten2d(x: Any, axis: Int = 1):
    require(-x.ndim <= axis <= x.ndim, f"axis {axis} at rank {x.ndim}")
    axis = int(axis) if axis >= 0 else int(axis) + x.ndim
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


@operation
def concat(values: Many, axis: Int, interleave: Flag = False):
    require(not interleave, "interleave")
    return np.concatenate(values, _axis(axis, values[0].ndim))


@operation
def stack(values: Many, axis: Int):
    return np.stack(values, _axis(axis, values[0].ndim + 1))


@operation
def split(x: Any, axis: Int, num_splits: Int = None, split_sizes: Ints = None):
    axis = _axis(axis, x.ndim)
    extent = x.shape[axis]
    if split_sizes is None:
        require(num_splits is not None and extent % num_splits == 0, f"{num_splits} equal parts of {extent}")
        split_sizes = [extent // int(num_splits)] * int(num_splits)
    require(num_splits is None or num_splits == len(split_sizes), "num_splits and split_sizes differ")
    require(sum(split_sizes) == extent and min(split_sizes) >= 1, f"parts {list(split_sizes)} of {extent}")
    return tuple(np.split(x, np.cumsum(split_sizes)[:-1], axis))


@operation
def slice_by_size(x: Any, begin: Ints, size: Ints):
    require(len(begin) == len(size) == x.ndim, f"slice of rank {x.ndim}: {list(begin)}, {list(size)}")
    index = []
    for b, s, d in zip(begin, size, x.shape, strict=True):
        s = d - b if s == -1 else s  # noqa: PLW2901
        require(b >= 0 and s >= 1 and b + s <= d, f"slice {list(begin)}, {list(size)} of {x.shape}")
        index.append(slice(b, b + s))
    return x[tuple(index)]


@operation
def slice_by_index(
    x: Any,
    *,
    begin: Ints,
    end: Ints,
    stride: Ints = None,
    begin_mask: Flags = None,
    end_mask: Flags = None,
    squeeze_mask: Flags = None,
):
    index: list = []
    for i in range(x.ndim):
        step = 1 if stride is None else int(stride[i])
        require(step != 0, "stride 0")
        start = None if begin_mask is not None and begin_mask[i] else int(begin[i])
        stop = None if end_mask is not None and end_mask[i] else int(end[i])
        index.append(start if squeeze_mask is not None and squeeze_mask[i] else slice(start, stop, step))
    out = x[tuple(index)]
    require(out.size, f"an empty slice of {x.shape}")
    return out


@operation
def reverse(x: Any, axes: Ints = None):
    return np.flip(x, None if axes is None else tuple(_axis(a, x.ndim) for a in axes))


@operation
def tile(x: Any, reps: Ints):
    require(len(reps) == x.ndim and min(reps) >= 1, f"reps {list(reps)} at rank {x.ndim}")
    return np.tile(x, tuple(reps))


@operation
def pad(x: Float, pad: Ints, mode: Word = "constant", constant_val: Scalar = 0.0):
    require(len(pad) % 2 == 0 and len(pad) <= 2 * x.ndim and min(pad) >= 0, f"pad {list(pad)} at rank {x.ndim}")
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + [(int(b), int(a)) for b, a in zip(pad[::2], pad[1::2], strict=True)]
    if mode == "constant":
        return np.pad(x, pairs, constant_values=float(constant_val))
    if mode == "replicate":
        return np.pad(x, pairs, mode="edge")
    require(mode == "reflect", f"pad mode {mode!r}")
    require(all(max(p) < d for p, d in zip(pairs, x.shape, strict=True)), "reflect pads stay below the extent")
    return np.pad(x, pairs, mode="reflect")


@operation
def crop(x: Float, crop_height: Ints, crop_width: Ints):
    require(x.ndim >= 3 and len(crop_height) == len(crop_width) == 2, "crop takes rank 3 or more and two pairs")
    (t, b), (l, r) = crop_height, crop_width  # noqa: E741
    require(min(t, b, l, r) >= 0 and t + b < x.shape[-2] and l + r < x.shape[-1], "crop leaves something")
    return x[..., t : x.shape[-2] - b, l : x.shape[-1] - r]


@operation
def space_to_batch(x: Float, block_shape: Ints, paddings: IntTable):
    require(x.ndim == 4 and len(block_shape) == 2 and paddings.shape == (2, 2), "space_to_batch")
    b0, b1 = (int(b) for b in block_shape)
    y = np.pad(x, [(0, 0), (0, 0), *(tuple(int(v) for v in p) for p in paddings)])
    n, c, h, w = y.shape
    require(h % b0 == 0 == w % b1, "padded extents divide by the block")
    y = y.reshape(n, c, h // b0, b0, w // b1, b1).transpose(3, 5, 0, 1, 2, 4)
    return y.reshape(b0 * b1 * n, c, h // b0, w // b1)


@operation
def batch_to_space(x: Float, block_shape: Ints, crops: IntTable):
    require(x.ndim == 4 and len(block_shape) == 2 and crops.shape == (2, 2), "batch_to_space")
    b0, b1 = (int(b) for b in block_shape)
    n, c, h, w = x.shape
    require(n % (b0 * b1) == 0, "the batch divides by the block")
    y = x.reshape(b0, b1, n // (b0 * b1), c, h, w).transpose(2, 3, 4, 0, 5, 1)
    y = y.reshape(n // (b0 * b1), c, h * b0, w * b1)
    (t, b), (l, r) = crops  # noqa: E741
    return y[:, :, t : y.shape[2] - b, l : y.shape[3] - r]


@operation
def band_part(x: Float, lower: Int = -1, upper: Int = -1):
    m, n = x.shape[-2:]
    down = np.arange(m)[:, None] - np.arange(n)
    keep = ((lower < 0) | (down <= lower)) & ((upper < 0) | (-down <= upper))
    return np.where(keep, x, 0)


@operation
def fill(shape: Ints, value: Scalar = 0.0):
    return np.full(tuple(shape), value)


@operation
def fill_like(ref_tensor: Float, value: Scalar = 0.0):
    return np.full(ref_tensor.shape, value)


@operation
def topk(
    x: Float,
    *,
    k: Int = 1,
    axis: Int = -1,
    ascending: Flag = False,
    sort: Flag = True,
    return_indices: Flag = True,
    output_indices_dtype: Word = "int32",
):
    require(sort, "an unsorted topk has no one answer")
    axis = _axis(axis, x.ndim)
    require(1 <= k <= x.shape[axis], f"k {k} of {x.shape[axis]}")
    order = np.argsort(x if ascending else -x, axis=axis, kind="stable")
    chosen = np.take(order, np.arange(int(k)), axis)
    values = np.take_along_axis(x, chosen, axis)
    if not return_indices:
        return values
    require(output_indices_dtype in ("int32", "uint16"), "indices are int32 or uint16")
    return values, chosen.astype(output_indices_dtype)


@operation
def cast(x: Wide, dtype: Word):
    require(x.dtype in (np.uint8, np.float64), "a cast starts from uint8 or a float")
    require(dtype in ("fp16", "fp32"), f"cast to {dtype}")
    return x.astype(np.float64)
