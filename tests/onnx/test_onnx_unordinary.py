"""IsNaN and IsInf: refused, but for the guard of attention's rows."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from onnx_harness import close, compute, imported, refusals
from test_onnx_handlers import truth
from test_onnx_integers import FLOAT, X, build, reasons

from aneforge import load_onnx


@pytest.mark.parametrize("op", ["IsNaN", "IsInf"])
def test_questions_that_the_engine_cannot_answer(op):
    (text,) = reasons([(op, "x", "y", {})], {"x": X}, ["y"], opset=20)
    assert text.startswith(f"no engine form: {op}: ")


def guarded(masked: float, axis: int = -1, between=(), at=(1, 1, 1, 5)):
    """softmax(scale * q k + mask), with 0 where that is NaN; the mask is -inf, say, where its bool is false."""
    nodes = [
        ("MatMul", "q k", "p", {}),
        ("Mul", "p scale", "scores", {}),
        ("Where", "open zero masked", "m", {}),
        *between,
        ("Add", "scores m2" if between else "scores m", "x", {}),
        ("Softmax", "x", "s", {"axis": axis}),
        ("IsNaN", "s", "n", {}),
        ("Where", "n zero s", "y", {}),
    ]
    inputs = {"q": (FLOAT, [2, 3, 4, 6]), "k": (FLOAT, [2, 3, 6, 5]), "open": (TensorProto.BOOL, at)}
    constants = {"scale": np.float32(0.5), "zero": np.float32(0), "masked": np.float32(masked)}
    return nodes, inputs, constants


def feeds(at, seed=0):
    """Some rows are open in part, some are masked wholly."""
    r = np.random.RandomState(seed)
    mask = r.rand(*at) < 0.4
    mask[..., :1, :] = False
    return {
        "q": r.randint(-8, 8, (2, 3, 4, 6)).astype(np.float32) / 4,
        "k": r.randint(-8, 8, (2, 3, 6, 5)).astype(np.float32) / 4,
        "open": mask,
    }


@pytest.mark.parametrize("masked", [-np.inf, np.finfo(np.float32).min, -1e4])
@pytest.mark.parametrize("at", [(2, 1, 4, 5), (4, 5), (1, 1, 1, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize("axis", [-1, 3])
def test_rows_that_are_masked_wholly(masked, at, axis):
    nodes, inputs, constants = guarded(masked, axis, at=at)
    model = build(nodes, inputs, ["y"], constants)
    done = imported(model)
    assert refusals(done) == []
    for seed in range(3):
        given = feeds(at, seed)
        want = truth(model, given)[0]
        if masked == -np.inf:
            assert not np.isnan(want).any()
            assert close(compute(done, given, "fp32")["y"], want, 1e-4, 1e-5) == ""
            assert close(load_onnx(model)(*(given[n] for n in inputs)), want, 2e-3, 2e-3) == ""
        else:  # a wholly masked row is that of its scores in fp32, or uniform; what of it fp16 keeps is no question here
            open_ = np.broadcast_to(given["open"], want.shape).any(-1)
            assert close(load_onnx(model)(*(given[n] for n in inputs))[open_], want[open_], 2e-3, 2e-3) == ""


def test_a_mask_that_was_moved():
    nodes, inputs, constants = guarded(-np.inf, between=[("Unsqueeze", "m axes", "m2", {})], at=(4, 5))
    model = build(nodes, inputs, ["y"], {**constants, "axes": np.array([0])})
    done = imported(model)
    assert refusals(done) == []
    given = feeds((4, 5))
    assert close(compute(done, given, "fp32")["y"], truth(model, given)[0], 1e-4, 1e-5) == ""


@pytest.mark.parametrize("other", ["scores", "branches", "sum"])
def test_other_softmaxes_are_refused(other):
    nodes, inputs, constants = guarded(-np.inf)
    if other == "scores":  # not a product
        inputs = {**inputs, "scores": (FLOAT, [2, 3, 4, 5])}
        nodes = nodes[2:]
    elif other == "branches":
        constants["zero"] = np.float32(1)
    else:
        nodes[3] = ("Sub", "scores m", "x", {})
    texts = reasons(nodes, inputs, ["y"], constants)
    assert [t for t in texts if "IsNaN" in t]
