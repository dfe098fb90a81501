"""Declarations: names and defaults of MIL, type rules, and what a wrong call says."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from aneforge import ops
from aneforge.errors import Refused
from aneforge.ir import Program, const, input, verify
from aneforge.ops.base import DECLARATIONS

# Defaults that differ from MIL's on purpose.
OURS = {
    ("conv", "pad_type"): "explicit pads are the only form in use",
    ("conv_transpose", "pad_type"): "explicit pads are the only form in use",
    ("max_pool", "pad_type"): "required in MIL",
    ("avg_pool", "pad_type"): "required in MIL",
    ("l2_pool", "pad_type"): "required in MIL",
    ("rsqrt", "epsilon"): "1e-12 is 0 in fp16",
    ("log", "epsilon"): "1e-45 is 0 in fp16",
    ("split", "axis"): "required in MIL, where it stands after optional ones",
}


def spec(kind):
    registry = pytest.importorskip("coremltools.converters.mil.mil.ops.registry").SSAOpRegistry
    target = pytest.importorskip("coremltools").target
    versions = registry.core_ops[kind]
    best = [v for v in versions if v <= target.iOS18]
    return versions[max(best)]


@pytest.mark.parametrize("kind", sorted(DECLARATIONS))
def test_parameters_are_those_of_mil(kind):
    mil = spec(kind)
    parameters = inspect.signature(DECLARATIONS[kind]).parameters
    theirs = mil.input_spec.input_types
    assert set(parameters) == set(theirs), kind
    for name, parameter in parameters.items():
        if (kind, name) in OURS:
            continue
        optional = theirs[name].optional
        assert (parameter.default is not parameter.empty) == optional, (kind, name)


@pytest.mark.parametrize("kind", sorted(DECLARATIONS))
def test_declarations_are_documented_and_exported(kind):
    assert inspect.getdoc(DECLARATIONS[kind]), kind
    assert getattr(ops, kind) is DECLARATIONS[kind]
    assert DECLARATIONS[kind].__name__ == kind


def test_compositions_are_documented():
    for name in ops.__all__:
        thing = getattr(ops, name)
        if inspect.isfunction(thing):
            assert inspect.getdoc(thing), name


X = input("x", (2, 3, 8, 9))


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda: ops.conv(X, np.ones((4, 3, 3, 3)), strides=2, pad=(1, 1, 0, 2), dilations=(1, 2)), (2, 4, 4, 4)),
        (lambda: ops.conv(X, np.ones((6, 1, 3, 3)), groups=3, pad_type="same", strides=(2, 4)), (2, 6, 4, 3)),
        (lambda: ops.conv(input("x", (1, 3, 8)), np.ones((4, 3, 3))), (1, 4, 6)),
        (lambda: ops.conv_transpose(X, np.ones((3, 2, 3, 3)), strides=2, pad=1), (2, 2, 15, 17)),
        (lambda: ops.max_pool(X, 3, 2), (2, 3, 3, 4)),
        (lambda: ops.max_pool(X, 3, 2, ceil_mode=True), (2, 3, 4, 4)),
        (lambda: ops.max_pool(input("x", (1, 1, 3, 3)), 1, 3, ceil_mode=True), (1, 1, 2, 2)),  # MIL's rule, not ONNX's
        (lambda: ops.max_pool(input("x", (1, 1, 4, 4)), 3, 3, pad=1, ceil_mode=True), (1, 1, 2, 2)),
        (lambda: ops.matmul(X, np.ones((9, 5))), (2, 3, 8, 5)),
        (lambda: ops.matmul(X, np.ones((5, 8)), transpose_x=True, transpose_y=True), (2, 3, 9, 5)),
        (lambda: ops.linear(X, np.ones((5, 9)), np.ones(5)), (2, 3, 8, 5)),
        (lambda: ops.reduce_sum(X, (-1, 1)), (2, 8)),
        (lambda: ops.reduce_max(X, keep_dims=True), (1, 1, 1, 1)),
        (lambda: ops.reshape(X, (2, -1)), (2, 216)),
        (lambda: ops.transpose(X, (0, 3, 1, 2)), (2, 9, 3, 8)),
        (lambda: ops.expand_dims(X, (0, -1)), (1, 2, 3, 8, 9, 1)),
        (lambda: ops.squeeze(input("x", (1, 2, 1)), (-1,)), (1, 2)),
        (lambda: ops.squeeze(input("x", (1, 2, 1))), (2,)),
        (lambda: ops.concat((X, X), 1), (2, 6, 8, 9)),
        (lambda: ops.stack((X, X), -1), (2, 3, 8, 9, 2)),
        (lambda: ops.split(X, split_sizes=(1, 2), axis=1)[1], (2, 2, 8, 9)),
        (lambda: ops.slice_by_size(X, (0, 1, 0, 0), (2, -1, 3, 9)), (2, 2, 3, 9)),
        (
            lambda: ops.slice_by_index(
                X, (0, 0, 7, 1), (2, 1, 0, 8), (1, 1, -2, 3), squeeze_mask=(False, True, False, False)
            ),
            (2, 4, 3),
        ),
        (lambda: ops.pad(X, (1, 2, 3, 4)), (2, 3, 11, 16)),
        (lambda: ops.tile(X, (1, 2, 1, 3)), (2, 6, 8, 27)),
        (lambda: ops.space_to_depth(input("x", (1, 2, 4, 6)), 2), (1, 8, 2, 3)),
        (lambda: ops.pixel_shuffle(input("x", (1, 8, 2, 3)), 2), (1, 2, 4, 6)),
        (lambda: ops.flatten2d(X, 2), (6, 72)),
        (lambda: ops.flatten2d(X, 4), (432, 1)),
        (lambda: ops.select(ops.greater(X, 0.0), X, 1.0), (2, 3, 8, 9)),
        (lambda: ops.topk(X, 4, 2)[1], (2, 3, 4, 9)),
        (lambda: ops.gather(X, np.array([[0, 1]]), 1), (2, 1, 2, 8, 9)),
        (lambda: ops.resize_bilinear(X, 5, 4), (2, 3, 5, 4)),
        (lambda: ops.upsample_nearest_neighbor(X, 2, 1.5), (2, 3, 16, 13)),
    ],
)
def test_shapes(call, shape):
    made = call()
    assert made.shape == shape
    leaves = [s for s in made.op.sources if s.op.kind == "input"]
    if leaves and all(s.is_const or s.op.kind == "input" for s in made.op.sources):
        ports = list(dict.fromkeys(leaves))
        outputs = [(f"y{i}", t) for i, t in enumerate(made.op.outputs)]
        verify(Program([(f"x{i}", t) for i, t in enumerate(ports)], outputs))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ops.add(X, np.ones((4, 9))), ValueError, r"add: shapes \(2, 3, 8, 9\), \(4, 9\)"),
        (lambda: ops.add(X, "3"), TypeError, "add: y takes a Tensor"),
        (lambda: ops.add(X, None), TypeError, "add: y"),
        (lambda: ops.add(X, True), TypeError, "add: y is bool"),
        (lambda: ops.add(X, ops.greater(X, 0.0)), TypeError, "floats of one type"),
        (lambda: ops.relu(np.ones(3)), TypeError, "relu: x takes a Tensor"),
        (lambda: ops.relu(ops.greater(X, 0.0)), TypeError, "relu: x is bool"),
        (lambda: ops.conv(X, np.ones((4, 2, 3, 3))), ValueError, r"conv: weight \(4, 2, 3, 3\)"),
        (lambda: ops.conv(X, np.ones((4, 1, 3, 3)), groups=3), ValueError, "3 groups do not divide"),
        (lambda: ops.conv(X, np.ones((4, 3, 9, 3))), ValueError, "does not fit into 8"),
        (lambda: ops.conv(X, np.ones((4, 3, 3, 3)), strides=(1, 2, 3)), ValueError, "conv: strides takes 2 ints"),
        (lambda: ops.conv(X, np.ones((4, 3, 3, 3)), strides=1.5), TypeError, "conv: strides takes ints"),
        (lambda: ops.conv(X, np.ones((4, 3, 3, 3)), np.ones(3)), ValueError, r"bias \(3,\)"),
        (lambda: ops.matmul(X, np.ones((8, 5))), ValueError, "matmul: x .* gives 9 terms"),
        (lambda: ops.reduce_sum(X, 4), ValueError, "reduce_sum: axes 4 is outside rank 4"),
        (lambda: ops.reduce_sum(X, (1, -3)), ValueError, "names an axis twice"),
        (lambda: ops.reshape(X, (5, 5)), ValueError, r"reshape: \(2, 3, 8, 9\) does not fit \(5, 5\)"),
        (lambda: ops.transpose(X, (0, 1, 1, 2)), ValueError, "no permutation"),
        (lambda: ops.concat((X, input("z", (2, 3, 8, 8))), 1), ValueError, "do not fit along axis 1"),
        (lambda: ops.squeeze(X, 1), ValueError, "not all 1"),
        (lambda: ops.split(X, num_splits=2, axis=1), ValueError, "2 equal parts"),
        (lambda: ops.slice_by_size(X, (0, 0, 0, 5), (2, 3, 8, 5)), ValueError, "outside"),
        (lambda: ops.pad(X, (8, 0, 0, 0), "reflect"), ValueError, "needs more than 8"),
        (lambda: ops.clip(X, 1.0, 1.0), ValueError, "alpha 1.0 is not below beta"),
        (lambda: ops.elu(X, float("nan")), ValueError, "alpha is NaN"),
        (lambda: ops.max_pool(X, 3, pad=(0, 1, 0, 0), ceil_mode=True), ValueError, "symmetric pads"),
        (lambda: ops.prelu(X, np.ones(4)), ValueError, "prelu: alpha"),
        (lambda: ops.select(X, X, X), TypeError, "select: cond"),
        (lambda: ops.gelu(X, "FAST"), ValueError, "EXACT"),
        (lambda: ops.einsum((X, X), "abcd,abcd->a"), Refused, "einsum"),
        (lambda: const(np.array(["a"])), TypeError, "floats, integers or bools"),
    ],
)
def test_wrong_calls(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_numbers_become_constants_in_their_own_precision():
    y = ops.mul(X, 0.1)
    assert y.op.operand("y").value.dtype == np.float64
    weights = np.ones((4, 3, 1, 1), np.float32)
    assert np.shares_memory(ops.conv(X, weights).op.operand("weight").value, weights)
    assert ops.add(X, 3).op.operand("y").dtype == "fp16"
    assert ops.add(np.float16(2), X).op.operand("x").value == 2
