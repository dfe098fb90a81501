"""Option compress from end to end: by hand, strictly, in a session; the host against the independent evaluator."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from oracle.mil_reference import evaluate

import aneforge as af
import aneforge.provider
from aneforge import backends, mil, passes, pipeline
from aneforge.ops import builders
from aneforge.options import Options
from aneforge.targets import resolve
from tests.provider.graphs import model, node, reference, session

R = np.random.default_rng(8)
ENCODINGS = ["int8", "int4", "sparse", "blockwise", "auto"]


def w(*shape: int, zeros: float = 0.0) -> np.ndarray:
    scale = np.sqrt(2 / np.prod(shape[1:]))
    return (R.standard_normal(shape) * scale * (R.random(shape) >= zeros)).astype(np.float32)


def resnet(zeros: float = 0.0) -> onnx.ModelProto:
    """A stem, two residual blocks (one with a projected skip), pooling and a classifier."""
    nodes = [
        node("Conv", "x w0 b0", "c0", pads=[1, 1, 1, 1]),
        node("Relu", "c0", "r0"),
        node("Conv", "r0 w1", "c1", pads=[1, 1, 1, 1]),
        node("Relu", "c1", "r1"),
        node("Conv", "r1 w2", "c2", pads=[1, 1, 1, 1]),
        node("Add", "c2 r0", "a2"),
        node("Relu", "a2", "r2"),
        node("Conv", "r2 w3", "c3", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", "c3", "r3"),
        node("Conv", "r3 w4", "c4", pads=[1, 1, 1, 1]),
        node("Conv", "r2 w5", "c5", strides=[2, 2]),
        node("Add", "c4 c5", "a5"),
        node("Relu", "a5", "r5"),
        node("GlobalAveragePool", "r5", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f w6 b6", "y", transB=1),
    ]
    constants = {
        "w0": w(16, 3, 3, 3, zeros=zeros), "b0": w(16), "w1": w(16, 16, 3, 3, zeros=zeros), "w2": w(16, 16, 3, 3, zeros=zeros),
        "w3": w(32, 16, 3, 3, zeros=zeros), "w4": w(32, 32, 3, 3, zeros=zeros), "w5": w(32, 16, 1, 1, zeros=zeros),
        "w6": w(64, 32, zeros=zeros), "b6": w(64),
    }  # fmt: skip
    return model(nodes, {"x": [1, 3, 16, 16]}, {"y": [1, 64]}, constants)


X = R.random((1, 3, 16, 16)).astype(np.float32)


def relative(got: np.ndarray, want: np.ndarray) -> float:
    return float(np.linalg.norm(got.astype(np.float64) - want) / np.linalg.norm(want))


@pytest.mark.parametrize("numerics", ["engine", "fp16", "fp32"])
@pytest.mark.parametrize("how", ENCODINGS)
def test_host_and_evaluator_agree(how: str, numerics: str) -> None:
    """The same text and blob, two readings: nothing of the first knows the second."""
    x = af.input((3, 64), max_abs=4.0)
    zeros = 0.7 if how == "sparse" else 0.0
    out = (x @ w(64, 96, zeros=zeros)).relu() @ w(96, 64, zeros=zeros)
    options, target = Options(compress=how, numerics=numerics, backend="host"), resolve("m4")
    program = pipeline.lower(builders.program([out]), options, target).program
    packed, rows, _ = passes.compress(program, target, how, 0.2)
    assert all(row.encoding != "fp16" for row in rows)
    written = mil.write(packed, numerics)
    assert written.text.count("constexpr_") == 2
    feed = R.standard_normal((3, 64)).astype(np.float16)
    want = evaluate(written.text, written.blob, {"x0": feed}, "fp32" if numerics == "fp32" else "fp16")["y0"]
    executable = backends.compile(written, options, target)
    (got,), _ = executable.execute([feed.astype(np.float32)], [np.dtype(np.float32)])
    executable.release()
    np.testing.assert_allclose(got, want, rtol=2e-3 if numerics != "fp32" else 1e-5, atol=2e-3)


@pytest.mark.parametrize("target", ["m1", "m2", "m5"])
@pytest.mark.parametrize("how", ENCODINGS)
def test_resnet_strict_and_session(how: str, target: str) -> None:
    made = resnet(0.7 if how == "sparse" else 0.0)
    want = reference(made, {"x": X})[0]
    options = {"compress": how, "compress_atol": 0.15, "target": target}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", af.PrecisionWarning)
        strict = af.load_onnx(made, **options)(X)
    loaded = session(made, {key: str(value) for key, value in options.items()})
    within = loaded.run(None, {"x": X})[0]
    np.testing.assert_allclose(within, strict, rtol=1e-3, atol=1e-3)
    assert relative(strict, want) < 0.25
    (region,) = aneforge.provider.report(loaded).regions
    encodings = {row.encoding for row in region.weights}
    assert len(region.weights) == 5  # w0 and w5 are too small
    if how == "blockwise":
        assert encodings == {"fp16", "blockwise"}  # matrix products only
    elif how == "auto":
        assert encodings == {"int4"}
    else:
        assert encodings == {how}
    assert region.weight_bytes < region.weight_bytes_before
    assert all(row.error <= 0.15 for row in region.weights)
    if how != "blockwise":
        assert region.weight_bytes < 0.65 * region.weight_bytes_before
    folded = how in ("blockwise",) or (how == "int8" and target == "m1")
    assert any("no faster" in row.note for row in region.weights) == folded


def test_the_gate_keeps_what_would_be_lossy() -> None:
    loaded = session(resnet(), {"compress": "int4", "compress_atol": "0.02", "target": "m1"})
    (region,) = aneforge.provider.report(loaded).regions
    assert {row.encoding for row in region.weights} == {"fp16"}
    assert all("int4: error" in row.note for row in region.weights)
    assert region.weight_bytes == region.weight_bytes_before
    plain = session(resnet(), {"target": "m1"})
    assert aneforge.provider.report(plain).regions[0].weights == ()


def test_what_the_report_says_of_nodes() -> None:
    made = session(resnet(), {"compress": "int8", "target": "m4"})
    report = aneforge.provider.report(made)
    names = {n.index: n.name for n in report.nodes}
    (region,) = report.regions
    assert ["n_y" in [names[i] for i in row.nodes] for row in region.weights].count(True) == 1
    assert any("4094" in text for text in report.warnings)
    assert report.to_dict()["regions"][0]["weights"][0]["encoding"] == "int8"


def test_by_hand() -> None:
    x, weight = af.input((4, 64), max_abs=1.0), w(64, 96)
    feed = R.random((4, 64)).astype(np.float32)
    plain = af.compile(x @ weight)(feed)
    same = [af.compile(x @ weight, int8=True)(feed), af.compile(x @ weight, compress="int8")(feed)]
    assert np.array_equal(*same)
    assert 1e-4 < relative(same[0], plain) < 0.01
    coarse, fine = (af.compile(x @ weight, compress="blockwise", block_size=size)(feed) for size in (64, 8))
    assert relative(fine, plain) < relative(coarse, plain)
    assert np.array_equal(af.compile(x @ weight, compress="int4", compress_atol=0.01)(feed), plain)


def test_what_the_warning_is_about() -> None:
    """The host imitates it: activations of 5000 are infinite before int8 weights, and fine before a palette."""
    x, weight = np.full((4, 64), 5000.0, np.float32), np.abs(w(64, 96)) / 50
    for how, finite in (("none", True), ("int4", True), ("int8", False)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = af.compile(af.input((4, 64)) @ weight, compress=how, compress_atol=0.15, backend="host")(x)
        assert np.isfinite(got).all() == finite


def test_an_unknown_bound_is_warned_of() -> None:
    x = af.input((4, 64))
    with pytest.warns(af.PrecisionWarning, match="4094"):
        af.compile(x @ w(64, 96), int8=True)
    with pytest.raises(ValueError, match="4094"):
        af.compile(x @ w(64, 96), int8=True, validate=True)
