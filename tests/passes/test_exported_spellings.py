"""The spellings that PyTorch's and TensorFlow's exporters and ONNX Runtime's optimizer leave in models: the rule fires,
and the results are those of ONNX Runtime's CPU provider."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from ops.evaluate import run
from programs import optimized

from aneforge.onnx.importer import import_graph
from aneforge.onnx.view import from_model

R = np.random.default_rng(3)


def f(*shape, scale=0.5):
    return (R.standard_normal(shape) * scale).astype(np.float32)


def s(value):
    return np.float32(value)


BN = {"g": np.abs(f(4)) + 0.5, "b": f(4), "m": f(4), "v": np.abs(f(4)) + 0.5}
LAST = {"axes": [-1]}

# name -> (inputs, constants, nodes "Op inputs outputs attributes", rules that must fire, kinds that must be gone)
SPELLINGS = {
    "gelu, torch": (
        {"x": (2, 5, 8)},
        {"r": s(math.sqrt(2)), "one": s(1), "half": s(0.5)},
        [("Div", "x r", "a"), ("Erf", "a", "e"), ("Add", "e one", "p"), ("Mul", "x p", "q"), ("Mul", "q half", "y")],
        {"gelu"},
        {"erf"},
    ),
    "gelu, tensorflow": (
        {"x": (2, 5, 8)},
        {"r": s(math.sqrt(0.5)), "one": s(1), "half": s(0.5)},
        [("Mul", "r x", "a"), ("Erf", "a", "e"), ("Add", "one e", "p"), ("Mul", "half x", "h"), ("Mul", "h p", "y")],
        {"gelu"},
        {"erf"},
    ),
    "gelu tanh, hugging face": (
        {"x": (2, 5, 8)},
        {"half": s(0.5), "three": s(3), "c": s(0.044715), "k": s(math.sqrt(2 / math.pi)), "one": s(1)},
        [("Mul", "half x", "h"), ("Pow", "x three", "p"), ("Mul", "c p", "q"), ("Add", "x q", "a"), ("Mul", "k a", "i"),
         ("Tanh", "i", "t"), ("Add", "one t", "u"), ("Mul", "h u", "y")],
        {"gelu-tanh"},
        set(),
    ),
    "gelu tanh, tensorflow": (
        {"x": (2, 5, 8)},
        {"half": s(0.5), "c": s(0.044715), "k": s(math.sqrt(2 / math.pi)), "one": s(1)},
        [("Mul", "x x", "s2"), ("Mul", "s2 x", "p"), ("Mul", "p c", "q"), ("Add", "q x", "a"), ("Mul", "a k", "i"),
         ("Tanh", "i", "t"), ("Add", "t one", "u"), ("Mul", "x half", "h"), ("Mul", "h u", "y")],
        {"gelu-tanh"},
        set(),
    ),
    "silu, torch": (
        {"x": (2, 5, 8)}, {}, [("Sigmoid", "x", "g"), ("Mul", "x g", "y")], {"silu"}, {"sigmoid"},
    ),
    "mish, torch": (
        {"x": (2, 5, 8)}, {}, [("Softplus", "x", "p"), ("Tanh", "p", "t"), ("Mul", "x t", "y")], {"mish"}, {"tanh"},
    ),
    "mish, tensorflow": (
        {"x": (2, 5, 8)},
        {"one": s(1)},
        [("Exp", "x", "e"), ("Add", "e one", "a"), ("Log", "a", "p"), ("Tanh", "p", "t"), ("Mul", "t x", "y")],
        {"mish"},
        {"tanh"},
    ),
    "hardswish, torch opset 11": (
        {"x": (2, 5, 8)},
        {"three": s(3), "zero": s(0), "six": s(6)},
        [("Add", "x three", "a"), ("Clip", "a zero six", "c"), ("Mul", "x c", "m"), ("Div", "m six", "y")],
        {"hardswish"},
        {"relu6", "clip"},
    ),
    "hardswish, tensorflow": (
        {"x": (2, 5, 8)},
        {"three": s(3), "six": s(6), "sixth": s(1 / 6)},
        [("Add", "x three", "a"), ("Relu", "a", "r"), ("Min", "r six", "c"), ("Mul", "c sixth", "g"), ("Mul", "x g", "y")],
        {"hardsigmoid"},
        {"relu6", "relu"},
    ),
    "hard sigmoid, keras": (
        {"x": (2, 5, 8)},
        {"fifth": s(0.2), "half": s(0.5), "zero": s(0), "one": s(1)},
        [("Mul", "x fifth", "a"), ("Add", "a half", "b"), ("Clip", "b zero one", "y")],
        {"hardsigmoid"},
        {"clip"},
    ),
    "layer norm, torch opset 14": (
        {"x": (2, 5, 32)},
        {"two": s(2), "eps": s(1e-5), "g": f(32), "b": f(32)},
        [("ReduceMean", "x", "m", LAST), ("Sub", "x m", "c"), ("Pow", "c two", "q"), ("ReduceMean", "q", "v", LAST),
         ("Add", "v eps", "w"), ("Sqrt", "w", "r"), ("Div", "c r", "n"), ("Mul", "n g", "o"), ("Add", "o b", "y")],
        {"unit-variance"},
        {"sqrt"},
    ),
    "layer norm, tensorflow": (
        {"x": (2, 5, 32)},
        {"eps": s(1e-6), "g": f(32), "b": f(32)},
        [("ReduceMean", "x", "m", LAST), ("Sub", "x m", "c"), ("Mul", "c c", "q"), ("ReduceMean", "q", "v", LAST),
         ("Add", "v eps", "w"), ("Sqrt", "w", "r"), ("Reciprocal", "r", "i"), ("Mul", "i g", "k"), ("Mul", "x k", "a"),
         ("Mul", "m k", "d"), ("Sub", "b d", "e"), ("Add", "a e", "y")],
        {"moments-norm", "unit-variance"},
        {"sqrt"},
    ),
    "rms norm, torch": (
        {"x": (2, 5, 32)},
        {"two": s(2), "eps": s(1e-6), "one": s(1), "g": f(32)},
        [("Pow", "x two", "q"), ("ReduceMean", "q", "v", LAST), ("Add", "v eps", "w"), ("Sqrt", "w", "r"),
         ("Div", "one r", "i"), ("Mul", "x i", "n"), ("Mul", "g n", "y")],
        {"unit-variance"},
        {"sqrt"},
    ),
    "rms norm, reciprocal": (
        {"x": (2, 5, 32)},
        {"eps": s(1e-6), "g": f(32)},
        [("Mul", "x x", "q"), ("ReduceMean", "q", "v", LAST), ("Add", "v eps", "w"), ("Sqrt", "w", "r"),
         ("Reciprocal", "r", "i"), ("Mul", "i x", "n"), ("Mul", "n g", "y")],
        {"unit-variance"},
        {"sqrt"},
    ),
    "conv, batch norm": (
        {"x": (1, 3, 6, 6)},
        {"w": f(4, 3, 3, 3), "c": f(4), **BN},
        [("Conv", "x w c", "z"), ("BatchNormalization", "z g b m v", "y")],
        {"scale-before-bias", "scale-into-weight"},
        {"mul"},
    ),
    "transposed conv, batch norm": (
        {"x": (1, 3, 6, 6)},
        {"w": f(3, 4, 3, 3), **BN},
        [("ConvTranspose", "x w", "z"), ("BatchNormalization", "z g b m v", "y")],
        {"scale-into-weight"},
        {"mul"},
    ),
    "batch norm, conv": (
        {"x": (1, 4, 6, 6)},
        {"w": f(5, 4, 1, 1), **BN},
        [("BatchNormalization", "x g b m v", "z"), ("Conv", "z w", "y")],
        {"scale-before-conv", "shift-before-conv"},
        {"mul"},
    ),
    "gemm, batch norm": (
        {"x": (3, 6)},
        {"w": f(4, 6), "c": f(4), **BN},
        [("Gemm", "x w c", "z", {"transB": 1}), ("BatchNormalization", "z g b m v", "y")],
        {"scale-before-bias", "scale-into-weight"},
        {"mul"},
    ),
    "batch norm, gemm": (
        {"x": (3, 4)},
        {"w": f(4, 7), "c": f(7), **BN},
        [("BatchNormalization", "x g b m v", "z"), ("Gemm", "z w c", "y")],
        {"scale-before-matmul", "shift-before-matmul"},
        {"mul"},
    ),
    "batch norm, flatten, gemm": (
        {"x": (2, 4, 3, 3)},
        {"w": f(7, 36), "c": f(7), **BN},
        [("BatchNormalization", "x g b m v", "z"), ("Flatten", "z", "u"), ("Gemm", "u w c", "y", {"transB": 1})],
        {"scale-before-matmul"},
        {"mul"},
    ),
    "pad, conv": (
        {"x": (1, 3, 6, 7)},
        {"p": np.int64([0, 0, 1, 0, 0, 0, 1, 2]), "v": s(0), "w": f(4, 3, 3, 3)},
        [("Pad", "x p v", "z"), ("Conv", "z w", "y", {"strides": [2, 2]})],
        {"pad-into-conv"},
        {"pad"},
    ),
    "transposes around each convolution, tensorflow": (
        {"x": (1, 6, 6, 4)},
        {"w": f(4, 4, 3, 3), "b": f(4), "w2": f(4, 4, 1, 1)},
        [("Transpose", "x", "t", {"perm": [0, 3, 1, 2]}), ("Conv", "t w", "c", {"pads": [1] * 4}),
         ("Transpose", "c", "d", {"perm": [0, 2, 3, 1]}), ("Add", "d b", "e"), ("Relu", "e", "r"),
         ("Transpose", "r", "t2", {"perm": [0, 3, 1, 2]}), ("Conv", "t2 w2", "c2"),
         ("Transpose", "c2", "d2", {"perm": [0, 2, 3, 1]}), ("Add", "d2 r", "f"), ("Relu", "f", "g"),
         ("Transpose", "g", "y", {"perm": [0, 3, 1, 2]})],
        {"transpose-sink", "transpose-chain"},
        set(),
    ),
    "flatten after a transpose, tensorflow": (
        {"x": (2, 3, 4, 5)},
        {"s": np.int64([2, 60]), "w": f(60, 7)},
        [("Relu", "x", "r"), ("Transpose", "r", "t", {"perm": [0, 2, 3, 1]}), ("Reshape", "t s", "u"),
         ("MatMul", "u w", "y")],
        {"flatten-order"},
        {"transpose"},
    ),
    "dead layout": (
        {"x": (1, 3, 4)},
        {"one": np.int64([0]), "s": np.int64([1, 3, 4]), "t": np.int64([1, 1, 1])},
        [("Unsqueeze", "x one", "a"), ("Squeeze", "a one", "b"), ("Reshape", "b s", "c"), ("Tile", "c t", "d"),
         ("Identity", "d", "e"), ("Dropout", "e", "h"), ("Relu", "h", "y")],
        set(),
        {"reshape", "tile", "expand_dims", "squeeze"},
    ),
}  # fmt: skip

# the same with one thing changed: nothing of the kind may fire
NEAR = {
    "gelu, torch": ({"r": s(1.5)}, {"gelu"}),
    "gelu, tensorflow": ({"half": s(0.25)}, {"gelu"}),
    "gelu tanh, hugging face": ({"c": s(0.05)}, {"gelu-tanh"}),
    "mish, tensorflow": ({"one": s(2)}, {"mish"}),
    "hardswish, torch opset 11": ({"three": s(2)}, {"hardswish", "hardsigmoid"}),
    "hardswish, tensorflow": ({"sixth": s(0.2)}, {"hardswish", "hardsigmoid"}),
    "layer norm, torch opset 14": ({"two": s(4)}, {"unit-variance"}),
    "pad, conv": ({"v": s(1)}, {"pad-into-conv"}),
}


def model(inputs, constants, nodes):
    made = []
    for op, given, out, *attributes in nodes:
        made.append(
            helper.make_node(op, given.split(), [out], name=f"n_{out}", **(attributes[0] if attributes else {}))
        )
    ports = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, d) for n, d in inputs.items()]
    held = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    out = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    graph = helper.make_graph(made, "spelling", ports, out, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def program_of(made):
    done = import_graph(from_model(made))
    done.check()
    return done.program()


def check(made, inputs, tolerance=2e-4):
    """Optimizes, compares with ONNX Runtime's CPU provider, returns the program and what fired."""
    feeds = {n: f(*d, scale=1.0).astype(np.float16).astype(np.float32) for n, d in inputs.items()}
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    (want,) = ort.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
        None, feeds
    )
    after, fired = optimized(program_of(made))
    for numerics, most in (("fp32", tolerance), ("fp16", 2e-2)):
        got = run(after, feeds, numerics)["y"].astype(np.float64)
        assert np.max(np.abs(got - want) / (np.abs(want) + 1.0)) <= most, numerics
    return after, set(fired)


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name):
    inputs, constants, nodes, rules, gone = SPELLINGS[name]
    after, fired = check(model(inputs, constants, nodes), inputs)
    assert rules <= fired
    assert not gone & {op.kind for op in after.ops}
    if "transposes around" in name:
        assert [op.kind for op in after.ops].count("transpose") == 1


@pytest.mark.parametrize("name", NEAR)
def test_near_miss(name):
    inputs, constants, nodes, *_ = SPELLINGS[name]
    changed, rules = NEAR[name]
    _, fired = check(model(inputs, {**constants, **changed}, nodes), inputs)
    assert not rules & fired


def test_a_shared_weight_stays_intact():
    """One weight, two convolutions, one batch norm: the other convolution keeps the weight as it was."""
    constants = {"w": f(4, 3, 3, 3), **BN}
    nodes = [("Conv", "x w", "a"), ("BatchNormalization", "a g b m v", "c"), ("Relu", "x", "z"), ("Conv", "z w", "d"),
             ("Add", "c d", "y")]  # fmt: skip
    after, fired = check(model({"x": (1, 3, 6, 6)}, constants, nodes), {"x": (1, 3, 6, 6)})
    assert "scale-into-weight" in fired
    weights = [op.operand("weight").value for op in after.ops if op.kind == "conv"]
    assert sum(np.array_equal(w, constants["w"]) for w in weights) == 1
    assert len(weights) == 2


@pytest.mark.parametrize("name", ["gelu, torch", "layer norm, torch opset 14", "pad, conv", "conv, batch norm"])
def test_switched_off(name):
    inputs, constants, nodes, rules, _ = SPELLINGS[name]
    made = program_of(model(inputs, constants, nodes))
    for opt in ("0", ",".join(f"-{r}" for r in rules)):
        _, fired = optimized(made, opt)
        assert not rules & set(fired)
