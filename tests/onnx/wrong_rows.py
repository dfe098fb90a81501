"""Where importers compute something else without a word: engine_ops §H2, one row or more for each line of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from trap_kit import Trap

R = np.random.default_rng(5)
INF = np.inf


def f(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (R.standard_normal(shape) * scale).astype(np.float16).astype(np.float32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def rows() -> Iterator[Trap]:
    yield from softmaxes()
    yield from recurrent()
    yield from products()
    yield from pools()
    yield from arithmetic()
    yield from layouts()
    yield from resizes()
    yield from attentions()
    yield from norms()
    yield from quantized()
    yield from casts()
    yield from graphs()
    yield from numerics()


def softmaxes() -> Iterator[Trap]:
    x = {"x": f(2, 3, 4)}
    for op in ("Softmax", "LogSoftmax"):
        yield Trap(f"{op} 11, default axis", [(op, "x", "y")], x, opset=11)
        yield Trap(f"{op} 11, axis 1", [(op, "x", "y", {"axis": 1})], x, opset=11)
        yield Trap(f"{op} 11, axis 0", [(op, "x", "y", {"axis": 0})], x, opset=11)


def recurrent() -> Iterator[Trap]:
    for op, gates in (("GRU", 3), ("LSTM", 4)):
        w, r, b = f(1, gates * 4, 3, scale=0.3), f(1, gates * 4, 4, scale=0.3), f(1, gates * 8, scale=0.3)
        held = {"w": w, "r": r, "b": b}
        for name, more in {
            "GRU": {"linear_before_reset=0": {}, "linear_before_reset=1": {"linear_before_reset": 1}},
            "LSTM": {"input_forget=1": {"input_forget": 1}, "plain": {}},
        }[op].items():
            yield Trap(f"{op}, {name}, with bias", [(op, "x w r b", "y", {"hidden_size": 4, **more})],
                       {"x": f(5, 2, 3)}, held, "either")  # fmt: skip
        yield Trap(f"{op}, gates beyond 4094 on the oldest engine", [(op, "x w r b", "y", {"hidden_size": 4})],
                   {"x": f(5, 2, 3, scale=3000)}, held, "either")  # fmt: skip


def products() -> Iterator[Trap]:
    x, w = {"x": f(3, 5)}, {"w": f(5, 3)}
    yield Trap("Gemm, C [M, 1], M = N", [("Gemm", "x w c", "y")], x, w | {"c": f(3, 1)})
    yield Trap("Gemm, C [M, 1], M != N", [("Gemm", "x w c", "y")], x, {"w": f(5, 4), "c": f(3, 1)})
    yield Trap("Gemm, C [M, N]", [("Gemm", "x w c", "y")], x, {"w": f(5, 4), "c": f(3, 4)})
    yield Trap(
        "Gemm, C a number, alpha, beta", [("Gemm", "x w c", "y", {"alpha": 0.5, "beta": 2.0})], x, w | {"c": f(1)}
    )
    for a, b in (((3, 4), (2, 4, 5)), ((2, 3, 4, 5), (3, 5, 6)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,))):
        for held in (False, True):
            name = f"MatMul {list(a)} @ {list(b)}{', constant' if held else ''}"
            given = {"a": f(*a)} if held else {"a": f(*a), "b": f(*b)}
            yield Trap(name, [("MatMul", "a b", "y")], given, {"b": f(*b)} if held else {})
    yield Trap(
        "Einsum of two vectors",
        [("Einsum", "a b", "y", {"equation": "i,i->"})],
        {"a": f(5), "b": f(5)},
        expect="either",
    )


def pools() -> Iterator[Trap]:
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        yield Trap(f"{op}, rank 3", [(op, "x", "y")], {"x": f(2, 3, 7)})
        yield Trap(f"{op}, rank 5", [(op, "x", "y")], {"x": f(2, 3, 4, 3, 5)})
    for op in ("MaxPool", "AveragePool"):
        for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            form = {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": auto}
            yield Trap(f"{op}, {auto}", [(op, "x", "y", form)], {"x": f(1, 2, 6, 7)}, opset=17)
        form = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "pads": [1, 1, 1, 1]}
        for size in (6, 7, 8):
            yield Trap(
                f"{op}, ceil_mode, extent {size}", [(op, "x", "y", form)], {"x": f(1, 2, size, size)}, expect="either"
            )
        form = {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1, "pads": [0, 0, 1, 1]}
        yield Trap(f"{op}, a last window that starts in the padding", [(op, "x", "y", form)],
                   {"x": f(1, 1, 6, 6)}, expect="either")  # fmt: skip
    form = {"kernel_shape": [3, 3], "dilations": [2, 2]}
    yield Trap(
        "AveragePool 19, dilations", [("AveragePool", "x", "y", form)], {"x": f(1, 2, 8, 8)}, opset=19, expect="either"
    )
    form = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1, "pads": [1, 1, 0, 0]}
    yield Trap(
        "AveragePool, ceil_mode, padding counted",
        [("AveragePool", "x", "y", form)],
        {"x": f(1, 2, 6, 6)},
        expect="either",
    )


def arithmetic() -> Iterator[Trap]:
    whole = {"a": np.array([7, -7, 9], np.int32), "b": np.array([2, 2, -4], np.int32)}
    yield Trap("Div of integers", [("Div", "a b", "y")], whole, expect="either", types={"y": np.int32})
    yield Trap("Div of constant integers", [("Div", "a b", "q"), ("Cast", "q", "c", {"to": 1}), ("Add", "x c", "y")],
               {"x": f(3)}, whole)  # fmt: skip
    yield Trap("PRelu, slope [W], W = C", [("PRelu", "x s", "y")], {"x": f(2, 3, 4, 3)}, {"s": f(3)})
    yield Trap("PRelu, slope [C, 1, 1]", [("PRelu", "x s", "y")], {"x": f(2, 3, 4, 3)}, {"s": f(3, 1, 1)})
    at = {"x": np.array([[1.0, 0.5, 2.0]], np.float32)}
    yield Trap("ThresholdedRelu at alpha", [("ThresholdedRelu", "x", "y", {"alpha": 1.0})], at)
    ties = {"x": np.array([[0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.49]], np.float32)}
    yield Trap("Round at ties", [("Round", "x", "y")], ties, fp16=1e-3)
    big = {"x": np.array([3.0, -3.0, 5.5], np.float32), "m": np.array([INF, INF, INF], np.float32)}
    yield Trap("Mod by infinity, fmod", [("Mod", "x m", "y", {"fmod": 1})], big, expect="either")
    yield Trap("Mod of integers", [("Mod", "a b", "y")], whole, expect="either", types={"y": np.int32})
    ids = {"a": np.array([2049, 4097, 5], np.int32), "b": np.array([2048, 4096, 5], np.int32)}
    for op in ("Equal", "Greater", "Less"):
        yield Trap(f"{op} of integers above 2048", [(op, "a b", "y")], ids, expect="either", types={"y": np.bool_})


def layouts() -> Iterator[Trap]:
    yield Trap("Flatten, axis = rank", [("Flatten", "x", "y", {"axis": 3})], {"x": f(2, 3, 4)})
    yield Trap("Flatten, axis 0", [("Flatten", "x", "y", {"axis": 0})], {"x": f(2, 3, 4)})
    yield Trap("Where, the condition larger than both", [("Greater", "x z", "c"), ("Where", "c a b", "y")],
               {"x": f(4, 3), "a": f(3), "b": f(1)}, {"z": np.float32(0)})  # fmt: skip
    yield Trap("Reshape, allowzero", [("Reshape", "x s", "y", {"allowzero": 1})], {"x": f(0, 3)}, {"s": i64(3, 0)},
               "refused", kinds=frozenset({"limit", "attribute form", "rank"}))  # fmt: skip
    yield Trap("Reshape, a zero that copies", [("Reshape", "x s", "y")], {"x": f(2, 3, 4)}, {"s": i64(0, -1)})
    upper = np.triu(np.full((4, 4), INF, np.float32), 1)
    yield Trap("Trilu, infinities in what it masks", [("Add", "x u", "a"), ("Trilu", "a", "y", {"upper": 0})],
               {"x": f(4, 4)}, {"u": upper}, "either")  # fmt: skip
    image = f(1, 2, 4, 6)
    yield Trap("SpaceToDepth 28, CRD", [("SpaceToDepth", "x", "y", {"blocksize": 2, "mode": "CRD"})], {"x": image},
               expect="either", opset=28, ir_version=13, want=[space_to_depth_crd(image)])  # fmt: skip


def space_to_depth_crd(x: np.ndarray) -> np.ndarray:
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 3, 5, 2, 4).reshape(n, c * 4, h // 2, w // 2)


def resizes() -> Iterator[Trap]:
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    linear = {"mode": "linear"}
    for name, form in (("nearest", nearest), ("linear", linear)):
        yield Trap(f"Resize, {name}, 5 * 0.7", [("Resize", "x _ s", "y", form)], {"x": f(1, 1, 5, 5)},
                   {"s": np.float32([1, 1, 0.7, 0.7])}, "either")  # fmt: skip
        yield Trap(f"Resize, {name}, channels too", [("Resize", "x _ s", "y", form)], {"x": f(1, 2, 4, 4)},
                   {"s": np.float32([1, 2, 1, 1])}, "either")  # fmt: skip
        yield Trap(f"Resize 18, {name}, axes [3, 2]", [("Resize", "x _ s", "y", {**form, "axes": [3, 2]})],
                   {"x": f(1, 2, 4, 5)}, {"s": np.float32([3, 2])}, opset=18)  # fmt: skip
        for policy in ("not_larger", "not_smaller"):
            yield Trap(f"Resize 18, {name}, {policy}",
                       [("Resize", "x _ _ s", "y", {**form, "axes": [2, 3], "keep_aspect_ratio_policy": policy})],
                       {"x": f(1, 1, 4, 6)}, {"s": i64(8, 9)}, "either", opset=18)  # fmt: skip


def attentions() -> Iterator[Trap]:
    q = {n: f(1, 2, 6, 4, scale=0.5) for n in "qkv"}
    upper = np.triu(np.ones((6, 6), bool), 1)
    alibi = (-0.5 * np.abs(np.arange(6)[:, None] - np.arange(6))).astype(np.float32)
    masks = {"a finite bias below the diagonal": np.where(upper, np.float32(-1e4), alibi), "a finite bias": alibi}
    for name, mask in masks.items():
        yield Trap(
            f"Attention 23, {name}", [("Attention", "q k v m", "y")], q, {"m": mask}, "either", 23, ir_version=10
        )
        spelled = [("Transpose", "k", "t", {"perm": [0, 1, 3, 2]}), ("MatMul", "q t", "s"), ("Mul", "s c", "p"),
                   ("Add", "p m", "a"), ("Softmax", "a", "w", {"axis": -1}), ("MatMul", "w v", "y")]  # fmt: skip
        yield Trap(f"attention spelled out, {name}", spelled, q, {"m": mask, "c": np.float32(0.5)})
    yield Trap(
        "Attention 23, is_causal", [("Attention", "q k v", "y", {"is_causal": 1})], q, {}, "either", 23, ir_version=10
    )
    form = {"left_window_size": 1, "right_window_size": 1}
    window = np.abs(np.arange(6)[:, None] - np.arange(6)) <= 1
    scores = np.where(window, q["q"] @ np.swapaxes(q["k"], 2, 3) / 2, -INF)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = (weights / weights.sum(-1, keepdims=True)) @ q["v"]
    yield Trap("Attention 25, windows", [("Attention", "q k v", "y", form)], q, {}, "either", 25, [want.astype(np.float32)],
               ir_version=11)  # fmt: skip


def norms() -> Iterator[Trap]:
    form = {"training_mode": 1}
    held = {"g": np.abs(f(3)) + 0.5, "b": f(3), "m": f(3), "v": np.abs(f(3)) + 0.5}
    x = f(4, 3, 5, 5)
    mean, var = (getattr(x, what)((0, 2, 3), keepdims=True) for what in ("mean", "var"))
    want = (x - mean) / np.sqrt(var + 1e-5) * held["g"][:, None, None] + held["b"][:, None, None]
    yield Trap("BatchNormalization 15, training_mode", [("BatchNormalization", "x g b m v", "y", form)], {"x": x}, held,
               "either", 15, [want.astype(np.float32)], fp16=2e-2)  # fmt: skip
    tiny = f(2, 16, scale=1e-3)
    ms = np.mean(tiny.astype(np.float64) ** 2, -1, keepdims=True)
    yield Trap("RMSNormalization, a mean square near epsilon",
               [("RMSNormalization", "x g", "y", {"epsilon": 1e-6})], {"x": tiny}, {"g": np.ones(16, np.float32)},
               opset=23, want=[(tiny / np.sqrt(ms + 1e-6)).astype(np.float32)], ir_version=10, fp16=2e-2)  # fmt: skip
    small = f(2, 16, scale=1e-4)
    yield Trap(
        "LpNormalization of tiny vectors",
        [("LpNormalization", "x", "y", {"axis": -1, "p": 2})],
        {"x": small},
        fp16=3e-2,
    )
    shared = [("Conv", "x w", "a"), ("BatchNormalization", "a g b m v", "c"), ("Relu", "x", "z"), ("Conv", "z w", "d"),
              ("Add", "c d", "y")]  # fmt: skip
    yield Trap("a weight that two Convs share, one with BN", shared, {"x": f(1, 2, 6, 6)}, {"w": f(3, 2, 3, 3), **held})
    both = [("Conv", "x w", "a"), ("BatchNormalization", "a g b m v", "c"), ("BatchNormalization", "a b g m v", "d"),
            ("Add", "c d", "y")]  # fmt: skip
    yield Trap("a Conv with two BNs", both, {"x": f(1, 2, 6, 6)}, {"w": f(3, 2, 3, 3), **held})


def quantized() -> Iterator[Trap]:
    x = {"x": np.float32([[0.04, 0.11, -0.26, 3.0, -3.0, 0.349]])}
    scale = {"s": np.float32(0.01)}
    zero, unsigned = {"z": np.int8(3)}, {"z": np.uint8(130)}
    yield Trap("QuantizeLinear leaves the model", [("QuantizeLinear", "x s z", "y")], x, scale | zero, "either",
               types={"y": np.int8})  # fmt: skip
    both = [("QuantizeLinear", "x s z", "q"), ("DequantizeLinear", "q s z", "y")]
    yield Trap("quantized and back, rounded", both, x, scale | zero, "either")
    yield Trap("quantized and back, unsigned", both, x, scale | unsigned, "either")
    none = [("QuantizeLinear", "x s", "q"), ("DequantizeLinear", "q s", "y")]
    yield Trap("QuantizeLinear without a zero point", none, x, scale, "either")
    folded = [("QuantizeLinear", "c s z", "q"), ("DequantizeLinear", "q s z", "d"), ("Add", "x d", "y")]
    yield Trap("a constant with an unsigned zero point", folded, x, scale | unsigned | {"c": x["x"] * 0.5}, "either")
    yield Trap("DequantizeLinear of an input", [("DequantizeLinear", "x s z", "y")],
               {"x": np.array([[-128, -1, 0, 5, 127]], np.int8)}, scale | zero, "either")  # fmt: skip


def casts() -> Iterator[Trap]:
    x = {"x": np.float32([[1.7, -1.7, 100.2, 3.0]])}
    for name, to, dtype in (("uint8", 2, np.uint8), ("int8", 3, np.int8), ("int32", 6, np.int32)):
        positive = x if dtype != np.uint8 else {"x": np.abs(x["x"])}
        yield Trap(f"Cast to {name}", [("Cast", "x", "y", {"to": to})], positive, expect="either", types={"y": dtype})
        yield Trap(
            f"Cast to {name} and back",
            [("Cast", "x", "c", {"to": to}), ("Cast", "c", "y", {"to": 1})],
            positive,
            expect="either",
        )
    yield Trap("Cast of integers that wraps", [("Cast", "x", "y", {"to": 3})], {"x": np.array([[300, -200, 5]], np.int32)},
               expect="either", types={"y": np.int8})  # fmt: skip
    yield Trap("Cast of a bool, then Mul", [("Greater", "x z", "b"), ("Cast", "b", "c", {"to": 1}), ("Mul", "x c", "y")],
               x, {"z": np.float32(0)})  # fmt: skip


def graphs() -> Iterator[Trap]:
    x = {"x": f(2, 3, 4)}
    yield Trap(
        "a model with three outputs", [("Relu", "x", "a"), ("Exp", "x", "b"), ("Add", "a b", "c")], x, outputs="b c a"
    )
    yield Trap("an output given twice over", [("Relu", "x", "a"), ("Identity", "a", "b")], x, outputs="a b")
    norm = [("LayerNormalization", "x g", "n mean inv"), ("Add", "n mean", "y")]
    yield Trap("LayerNormalization's second output is read", norm, x, {"g": f(4)}, "either")
    pool = [
        ("MaxPool", "x", "p i", {"kernel_shape": [2], "strides": [2]}),
        ("Cast", "i", "c", {"to": 1}),
        ("Add", "p c", "y"),
    ]
    yield Trap("MaxPool's indices are read", pool, x, {}, "either")
    top = [("TopK", "x k", "v i", {"axis": -1}), ("Cast", "i", "c", {"to": 1}), ("Add", "v c", "y")]
    yield Trap("TopK's indices are read", top, x, {"k": i64(2)}, "either")
    yield Trap("com.example::Relu", [("Relu", "x", "y", {}, "com.example")], x, {}, "refused", want=[x["x"]],
               kinds=frozenset({"operator"}))  # fmt: skip
    packed = {"w": f(4, 12, scale=0.3), "b": f(12, scale=0.3)}
    yield Trap("com.microsoft::Attention", [("Attention", "x w b", "y", {"num_heads": 2}, "com.microsoft")],
               {"x": f(2, 3, 4)}, packed, "either")  # fmt: skip
    for dtype in (np.int32, np.int64, np.uint8, np.float64):
        given = {"x": np.array([[70001 % (200 if dtype == np.uint8 else 10**6), 3]], dtype)}
        yield Trap(
            f"an input of {dtype.__name__}",
            [("Add", "x x", "y")],
            given,
            expect="either",
            types={"y": dtype},
            fp16=None,
        )


def numerics() -> Iterator[Trap]:
    for op in ("Sin", "Cos"):
        yield Trap(f"{op} beyond pi / 2", [(op, "x", "y")], {"x": np.linspace(-20, 20, 64).reshape(4, 16).astype(np.float16).astype(np.float32)},
                   expect="either")  # fmt: skip
    yield Trap("LogSoftmax of large logits", [("LogSoftmax", "x", "y", {"axis": -1})], {"x": f(3, 40, scale=20)})
    yield Trap("ReduceLogSumExp of large logits", [("ReduceLogSumExp", "x", "y", {"axes": [1]})],
               {"x": np.full((2, 40), 20, np.float32)}, opset=13)  # fmt: skip
    wide = np.float32([[-200, -41, -3, 0, 0.5, 41, 200, 1000]])
    yield Trap(
        "Gelu by tanh beyond 40", [("Gelu", "x", "y", {"approximate": "tanh"})], {"x": wide}, opset=20, ir_version=9
    )
    yield Trap(
        "ReduceL2 of large values", [("ReduceL2", "x", "y", {"axes": [1]})], {"x": f(3, 20, scale=2000)}, opset=13
    )
    for name, held in (("no minimum", "x _ b"), ("no maximum", "x a"), ("both beyond fp16", "x c d"), ("none", "x")):
        constants = {"a": np.float32(-1), "b": np.float32(1), "c": np.float32(-1e30), "d": np.float32(1e30)}
        yield Trap(f"Clip, {name}", [("Clip", held, "y")], {"x": f(3, 4)}, constants)
