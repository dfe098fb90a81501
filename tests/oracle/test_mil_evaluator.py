"""The evaluator as a whole: reading, rounding, and what it must not let pass. Texts are written by hand here."""

import struct

import numpy as np
import pytest

from oracle.mil_reference import MilError, evaluate, read

HEAD = 'program(1.3)\n[buildInfo = dict<string, string>({{"coremlc-version", "3520.5.1"}})]\n{\n'


def program(body, inputs="tensor<fp16, [2, 3]> x", outputs="y"):
    return f"{HEAD}    func main<ios18>({inputs}) {{\n{body}\n    }} -> ({outputs});\n}}\n"


def blob(*records):
    out = bytearray(struct.pack("<II56x", len(records), 2))
    for code, array in records:
        out += bytes(-len(out) % 64)
        out += struct.pack("<IIQQQ32x", 0xDEADBEEF, code, array.nbytes, len(out) + 64, 0) + array.tobytes()
    return bytes(out)


X = np.array([[1, -2, 3], [0.1, 1000, -0.5]], np.float32)
RELU = 'tensor<fp16, [2, 3]> y = relu(x = x)[name = string("y")];'


def test_rounds_once_after_each_operation():
    body = """
        fp16 k = const()[name = string("k"), val = fp16(0x1.554p-2)];
        tensor<fp16, [2, 3]> m = mul(x = x, y = k)[name = string("m")];
        tensor<fp16, [2, 3]> y = add(x = m, y = x)[name = string("y")];"""
    out = evaluate(program(body), b"", {"x": X})["y"]
    x = X.astype(np.float16)
    assert out.dtype == np.float16
    assert np.array_equal(out, x * np.float16(0.33325) + x)
    wide = evaluate(program(body), b"", {"x": X}, "fp32")["y"]
    assert wide.dtype == np.float32
    assert np.array_equal(wide, X * np.float32(np.float16(0.33325)) + X)


def test_fp32_program():
    text = program(RELU, "tensor<fp32, [2, 3]> x").replace("fp16", "fp32")
    assert np.array_equal(evaluate(text, b"", {"x": X}, "fp32")["y"], np.maximum(X, 0))
    with pytest.raises(MilError, match="no fp16 numerics"):
        evaluate(text, b"", {"x": X}, "fp16")


def test_inputs_saturate_as_ports_do():
    x = np.array([[1e9, -1e9, np.inf], [65519.0, 65520.0, 1]], np.float32)
    out = evaluate(program(RELU), b"", {"x": x})["y"]
    assert out.tolist() == [[65504.0, 0.0, np.inf], [65504.0, 65504.0, 1.0]]


def test_overflow_and_special_values():
    body = """
        fp16 e = const()[name = string("e"), val = fp16(0x0p+0)];
        tensor<fp16, [2, 3]> s = square(x = x)[name = string("s")];
        tensor<fp16, [2, 3]> y = log(epsilon = e, x = x)[name = string("y")];"""
    out = evaluate(program(body, outputs="s, y"), b"", {"x": X})
    assert out["s"][1, 1] == np.inf
    assert np.isnan(out["y"][0, 1])


def test_blob_multiple_results_tuples_masks_uint8():
    weights = np.arange(12, dtype=np.float16)
    body = """
        tensor<fp16, [4, 3]> w = const()[name = string("w"), val = tensor<fp16, [4, 3]>(BLOBFILE(path = string("@model_path/weights.bin"), offset = uint64(64)))];
        string d = const()[name = string("d"), val = string("fp16")];
        tensor<fp16, [2, 3]> f = cast(dtype = d, x = x)[name = string("f")];
        tensor<fp16, [2, 4]> m = matmul(transpose_x = bool(false), transpose_y = bool(true), x = f, y = w)[name = string("m")];
        int32 ax = const()[name = string("ax"), val = int32(1)];
        int32 n = const()[name = string("n"), val = int32(2)];
        bool no = const()[name = string("no"), val = bool(false)];
        tensor<fp16, [2, 2]> a, tensor<fp16, [2, 2]> b = split(axis = ax, num_splits = n, x = m)[name = string("ab")];
        tensor<bool, [2, 2]> g = greater(x = a, y = b)[name = string("g")];
        tensor<fp16, [2, 2]> s = select(a = a, b = b, cond = g)[name = string("s")];
        tensor<fp16, [2, 4]> y = concat(axis = ax, interleave = no, values = (s, b))[name = string("y")];"""
    x = np.array([[1, 2, 3], [4, 5, 100]], np.uint8)
    out = evaluate(program(body, "tensor<uint8, [2, 3]> x"), blob((1, weights)), {"x": x})["y"]
    product = x.astype(float) @ weights.reshape(4, 3).T.astype(float)
    assert np.array_equal(out, np.hstack([np.maximum(product[:, :2], product[:, 2:]), product[:, 2:]]))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (RELU.replace("[2, 3]> y", "[3, 2]> y"), "declared"),
        (RELU.replace("relu", "gather"), "unknown operation"),
        (RELU.replace("x = x", "x = x, y = x"), "unknown arguments"),
        (RELU.replace("x = x", "x = z"), "before it is defined"),
        (RELU.replace("(x = x)", "()"), "missing"),
        (RELU.replace("tensor<fp16, [2, 3]> y", "tensor<fp16, [2, 3]> x"), "defined twice"),
        (RELU.replace("tensor<fp16, [2, 3]> y", "tensor<fp32, [2, 3]> y"), "one float type"),
        (RELU.replace(";", ""), "belongs"),
        (RELU.replace("[name", "[nam"), "no name"),
        ('fp16 k = const()[name = string("k"), val = fp16(0x1.0001p+0)];' + RELU, "not a value of fp16"),
        ('fp16 k = const()[name = string("k"), val = fp32(0x1p+0)];' + RELU, "not that of its value"),
        ('tensor<int32, [2]> k = const()[name = string("k"), val = tensor<int32, [2]>([1])];' + RELU, "values where"),
        ('tensor<fp16, []> k = const()[name = string("k"), val = tensor<fp16, []>(0x1p+0)];' + RELU, "scalar"),
        ('tensor<bool, [2, 3]> y = greater(x = x, y = x)[name = string("y")];', "ports are floats"),
        ('tensor<fp16, [2, 3]> y = softmax(axis = fp16(0x1p+0), x = x)[name = string("y")];', "does not take"),
        ('tensor<fp16, [2]> y = reduce_sum(axes = x, x = x)[name = string("y")];', "does not take"),
        ("", "not the result of an operation"),
    ],
)
def test_refusals(body, why):
    with pytest.raises(MilError, match=why):
        evaluate(program(body), b"", {"x": X})


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b[:-2],
        lambda b: b + b"\0",
        lambda b: b[:4] + b"\1" + b[5:],
        lambda b: b[:64] + b"\0" + b[65:],
        lambda b: b[:68] + b"\2" + b[69:],
        lambda b: b"\2" + b[1:],
    ],
)
def test_bad_blobs(change):
    text = program(
        'tensor<fp16, [3]> w = const()[name = string("w"), val = tensor<fp16, [3]>(BLOBFILE(path = '
        'string("@model_path/weights.bin"), offset = uint64(64)))];' + RELU
    )
    good = blob((1, np.ones(3, np.float16)))
    assert read(text, good).operations[0].kind == "relu"
    with pytest.raises(MilError):
        read(text, change(good))


def test_wrong_inputs():
    for inputs in ({}, {"x": X, "z": X}, {"x": X[:1]}, {"x": X.astype(np.int64)}):
        with pytest.raises(MilError):
            evaluate(program(RELU), b"", inputs)
