"""The reader of program text and weight blobs: what it takes, and that nothing it is given breaks the process."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from milkit import Program

from aneforge.backends import native

FAILURES = (ValueError, NotImplementedError, RuntimeError)


def compile(text: str, blob: bytes = b"") -> object:
    return native.load().compile("host", text, blob, {"numerics": "fp16"})


def relu(body: str = "", shape: str = "tensor<fp16, [2]>", results: str = "(y)", x: str = "x") -> str:
    return (
        'program(1.3) [buildInfo = dict<string, string>({{"a", "]"}})] { func main<ios18>(' + shape + " x) {\n"
        + body + f"{shape} y = relu(x = {x})[name = string(\"y\")];\n}} -> {results}; }}"
    )  # fmt: skip


@pytest.mark.parametrize("version", ["1.0", "1.3"])
def test_both_dialects(version: str) -> None:
    p = Program("fp16", version)
    x = p.input(np.arange(12.0).reshape(3, 4))
    y = p.op("linear", (3, 2), x=x, weight=np.arange(8.0).reshape(2, 4), bias=np.array([1.0, -1.0]))
    a, b = p.op("split", (3, 1), (3, 1), x=y, num_splits=2, axis=1)
    (got,) = p.run([p.op("concat", (3, 2), values=(b, a), axis=1, interleave=False)], numerics="fp16")
    want = np.arange(12.0).reshape(3, 4) @ np.arange(8.0).reshape(2, 4).T + [1, -1]
    np.testing.assert_array_equal(got, want[:, ::-1])


def test_numbers() -> None:
    forms = {
        "0x1.8p+1": 3.0, "-0x1.388p+13": -10000.0, "0x0p+0": 0.0, "-0.5": -0.5, "1e-05": 1e-5, "3": 3.0, "inf": np.inf,
        "-inf": -np.inf, "nan": np.nan, "0x1p-24": 2.0**-24, "0.1": 0.1, "65504": 65504.0,
        "123456789012345678901234567890e-25": 12345.6789, "0x1p-30": 0.0, "6.1035e-05": 6.1035e-05, "1E2": 100.0, "+2.5": 2.5,
    }  # fmt: skip
    for text, value in forms.items():
        c = f'fp16 k = const()[name = string("k"), val = fp16({text})];'
        program = compile(relu().replace("relu(x = x)", "add(x = x, y = k)").replace("{\n", "{\n" + c, 1))
        got = program.run([np.zeros(2, np.float32)], [np.float32])[0][0][0]  # type: ignore[attr-defined]
        want = np.float32(np.float16(value))
        assert got == want or (np.isnan(got) and np.isnan(want)), (text, got, want)


def test_free_form() -> None:
    compile(relu().replace("\n", "").replace(", ", ",").replace(" = ", "="))
    compile(relu().replace("(x = x)", "( // a comment ] } ;\n x\t=\r\n x )"))
    compile(relu('int32 k = const()[val = int32(-0), name = string("a \\" ; quote")]; '))
    compile(relu() + "\n\n")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "line 1, column 1: expected 'program'"),
        (relu()[:-1], "expected '}'"),
        (relu() + "x", "after the program's end"),
        (relu(x="z"), "'z' is not defined"),
        (relu(results="(q)"), "'q' is not defined"),
        (relu(results="()"), "without results"),
        (relu("tensor<fp16, [2]> x = relu(x = x)[name = string(\"x\")];"), "defined twice"),
        (relu("tensor<fp15, [2]> q = relu(x = x)[];"), "'fp15' is not a type"),
        (relu("tensor<fp16, [2]> q = relu(x = x, x = x)[];"), "given twice"),
        (relu("tensor<fp16, [2]> q = const()[val = tensor<fp16, [2]>([1.0])];"), "fewer elements"),
        (relu("tensor<fp16, [2]> q = const()[val = tensor<fp16, [2]>([1, 2, 3])];"), "more elements"),
        (relu("tensor<fp16, [2]> q = const()[val = tensor<fp16, [3]>([1, 2, 3])];"), "const declared"),
        (relu("int8 q = const()[val = int8(128)];"), "128 does not fit int8"),
        (relu("bool q = const()[val = bool(1)];"), "'1' is not true or false"),
        (relu("fp16 q = const()[val = fp16(abc)];"), "'abc' is not a number"),
        (relu("tensor<fp16, [3]> q = relu(x = x)[];", results="(q)"), r"line 2: relu 'q': declared with shape \[3\], computes \[2\]"),
        (relu("tensor<int32, [2]> q = relu(x = x)[];", results="(q)"), "declared with type int32"),
        (relu("tensor<fp16, [2]> q = relu()[];", results="(q)"), "argument 'x' is missing"),
        (relu("tensor<fp16, [2]> q = const()[val = tensor<fp16, [2]>(BLOBFILE(path = string(\"w\"), offset = uint64(64)))];"), "outside the blob"),
        (relu(shape="tensor<fp16, [9999999999]>"), "too large"),
    ],
)  # fmt: skip
def test_ill_formed_text_says_where(text: str, what: str) -> None:
    with pytest.raises(FAILURES, match=what):
        compile(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (relu().replace("relu(x", "frobnicate(x"), "no form for MIL operation 'frobnicate'"),
        (relu(shape="tensor<fp16, [?]>"), "flexible"),
        (relu(shape="state<tensor<fp16, [2]>>"), "state"),
        (relu(shape="tensor<fp16, [0]>"), "dimension of 0"),
        (relu(shape="tensor<fp16, [" + ", ".join(["1"] * 9) + "]>"), "rank"),
        (relu()[:-1] + "func other<ios18>() {} -> (y); }", "several functions"),
    ],
)
def test_what_is_legal_but_not_taken_is_unsupported(text: str, what: str) -> None:
    with pytest.raises(NotImplementedError, match=what):
        compile(text)


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    for opening in ("[", "(", "{", "tensor<", "list<", "tuple<"):
        with pytest.raises(FAILURES):
            compile(relu(f"tensor<fp16, [2]> q = const()[val = tensor<fp16, [2]>({opening * 1_000_000}"))
        with pytest.raises(FAILURES):
            compile(f"program(1.3) {opening * 1_000_000}")


def sample() -> tuple[str, bytes]:
    p = Program("fp16")
    x = p.input(np.zeros((1, 4, 6, 6)))
    c = p.op("conv", (1, 6, 6, 6), x=x, weight=np.random.default_rng(0).normal(size=(6, 4, 3, 3)), pad_type="custom", pad=[1, 1, 1, 1],
             strides=[1, 1], dilations=[1, 1], groups=1, bias=np.ones(6))  # fmt: skip
    m = p.op("max_pool", (1, 6, 3, 3), x=c, kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid", ceil_mode=False)
    t = p.op("transpose", (1, 3, 3, 6), x=m, perm=[0, 2, 3, 1])
    s = p.op("slice_by_index", (1, 2, 3, 5), x=t, begin=[0, 1, 0, 0], end=[1, 3, 3, 5], stride=[1, 1, 1, 1])
    q = p.op("pad", (1, 2, 4, 6), x=s, pad=[1, 0, 0, 1], constant_val=1.0)
    w = np.random.default_rng(1).integers(-9, 9, size=(6, 12)).astype(np.int8)
    d = p.op(
        "constexpr_affine_dequantize",
        w.shape,
        attributes={"axis": 0, "quantized_data": w, "scale": np.ones(6), "zero_point": 0.0},
    )
    y = p.op("matmul", (1, 2, 4, 12), x=q, y=d, transpose_x=False, transpose_y=False)
    r = p.op("reduce_sum", (1, 2, 4, 1), x=y, axes=[-1], keep_dims=True)
    g = p.op("gather", (1, 2, 3, 1), x=r, indices=np.array([0, 3, 1], np.int32), axis=2)
    a, b = p.op("split", (1, 1, 3, 1), (1, 1, 3, 1), x=g, num_splits=2, axis=1)
    out = p.op("concat", (1, 2, 3, 1), values=(b, a), axis=1)
    p.compile([out])
    return p.text([out]), bytes(p.blob)


def attempt(text: bytes, blob: bytes) -> bool:
    """True when it compiled. Small programs are also run: a mutated shape must not lead outside a tensor."""
    try:
        program = native.load().compile(
            "host", text.decode("latin-1"), blob, {"numerics": "engine", "quirks": "Q04,Q06,Q08,Q12"}
        )
    except FAILURES:
        return False
    shapes = [shape for _, _, shape in program.inputs] + [shape for _, _, shape in program.outputs]
    if all(np.prod(s, dtype=float) < 1e6 for s in shapes):
        try:
            program.run([np.ones(s, np.float32) for _, _, s in program.inputs], [np.float32] * len(program.outputs))
        except FAILURES:
            return False
    return True


def test_truncated_text_and_blobs() -> None:
    text, blob = sample()
    raw = text.encode()
    assert attempt(raw, blob)
    for i in range(0, len(raw) - 1, 3):
        assert not attempt(raw[:i], blob) or raw[i:].strip() == b""
    for i in range(len(blob)):
        assert not attempt(raw, blob[:i])


@pytest.mark.parametrize("seed", range(6))
def test_mutated_text(seed: int) -> None:
    text, blob = sample()
    rng = random.Random(seed)
    raw = text.encode()
    alphabet = b'0123456789,.;:()[]{}<>=-+x"abcp _\n'
    for _ in range(500):
        mutated = bytearray(raw)
        for _ in range(rng.randint(1, 3)):
            at, what = rng.randrange(len(mutated)), rng.randrange(4)
            if what == 0:
                mutated[at] = rng.choice(alphabet)
            elif what == 1:
                del mutated[at : at + rng.randint(1, 8)]
            elif what == 2:
                mutated[at:at] = bytes(rng.choice(alphabet) for _ in range(rng.randint(1, 4)))
            else:
                other = rng.randrange(len(mutated))
                mutated[at : at + 6] = mutated[other : other + 6]
        attempt(bytes(mutated), blob)


def test_mutated_numbers() -> None:
    """Every number of the text, replaced by others: shapes, axes, strides, offsets."""
    text, blob = sample()
    for match in re.finditer(r"(?<![\w.])-?\d+(?![\w.])", text):
        for number in ("0", "-1", "1", "2", "7", "2147483647", "-2147483648", "9223372036854775807"):
            attempt((text[: match.start()] + number + text[match.end() :]).encode(), blob)


def test_mutated_blobs() -> None:
    text, blob = sample()
    rng = random.Random(5)
    for _ in range(2000):
        mutated = bytearray(blob)
        for _ in range(rng.randint(1, 4)):
            mutated[rng.choice([rng.randrange(200), rng.randrange(len(mutated))])] = rng.choice(
                [0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)]
            )
        attempt(text.encode(), bytes(mutated))
