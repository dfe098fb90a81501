"""Host kernels that move elements, against NumPy; every one must be exact. And the compressed constants."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from milkit import MODES, In, Packed, Program, check, half

RNG = np.random.default_rng(17)


@pytest.mark.parametrize("mode", MODES)
def test_reshape_family(mode: str) -> None:
    x = In(RNG.normal(size=(2, 3, 4)))
    check(mode, "reshape", lambda x, shape: x.reshape(shape), ulp=0, x=x, shape=[4, 6])
    check(mode, "reshape", lambda x, shape: x.reshape(6, 4), ulp=0, x=x, shape=[-1, 4])
    check(mode, "expand_dims", lambda x, axes: np.expand_dims(x, tuple(axes)), ulp=0, x=x, axes=[0, 2])
    check(mode, "expand_dims", lambda x, axes: np.expand_dims(x, tuple(axes)), ulp=0, x=x, axes=[-1])
    y = In(RNG.normal(size=(1, 3, 1, 4)))
    check(mode, "squeeze", lambda x, axes: x.squeeze(tuple(axes)), ulp=0, x=y, axes=[0])
    check(mode, "squeeze", lambda x: x.squeeze(), ulp=0, x=y)
    check(mode, "identity", lambda x: x, ulp=0, x=x)


@pytest.mark.parametrize("mode", MODES)
def test_transpose(mode: str) -> None:
    for shape in [(2, 3, 4, 5), (1, 17, 1, 33), (40, 50, 1, 20)]:
        for perm in itertools.permutations(range(4)):
            check(
                mode,
                "transpose",
                lambda x, perm: x.transpose(perm),
                ulp=0,
                x=In(RNG.normal(size=shape)),
                perm=list(perm),
            )
    check(mode, "transpose", lambda x, perm: x.T, ulp=0, x=In(RNG.normal(size=(300, 200))), perm=[-1, 0])
    check(
        mode,
        "transpose",
        lambda x, perm: x.T,
        dtype="bool",
        x=In(RNG.integers(0, 2, (30, 20)).astype(bool)),
        perm=[1, 0],
    )


@pytest.mark.parametrize("mode", MODES)
def test_slices(mode: str) -> None:
    x = In(RNG.normal(size=(4, 6, 8)))

    def by_size(x, begin, size):
        return x[tuple(slice(b, None if s == -1 else b + s) for b, s in zip(begin, size, strict=True))]

    check(mode, "slice_by_size", by_size, ulp=0, x=x, begin=[1, 0, 3], size=[2, 6, -1])
    check(mode, "slice_by_size", by_size, ulp=0, x=x, begin=[0, 0, 0], size=[4, 6, 8])

    def by_index(x, begin, end, stride=None, begin_mask=None, end_mask=None, squeeze_mask=None):
        n = x.ndim
        stride, drop = stride or [1] * n, squeeze_mask or [False] * n
        first, last = begin_mask or [False] * n, end_mask or [False] * n
        return x[tuple(
            (0 if first[d] else begin[d]) if drop[d]
            else slice(None if first[d] else begin[d], None if last[d] else end[d], stride[d]) for d in range(n)
        )]  # fmt: skip

    cases: list[dict[str, Any]] = [
        {"begin": [0, 1, 2], "end": [4, 5, 8]},
        {"begin": [0, -3, 2], "end": [4, -1, -2], "stride": [2, 1, 3]},
        {"begin": [3, 0, 0], "end": [0, 6, 8], "stride": [-1, 2, 1]},
        {"begin": [0, 0, 0], "end": [0, 0, 0], "stride": [-1, 1, -2], "begin_mask": [True] * 3, "end_mask": [True] * 3},
        {"begin": [2, 0, -1], "end": [0, 6, 0], "squeeze_mask": [True, False, True]},
        {"begin": [0, 0, 0], "end": [100, 100, 2**31 - 1]},
    ]
    for case in cases:
        check(mode, "slice_by_index", by_index, ulp=0, x=x, **case)


@pytest.mark.parametrize("mode", MODES)
def test_reverse_and_tile(mode: str) -> None:
    for shape in [(3, 4, 5), (1, 7, 1)]:
        x = In(RNG.normal(size=shape))
        for axes in [[0], [1], [2], [0, 2], [-1]]:
            check(mode, "reverse", lambda x, axes: np.flip(x, axes), ulp=0, x=x, axes=axes)
        check(mode, "reverse", lambda x: np.flip(x), ulp=0, x=x)
        for reps in [[1, 1, 1], [2, 1, 3], [1, 4, 1], [3, 2, 1]]:
            check(mode, "tile", lambda x, reps: np.tile(x, reps), ulp=0, x=x, reps=reps)


@pytest.mark.parametrize("mode", MODES)
def test_pad(mode: str) -> None:
    def oracle(x, pad, mode="constant", constant_val=0.0):
        widths = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))
        extra = {"constant_values": constant_val} if mode == "constant" else {}
        return np.pad(x, widths, mode={"replicate": "edge"}.get(mode, mode), **extra)

    x = In(RNG.normal(size=(2, 3, 4, 5)))
    for pad in ([1, 2], [1, 0, 2, 3], [0, 1, 2, 2, 0, 4], [1, 1, 0, 2, 3, 0, 0, 0], [0, 0, 0, 0]):
        check(mode, "pad", oracle, ulp=0, x=x, pad=pad)
        check(mode, "pad", oracle, ulp=0, x=x, pad=pad, constant_val=-1.5)
        if max(pad[:2]) < 2:
            for how in ("reflect", "replicate"):
                p = Program("fp32" if mode == "fp32" else "fp16")
                a = np.float32(x.array) if mode == "fp32" else half(x.array)
                try:
                    want = oracle(a, pad, how)
                except ValueError:
                    continue
                if how == "reflect" and any(
                    v >= d for v, d in zip(pad, np.repeat(a.shape[-len(pad) // 2 :], 2), strict=True)
                ):
                    continue
                y = p.op("pad", want.shape, x=p.input(a), pad=pad, mode=how)
                np.testing.assert_array_equal(p.run([y], numerics=mode)[0], want)


@pytest.mark.parametrize("mode", MODES)
def test_concat_stack_split(mode: str) -> None:
    for axis in (0, 1, 2, -1):
        shapes = [[2, 3, 4] for _ in range(3)]
        for s, extent in zip(shapes, (1, 3, 2), strict=True):
            s[axis] = extent
        parts = tuple(In(RNG.normal(size=s)) for s in shapes)
        check(
            mode,
            "concat",
            lambda values, axis, interleave: np.concatenate(values, axis),
            ulp=0,
            values=parts,
            axis=axis,
            interleave=False,
        )
        check(
            mode,
            "concat",
            lambda values, axis: np.concatenate(values, axis),
            ulp=0,
            values=(parts[0], parts[1].array),
            axis=axis,
        )
        whole = In(RNG.normal(size=(6, 6, 6)))
        check(
            mode,
            "split",
            lambda x, axis, num_splits: np.split(x, num_splits, axis),
            ulp=0,
            x=whole,
            axis=axis,
            num_splits=3,
        )
        check(
            mode,
            "split",
            lambda x, axis, split_sizes: np.split(x, [1, 3], axis),
            ulp=0,
            x=whole,
            axis=axis,
            split_sizes=[1, 2, 3],
        )
    for axis in (0, 1, 2, -1):
        parts = tuple(In(RNG.normal(size=(3, 4))) for _ in range(3))
        check(mode, "stack", lambda values, axis: np.stack(values, axis), ulp=0, values=parts, axis=axis)


@pytest.mark.parametrize("mode", MODES)
def test_space_and_depth(mode: str) -> None:
    def depth_to_space(x, block_size):
        n, c, h, w = x.shape
        f = block_size
        return x.reshape(n, f, f, c // f**2, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // f**2, h * f, w * f)

    def pixel_shuffle(x, upscale_factor):
        n, c, h, w = x.shape
        f = upscale_factor
        return x.reshape(n, c // f**2, f, f, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // f**2, h * f, w * f)

    def space_to_depth(x, block_size):
        n, c, h, w = x.shape
        f = block_size
        return x.reshape(n, c, h // f, f, w // f, f).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * f**2, h // f, w // f)

    def pixel_unshuffle(x, downscale_factor):
        n, c, h, w = x.shape
        f = int(downscale_factor)
        return x.reshape(n, c, h // f, f, w // f, f).transpose(0, 1, 3, 5, 2, 4).reshape(n, c * f**2, h // f, w // f)

    for f in (1, 2, 3):
        deep, wide = In(RNG.normal(size=(2, 2 * f * f, 3, 4))), In(RNG.normal(size=(2, 3, 2 * f, 3 * f)))
        check(mode, "depth_to_space", depth_to_space, ulp=0, x=deep, block_size=f)
        check(mode, "pixel_shuffle", pixel_shuffle, ulp=0, x=deep, upscale_factor=f)
        check(mode, "space_to_depth", space_to_depth, ulp=0, x=wide, block_size=f)
        check(mode, "pixel_unshuffle", pixel_unshuffle, ulp=0, x=wide, downscale_factor=f)


@pytest.mark.parametrize("mode", MODES)
def test_gathers(mode: str) -> None:
    x = In(RNG.normal(size=(4, 5, 6)))
    for axis in (0, 1, 2, -1):
        for shape in [(3,), (2, 4), ()]:
            indices = np.asarray(RNG.integers(0, 4, size=shape), np.int32)
            check(
                mode,
                "gather",
                lambda x, indices, axis: np.take(x, indices, axis),
                ulp=0,
                x=x,
                indices=indices,
                axis=axis,
            )
    indices = RNG.integers(0, 5, size=(4, 3)).astype(np.int32)

    def batched(x, indices, axis, batch_dims):
        return np.stack([np.take(a, i, axis - 1) for a, i in zip(x, indices, strict=True)])

    check(mode, "gather", batched, ulp=0, x=x, indices=indices, axis=1, batch_dims=1)
    check(mode, "gather", batched, ulp=0, x=x, indices=indices, axis=2, batch_dims=1)
    for axis in (0, 1, 2):
        shape = [4, 5, 6]
        shape[axis] = 7
        indices = RNG.integers(0, 4, size=shape).astype(np.int32)
        check(
            mode,
            "gather_along_axis",
            lambda x, indices, axis: np.take_along_axis(x, indices, axis),
            ulp=0,
            x=x,
            indices=indices,
            axis=axis,
        )


def run_constant(p: Program, name: str, shape: tuple[int, ...], mode: str) -> np.ndarray:
    y = p.op("add", shape, x=name, y=p.input(np.zeros(shape)))
    return p.run([y], numerics=mode)[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", ["1.0", "1.3"])
def test_compressed_constants(version: str, mode: str) -> None:
    fp = "fp32" if mode == "fp32" else "fp16"
    stored = (lambda a: np.float32(a)) if mode == "fp32" else (lambda a: half(a))
    q = RNG.integers(-127, 128, size=(4, 3, 2)).astype(np.int8)
    scale = stored(RNG.uniform(0.001, 0.02, size=4))

    p = Program(fp, version)
    name = p.op("constexpr_affine_dequantize", q.shape,
                attributes={"axis": 0, "quantized_data": q, "scale": scale, "zero_point": np.int8(0).reshape(())})  # fmt: skip
    want = stored(q * scale.reshape(4, 1, 1).astype(np.float64))
    np.testing.assert_allclose(run_constant(p, name, q.shape, mode), want, rtol=1e-6)

    lut, index = stored(RNG.normal(size=16)), RNG.integers(0, 16, size=(5, 6))
    p = Program(fp, version)
    name = p.op(
        "constexpr_lut_to_dense", (5, 6), indices=p.const(Packed("uint4", 4, index)), lut=lut.reshape(1, 1, 16, 1)
    )
    np.testing.assert_array_equal(run_constant(p, name, (5, 6), mode), lut[index])
    p = Program(fp, version)
    packed = np.frombuffer(Packed("uint4", 4, index).bytes(), np.uint8)
    name = p.op(
        "constexpr_lut_to_dense",
        (5, 6),
        attributes={"indices": packed, "lut": lut, "shape": np.array([5, 6], np.int32)},
    )
    np.testing.assert_array_equal(run_constant(p, name, (5, 6), mode), lut[index])

    dense = stored(RNG.normal(size=(5, 7))) * RNG.integers(0, 2, size=(5, 7))
    mask, nonzero = dense != 0, dense[dense != 0]
    p = Program(fp, version)
    name = p.op("constexpr_sparse_to_dense", (5, 7), nonzero_data=nonzero, mask=p.const(Packed("uint1", 1, mask)))
    np.testing.assert_array_equal(run_constant(p, name, (5, 7), mode), dense)

    blocks = stored(RNG.uniform(0.01, 0.02, size=(4, 3)))
    d = RNG.integers(-127, 128, size=(4, 12)).astype(np.int8)
    p = Program(fp, version)
    name = p.op("constexpr_blockwise_shift_scale", (4, 12), data=d, scale=blocks)
    np.testing.assert_allclose(
        run_constant(p, name, (4, 12), mode), stored(d * blocks.astype(np.float64).repeat(4, 1)), rtol=1e-6
    )
