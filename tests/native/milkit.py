"""Hand-written MIL programs for the native tests: text and weight blob, from scratch and apart from aneforge.mil, so that writer and
reader are not tested against each other only.

    p = Program("fp16")
    x = p.input(np.ones((1, 3)))
    y = p.op("add", (1, 3), x=x, y=2.0)
    (got,) = p.run([y], numerics="fp16")
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from aneforge.backends import native

CODES = {
    "fp16": 1,
    "fp32": 2,
    "uint8": 3,
    "int8": 4,
    "int16": 6,
    "uint16": 7,
    "int4": 8,
    "uint1": 9,
    "uint4": 11,
    "int32": 14,
}
NUMPY = {
    "fp16": np.float16, "fp32": np.float32, "uint8": np.uint8, "int8": np.int8, "int16": np.int16, "uint16": np.uint16,
    "int32": np.int32, "bool": np.bool_,
}  # fmt: skip
NAMES = {np.dtype(v): k for k, v in NUMPY.items()}


class Ref(str):
    """The name of a variable of the program."""


class Packed:
    """A constant of a type that NumPy has not: elements as integers, `bits` each."""

    def __init__(self, name: str, bits: int, values: np.ndarray) -> None:
        self.name, self.bits, self.values = name, bits, np.asarray(values)

    def bytes(self) -> bytes:
        flat = self.values.astype(np.int64).ravel() & ((1 << self.bits) - 1)
        return np.packbits(
            ((flat[:, None] >> np.arange(self.bits)) & 1).astype(np.uint8).ravel(), bitorder="little"
        ).tobytes()


class Program:
    """Statements of one function. `fp` is the type of every float: "fp16" or "fp32"."""

    def __init__(self, fp: str, version: str = "1.3") -> None:
        self.fp, self.old = fp, version == "1.0"
        self.parameters: list[str] = []
        self.feeds: list[np.ndarray] = []
        self.statements: list[str] = []
        self.blob = bytearray(struct.pack("<II56x", 0, 2))
        self.count = 0

    def type(self, name: str, shape: Sequence[int]) -> str:
        return name if not shape and not self.old else f"tensor<{name}, [{', '.join(map(str, shape))}]>"

    def name(self) -> Ref:
        self.count += 1
        return Ref(f"v{self.count}")

    def input(self, array: Any, dtype: str | None = None) -> Ref:
        array = np.asarray(array)
        kind = dtype or (self.fp if array.dtype.kind == "f" else NAMES[array.dtype])
        name = self.name()
        self.parameters.append(f"tensor<{kind}, [{', '.join(map(str, array.shape))}]> {name}")
        self.feeds.append(array)
        return name

    def record(self, code: int, raw: bytes, padding: int = 0) -> int:
        self.blob += bytes(-len(self.blob) % 64)
        at = len(self.blob)
        self.blob += struct.pack("<IIQQQ32x", 0xDEADBEEF, code, len(raw), at + 64, padding) + raw
        return at

    def literal(self, v: Any, dtype: str) -> str:
        if dtype == "string":
            return f'"{v}"'
        if dtype == "bool":
            return "true" if v else "false"
        return float(v).hex() if dtype in ("fp16", "fp32") else str(int(v))

    def value(self, v: Any) -> tuple[str, str]:
        """Type and value of something known, written out."""
        if isinstance(v, Packed):
            kind = self.type(v.name, v.values.shape)
            at = self.record(CODES[v.name], v.bytes(), -v.values.size * v.bits % 8)
            return kind, f"{kind}({self.reference(at)})"
        if isinstance(v, str):
            dtype, array = "string", np.asarray(v, object)
        else:
            array = np.asarray(v)
            if array.dtype.kind == "f":
                dtype = self.fp
                array = array.astype(NUMPY[dtype])
            elif isinstance(v, np.ndarray) and array.dtype in NAMES:
                dtype = NAMES[array.dtype]
            else:
                dtype = "bool" if array.dtype.kind == "b" else "int32"
                array = array.astype(NUMPY[dtype])
        kind = self.type(dtype, array.shape)
        if array.size >= 10 and dtype in CODES:
            return kind, f"{kind}({self.reference(self.record(CODES[dtype], np.ascontiguousarray(array).tobytes()))})"

        def nest(a: np.ndarray) -> str:
            return (
                self.literal(a.item(), dtype)
                if a.ndim == 0
                else "[" + ", ".join(nest(np.asarray(e, a.dtype)) for e in a) + "]"
            )

        return kind, f"{kind}({nest(array)})"

    def reference(self, offset: int) -> str:
        text, number = self.type("string", ()), self.type("uint64", ())
        return f'BLOBFILE(path = {text}("@model_path/weights.bin"), offset = {number}({offset}))'

    def const(self, v: Any) -> Ref:
        kind, value = self.value(v)
        name = self.name()
        text = self.type("string", ())
        self.statements.append(f'{kind} {name} = const()[name = {text}("{name}"), val = {value}];')
        return name

    def bind(self, v: Any) -> str:
        if isinstance(v, Ref):
            return v
        if isinstance(v, tuple):
            return "(" + ", ".join(self.bind(e) for e in v) + ")"
        if isinstance(v, float):
            return self.value(v)[1]
        return self.const(v)

    def op(
        self,
        kind: str,
        *shapes: Sequence[int],
        dtype: str | None = None,
        attributes: dict[str, Any] | None = None,
        **args: Any,
    ) -> Any:
        """One operation; as many results as shapes. Arguments that are no Ref are constants."""
        bound = [f"{k} = {self.bind(v)}" for k, v in sorted(args.items())]
        names = [self.name() for _ in shapes]
        outs = ", ".join(f"{self.type(dtype or self.fp, s)} {n}" for s, n in zip(shapes, names, strict=True))
        text = self.type("string", ())
        extra = "".join(f", {k} = {self.value(v)[1]}" for k, v in (attributes or {}).items())
        self.statements.append(f'{outs} = {kind}({", ".join(bound)})[name = {text}("{names[0]}_op"){extra}];')
        return names[0] if len(names) == 1 else names

    def text(self, outputs: Sequence[str]) -> str:
        version, opset = ("1.0", "ios17") if self.old else ("1.3", "ios18")
        entries = "dict<tensor<string, []>, tensor<string, []>>" if self.old else "dict<string, string>"
        body = "\n        ".join(self.statements)
        return (
            f'program({version})\n[buildInfo = {entries}({{{{"coremlc-version", "3520.5.1"}}}})]\n{{\n'
            f"    func main<{opset}>({', '.join(self.parameters)}) {{\n        {body}\n    }} -> ({', '.join(outputs)});\n}}\n"
        )

    def seal(self) -> None:
        """Writes into the blob how many records it has."""
        struct.pack_into("<I", self.blob, 0, self.blob.count(b"\xef\xbe\xad\xde"))

    def compile(self, outputs: Sequence[str], **options: str) -> Any:
        self.seal()
        return native.load().compile("host", self.text(outputs), bytes(self.blob), options)

    def execute(
        self,
        outputs: Sequence[str],
        *,
        feeds: Sequence[np.ndarray] | None = None,
        out: Any = None,
        threads: int = 0,
        **options: str,
    ) -> tuple[list[np.ndarray], dict[str, list[int]]]:
        """Results and port events. Results have the program's types (fp16 as float32) unless `out` names others."""
        program = self.compile(outputs, **options)
        types = {10: np.float32, 1: np.float32, 2: np.uint8, 6: np.int32, 9: np.bool_, 4: np.uint16}
        wanted = out or [types[dtype] for _, dtype, _ in program.outputs]
        given = (
            [np.asarray(a, np.float32) if a.dtype == np.float64 else a for a in self.feeds] if feeds is None else feeds
        )
        results, events = program.run(list(given), wanted, threads)
        return results, events

    def run(self, outputs: Sequence[str], **options: Any) -> list[np.ndarray]:
        return self.execute(outputs, **options)[0]


def half(a: Any) -> np.ndarray:
    """Rounded to the nearest half, as float64."""
    with np.errstate(over="ignore"):
        return np.asarray(a, np.float64).astype(np.float16).astype(np.float64)


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Distance in halves, both rounded to half first; equal infinities and NaNs are 0 apart."""

    def order(a: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            bits = np.asarray(a, np.float64).astype(np.float16).view(np.uint16).astype(np.int64)
        return np.where(bits & 0x8000, -(bits & 0x7FFF), bits)

    both = np.isnan(np.asarray(got, np.float64)) & np.isnan(np.asarray(want, np.float64))
    return np.where(both, 0, np.abs(order(got) - order(want)))


class In:
    """An operand that is fed when the program runs. Other operands are constants."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)


MODES = ("fp32", "fp16", "engine")
# Quirks that change nothing but special values and overflow: what most tests of the engine's numerics run with.
PLAIN_QUIRKS = "Q04,Q11,Q12"


def check(mode: str, kind: str, oracle: Any, /, *, ulp: int = 1, rtol: float = 3e-6, atol: float | None = None,
          dtype: str | None = None, quirks: str = PLAIN_QUIRKS, threads: int = 0, **args: Any) -> None:  # fmt: skip
    """Runs one operation, with plain and with fast kernels, and compares with oracle(**operands as float64), which gives one array or a list of them.

    fp16 and engine: at most `ulp` halves away, or within atol times the largest result. fp32: rtol of the largest result.
    """
    program = Program("fp32" if mode == "fp32" else "fp16")

    def stored(a: Any) -> Any:
        if isinstance(a, tuple):
            return tuple(stored(e) for e in a)
        array = a.array if isinstance(a, In) else a
        if isinstance(array, float) or (isinstance(array, np.ndarray) and array.dtype.kind == "f"):
            array = np.float32(array).astype(np.float64) if mode == "fp32" else half(array)
        return In(array) if isinstance(a, In) else array

    def plain(a: Any) -> Any:
        if isinstance(a, tuple):
            return tuple(plain(e) for e in a)
        return a.array if isinstance(a, In) else a

    def bound(a: Any) -> Any:
        if isinstance(a, tuple):
            return tuple(bound(e) for e in a)
        if isinstance(a, In):
            return program.input(a.array)
        return float(a) if isinstance(a, np.ndarray) and a.ndim == 0 and a.dtype.kind == "f" else a

    operands = {k: stored(v) for k, v in args.items()}
    with np.errstate(all="ignore"):
        known = {k: plain(v) for k, v in operands.items()}
        wanted = oracle(*known.values()) if isinstance(oracle, np.ufunc | np.vectorize) else oracle(**known)
    wanted = [np.asarray(w) for w in (wanted if isinstance(wanted, list) else [wanted])]
    names = program.op(kind, *[w.shape for w in wanted], dtype=dtype, **{k: bound(v) for k, v in operands.items()})
    options = {"numerics": mode} | ({"quirks": quirks} if mode == "engine" else {})
    got = []
    for kernels in ("plain", "fast"):
        got += program.run([names] if isinstance(names, Ref) else names, threads=threads, kernels=kernels, **options)
    for g, w in zip(got, wanted * 2, strict=True):
        assert g.shape == w.shape
        if w.dtype.kind in "bi":
            np.testing.assert_array_equal(g, w)
            continue
        if mode == "engine":
            w = np.where(np.isnan(w), 0, w)  # noqa: PLW2901 - the engine has no NaN (Q12)
        finite = np.abs(w[np.isfinite(w)])
        scale = float(finite.max()) if finite.size else 1.0
        if mode == "fp32":
            np.testing.assert_allclose(g, w, rtol=rtol, atol=(atol or rtol) * scale)
        else:
            assert np.array_equal(half(g), g, equal_nan=True), "every result is a half"
            with np.errstate(all="ignore"):
                away = np.where(np.abs(g - w) <= (atol or 0) * scale, 0, ulps(g, w))
            assert away.max(initial=0) <= ulp, (away.max(), g.ravel()[away.argmax()], w.ravel()[away.argmax()])
