"""Where importers fail with an exception that says nothing to a user: engine_ops §H3, one row or more for each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from trap_kit import Trap
from wrong_rows import f, i64

FIVE = {"x": f(2, 3, 4, 5, 2)}


def rows() -> Iterator[Trap]:
    yield from constants()
    yield from parameters()
    yield from ranks()
    yield from forms()
    yield from graphs()


def constants() -> Iterator[Trap]:
    x, c = {"x": f(3, 4)}, {"c": np.abs(f(3, 4)) + 0.1}
    for op in ("Sqrt", "Exp", "Neg", "Floor", "Relu", "Sigmoid", "Erf"):
        yield Trap(f"{op} of a constant", [(op, "c", "k"), ("Add", "x k", "y")], x, c)
    for op in ("ReduceMean", "ReduceMax", "ReduceL2"):
        yield Trap(f"{op} of a constant", [(op, "c", "k", {"axes": [1]}), ("Add", "x k", "y")], x, c, opset=13)
    yield Trap(
        "Where with a constant condition", [("Where", "b x c", "y")], x, c | {"b": np.array([True, False, True, False])}
    )
    yield Trap("Concat of a constant and a tensor", [("Concat", "x c", "k", {"axis": 0}), ("Relu", "k", "y")], x, c)
    cut = [("Concat", "c x c", "k", {"axis": 0}), ("Split", "k s", "a b y", {"axis": 0})]
    yield Trap("Split of constants and tensors", cut, x, c | {"s": i64(2, 3, 4)}, outputs="y")
    shape = [("Shape", "x", "s"), ("Max", "s t", "m"), ("Equal", "s t", "e"), ("Where", "e s m", "w"), ("Expand", "z w", "k"),
             ("Add", "x k", "y")]  # fmt: skip
    yield Trap("Max, Equal, Where on shapes, then Expand", shape, x, {"t": i64(3, 1), "z": np.float32([[1.5]])})
    again = [("Shape", "x", "s"), ("Min", "s t", "m"), ("Reshape", "x m", "y")]
    yield Trap("Min on shapes, then Reshape", again, x, {"t": i64(3, 9)})
    for name, attribute in {
        "value_float": 1.5, "value_int": 2, "value_ints": [1, 2, 3, 4], "value_floats": [0.5, 1.5, 2.5, 3.5],
    }.items():  # fmt: skip
        cast = [("Constant", "", "k", {name: attribute}), ("Cast", "k", "l", {"to": 1}), ("Add", "x l", "y")]
        yield Trap(f"Constant with {name}", cast, x)
    yield Trap("Slice 9", [("Slice", "x", "y", {"axes": [1], "starts": [1], "ends": [-1]})], x, opset=9)
    yield Trap("TopK 1", [("TopK", "x", "y i", {"axis": 1, "k": 2})], x, opset=9, expect="either", outputs="y")


def parameters() -> Iterator[Trap]:
    """Parameters that are computed at run time."""
    yield Trap("Gemm with computed weights", [("Gemm", "x w b", "y")], {"x": f(3, 4), "w": f(4, 5), "b": f(5)})
    yield Trap(
        "Conv with a computed weight", [("Conv", "x w", "y")], {"x": f(1, 2, 6, 6), "w": f(3, 2, 3, 3)}, expect="either"
    )
    yield Trap("Conv with a computed weight, batch 2", [("Conv", "x w", "y")],
               {"x": f(2, 2, 6, 6), "w": f(3, 2, 3, 3)}, expect="either")  # fmt: skip
    yield Trap("LayerNormalization with a computed scale", [("LayerNormalization", "x g", "y")],
               {"x": f(3, 16), "g": f(16)}, expect="either")  # fmt: skip
    yield Trap("InstanceNormalization with computed parameters", [("InstanceNormalization", "x g b", "y")],
               {"x": f(2, 3, 6, 6), "g": f(3), "b": f(3)}, expect="either")  # fmt: skip
    yield Trap("BatchNormalization with computed parameters", [("BatchNormalization", "x g b m v", "y")],
               {"x": f(2, 3, 6, 6), "g": f(3), "b": f(3), "m": f(3), "v": np.abs(f(3)) + 0.5}, expect="either")  # fmt: skip
    yield Trap("Clip with computed bounds", [("Clip", "x a b", "y")],
               {"x": f(3, 4), "a": np.array(-0.5, np.float32), "b": np.array(0.5, np.float32)}, expect="either")  # fmt: skip
    yield Trap("Reshape to a computed shape", [("Reshape", "x s", "y")], {"x": f(3, 4), "s": i64(4, 3)}, {}, "refused")
    yield Trap(
        "Slice with computed ends", [("Slice", "x a b", "y")], {"x": f(3, 4), "a": i64(0), "b": i64(2)}, {}, "refused"
    )
    yield Trap("Tile by computed counts", [("Tile", "x s", "y")], {"x": f(3, 4), "s": i64(2, 1)}, {}, "refused")
    yield Trap("Expand to a computed shape", [("Expand", "x s", "y")], {"x": f(3, 1), "s": i64(3, 4)}, {}, "refused")


def ranks() -> Iterator[Trap]:
    yield Trap("Conv, 1-d", [("Conv", "x w", "y", {"pads": [1, 1]})], {"x": f(2, 3, 9)}, {"w": f(4, 3, 3)})
    yield Trap("Conv, 3-d", [("Conv", "x w", "y")], {"x": f(1, 2, 5, 5, 5)}, {"w": f(3, 2, 3, 3, 3)}, "either")
    for op in ("MaxPool", "AveragePool"):
        yield Trap(f"{op}, 1-d", [(op, "x", "y", {"kernel_shape": [3], "strides": [2]})], {"x": f(2, 3, 9)})
        yield Trap(
            f"{op}, 3-d", [(op, "x", "y", {"kernel_shape": [2, 2, 2]})], {"x": f(1, 2, 4, 4, 4)}, expect="either"
        )
    held = {"g": f(4), "b": f(4), "m": f(4), "v": np.abs(f(4)) + 0.5}
    yield Trap("BatchNormalization, rank 2", [("BatchNormalization", "x g b m v", "y")], {"x": f(3, 4)}, held)
    yield Trap("PRelu with one slope", [("PRelu", "x s", "y")], {"x": f(2, 3, 4)}, {"s": np.float32([0.25])})
    yield Trap("PRelu with a scalar slope", [("PRelu", "x s", "y")], {"x": f(2, 3, 4)}, {"s": np.float32(0.25)})
    yield Trap("LayerNormalization with a scale [1]", [("LayerNormalization", "x g", "y", {"axis": 2})], {"x": f(2, 3, 1)},
               {"g": f(1)}, "either")  # fmt: skip
    window = [("Reshape", "x s", "a"), ("Transpose", "a", "b", {"perm": [0, 1, 3, 2, 4, 5]}), ("Reshape", "b t", "y")]
    yield Trap(
        "rank 6, as windows are cut",
        window,
        {"x": f(1, 4, 4, 3)},
        {"s": i64(1, 2, 2, 2, 2, 3), "t": i64(4, 4, 3)},
        "either",
    )
    yield Trap("an input of rank 6", [("Relu", "x", "y")], {"x": f(1, 2, 1, 2, 1, 2)}, {}, "either")
    yield Trap(
        "a scalar input", [("Add", "x c", "y")], {"x": np.array(1.5, np.float32)}, {"c": np.float32(2)}, "either"
    )


def forms() -> Iterator[Trap]:
    x, q = {"x": f(2, 3, 4)}, {"s": np.float32([0.01, 0.02, 0.03]), "z": np.array([1, -2, 3], np.int8)}
    both = [("QuantizeLinear", "x s z", "q", {"axis": 1}), ("DequantizeLinear", "q s z", "y", {"axis": 1})]
    yield Trap("QuantizeLinear for each axis", both, x, q, "either")
    block = [("DequantizeLinear", "w s", "k", {"axis": 1, "block_size": 2}), ("MatMul", "x k", "y")]
    held = {"w": np.arange(-8, 8, dtype=np.int8).reshape(4, 4), "s": np.abs(f(4, 2, scale=0.1)) + 0.01}
    yield Trap("DequantizeLinear by blocks", block, {"x": f(3, 4)}, held, "either", opset=21, ir_version=10)
    group = {"num_groups": 2}
    for opset, size in ((18, 2), (21, 4)):
        x4, g, b = f(2, 4, 5, 5), f(size), f(size)
        grouped = x4.reshape(2, 2, -1).astype(np.float64)
        unit = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + 1e-5)
        gain, shift = (np.repeat(v, 4 // size)[:, None, None] for v in (g, b))
        yield Trap(f"GroupNormalization {opset}, batch 2", [("GroupNormalization", "x g b", "y", group)], {"x": x4},
                   {"g": g, "b": b}, "either", opset, [(unit.reshape(x4.shape) * gain + shift).astype(np.float32)],
                   ir_version=10, valid=opset > 18)  # fmt: skip
    yield Trap("MatMul by a constant of rank 3", [("MatMul", "x c", "y")], {"x": f(2, 3, 4)}, {"c": f(2, 4, 5)})
    yield Trap("MatMul by a constant vector", [("MatMul", "x c", "y")], {"x": f(2, 3, 4)}, {"c": f(4)})
    yield Trap("MatMul of a constant vector", [("MatMul", "c x", "y")], {"x": f(2, 3, 4)}, {"c": f(3)})
    yield Trap("Gather with negative indices", [("Gather", "x i", "y", {"axis": 1})], x, {"i": i64(-1, 0, -3)})
    yield Trap("Gather of one negative index", [("Gather", "x i", "y", {"axis": 2})], x, {"i": np.array(-2, np.int64)})
    yield Trap("an empty Slice", [("Slice", "x a b c", "y")], x, {"a": i64(2), "b": i64(2), "c": i64(2)})
    yield Trap("Slice beyond both ends", [("Slice", "x a b c", "y")], x, {"a": i64(-99), "b": i64(99), "c": i64(1)})
    yield Trap(
        "Slice backwards", [("Slice", "x a b c d", "y")], x, {"a": i64(-1), "b": i64(-99), "c": i64(1), "d": i64(-2)}
    )
    yield Trap("a negative Pad", [("Pad", "x p", "y")], {"x": f(1, 2, 5, 6)}, {"p": i64(0, 0, -1, 1, 0, 0, 2, -2)})
    yield Trap("a Pad of the channels", [("Pad", "x p v", "y")], {"x": f(1, 2, 5, 6)},
               {"p": i64(0, 1, 0, 0, 0, 2, 0, 0), "v": np.float32(1.5)})  # fmt: skip


def graphs() -> Iterator[Trap]:
    given = {"x": f(2, 3), "t": f(2, 3)}
    only = [("Shape", "t", "s"), ("Concat", "s o", "k", {"axis": 0}), ("Reshape", "x k", "y")]
    yield Trap("an input that is only asked for its shape", only, given, {"o": i64(1)})
    for dtype in (np.float16, np.float64):
        yield Trap(f"an output of {dtype.__name__}", [("Relu", "x", "y")], {"x": f(2, 3).astype(dtype)}, expect="either",
                   types={"y": dtype})  # fmt: skip
    yield Trap("an output that is an input", [("Relu", "x", "r")], given | {}, outputs="r x", expect="either")
    yield Trap("an output that is constant", [("Sqrt", "c", "k"), ("Relu", "x", "y")], {"x": f(2, 3)}, {"c": np.float32([4, 9])},
               outputs="y k")  # fmt: skip
