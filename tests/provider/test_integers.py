"""Integers that are proved small cross the ports of a region in their own type, in sessions and in models."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import TensorProto

import aneforge as af
import aneforge.provider  # registers the provider
from tests.provider.graphs import floats, groups, model, node, placement, reference, session

TYPES = {
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "int16": TensorProto.INT16,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
    "float": TensorProto.FLOAT,
}


def classifier(kind: str):
    """Scores, their greatest, and its place in some type."""
    return model(
        [
            node("Conv", "x w", "c"),
            node("Relu", "c", "s"),
            node("ArgMax", "s", "i", axis=1, keepdims=0),
            node("Cast", "i", "y", to=TYPES[kind]),
        ],
        {"x": [1, 3, 8, 8]},
        {"s": [1, 9, 6, 6], "i": [1, 6, 6], "y": [1, 6, 6]},
        {"w": floats(9, 3, 3, 3, seed=1) / 5},
        {"i": TensorProto.INT64, "y": TYPES[kind]},
    )


def halves(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers that fp16 holds, so that both sides find the same places."""
    return floats(*shape, seed=seed).astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_leaves_a_region(kind: str) -> None:
    made = session(classifier(kind), {"strict": "1", "numerics": "fp32"})
    assert groups(made) == 1
    x = halves(1, 3, 8, 8)
    want = reference(classifier(kind), {"x": x})
    for got, expected in zip(made.run(None, {"x": x})[1:], want[1:], strict=True):
        assert got.dtype == expected.dtype
        assert np.array_equal(got, expected)


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_leaves_a_model(kind: str) -> None:
    net = af.load_onnx(classifier(kind), numerics="fp32")
    x = halves(1, 3, 8, 8)
    want = reference(classifier(kind), {"x": x})
    assert [str(p.dtype) for p in net.outputs] == [str(w.dtype) for w in want]
    for got, expected in zip(net(x)[1:], want[1:], strict=True):
        assert got.dtype == expected.dtype
        assert np.array_equal(got, expected)


def test_places_of_halves_are_exact_in_fp16() -> None:
    made = model([node("ArgMax", "x", "y", axis=-1)], {"x": [64, 1000]}, {"y": [64, 1]}, types={"y": TensorProto.INT64})
    x = halves(64, 1000)
    want = reference(made, {"x": x})[0]
    for target in ("m1", "m4"):
        assert np.array_equal(af.load_onnx(made, target=target)(x), want)


def test_eight_threads() -> None:
    made = session(classifier("int32"))
    net = af.load_onnx(classifier("int32"))
    feeds = [halves(1, 3, 8, 8, seed=i) for i in range(8)]
    alone = [made.run(None, {"x": x}) for x in feeds]

    def work(i: int) -> bool:
        return all(
            all(map(np.array_equal, outputs, alone[i]))
            for _ in range(40)
            for outputs in (made.run(None, {"x": feeds[i]}), net(feeds[i]))
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8), timeout=300))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_bytes_come_in_and_go_out(dtype: type) -> None:
    kind = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}[dtype]
    made = model(
        [
            node("Transpose", "a", "t", perm=[1, 0]),
            node("Max", "t low", "m"),
            node("Cast", "m", "f", to=TensorProto.FLOAT),
            node("Mul", "f scale", "y"),
        ],
        {"a": [4, 64]},
        {"m": [64, 4], "y": [64, 4]},
        {"low": np.array(-7 if dtype is np.int8 else 7).astype(dtype), "scale": np.float32(0.25)},
        {"a": kind, "m": kind},
    )
    a = np.arange(256).astype(np.uint8).view(dtype).reshape(4, 64)
    want = reference(made, {"a": a})
    run = session(made, {"strict": "1"})
    for got in (run.run(None, {"a": a}), af.load_onnx(made)(a)):
        assert all(g.dtype == w.dtype and np.array_equal(g, w) for g, w in zip(got, want, strict=True))


def test_integers_between_two_regions_and_the_cpu() -> None:
    """An index leaves a region, is read on the CPU, and by a second region."""
    made = model(
        [
            node("Relu", "x", "r"),
            node("ArgMax", "r", "i", axis=1),
            node("Cast", "i", "f", to=TensorProto.FLOAT),
            node("Mul", "f eye", "g"),
            node("Det", "g", "d"),
            node("Add", "i one", "j"),
            node("Cast", "j", "h", to=TensorProto.FLOAT),
            node("Mul", "h d", "y"),
            node("GatherElements", "x i", "z", axis=1),
        ],
        {"x": [4, 4]},
        {"y": [4, 1], "z": [4, 1], "j": [4, 1]},
        {"one": np.array(1), "eye": np.eye(4, dtype=np.float32) + np.float32(0.5)},
        {"j": TensorProto.INT64},
    )
    run = session(made, {"min_nodes": "1"})
    assert "Det" in placement(run)["CPUExecutionProvider"]
    assert {"ArgMax", "Add"} <= set(placement(run)["ANEForgeProvider"])
    for seed in range(5):
        x = halves(4, 4, seed=seed)
        want = reference(made, {"x": x})
        got = run.run(None, {"x": x})
        assert np.array_equal(got[2], want[2])
        assert np.array_equal(got[1], want[1])
        np.testing.assert_allclose(got[0], want[0], rtol=2e-3)


def quantized():
    """A convolution between grids: its input and its result are bytes."""
    return model(
        [
            node("DequantizeLinear", "x s z", "xf"),
            node("DequantizeLinear", "w ws wz", "wf"),
            node("Conv", "xf wf", "c", pads=[1, 1, 1, 1]),
            node("Relu", "c", "r"),
            node("QuantizeLinear", "r ys yz", "y"),
        ],
        {"x": [1, 3, 8, 8]},
        {"y": [1, 4, 8, 8]},
        {
            "s": np.float32(0.5), "z": np.uint8(128), "ys": np.float32(2), "yz": np.int8(-128),
            "w": np.arange(108).astype(np.int8).reshape(4, 3, 3, 3), "ws": np.float32(2**-7), "wz": np.int8(50),
        },
        {"x": TensorProto.UINT8, "y": TensorProto.INT8},
    )  # fmt: skip


@pytest.mark.parametrize("numerics", ["fp32", "engine"])
def test_a_quantized_network(numerics: str) -> None:
    """ONNX Runtime computes with integers; one code may be off where a sum lies in the middle of two."""
    made = session(quantized(), {"strict": "1", "numerics": numerics})
    net = af.load_onnx(quantized(), numerics=numerics)
    for seed in range(3):
        x = np.random.default_rng(seed).integers(0, 256, (1, 3, 8, 8)).astype(np.uint8)
        want = reference(quantized(), {"x": x})[0].astype(int)
        for got in (made.run(None, {"x": x})[0], net(x)):
            assert got.dtype == np.int8
            off = np.abs(got.astype(int) - want)
            assert off.max() <= 1
            assert off.mean() < 0.03
