"""Reads MIL text (dialect 1.3, ios18) and its weight blob into plain data, strictly.

Grammar: compiled programs of Core ML and coremltools' own expected strings. Blob: MILBlob's StorageFormat.hpp. What a
compiler would reject, or what could be read in two ways, raises MilError: unknown types, values that their type cannot
hold exactly, names used before they are defined or defined twice, blob records whose dtype or size is not what the text
says.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

import numpy as np


class MilError(Exception):
    """The text or the blob is not a valid program."""


# dtype of the text -> numpy dtype
NUMPY = {
    "fp16": np.dtype("<f2"),
    "fp32": np.dtype("<f4"),
    "int8": np.dtype("i1"),
    "uint8": np.dtype("u1"),
    "int16": np.dtype("<i2"),
    "uint16": np.dtype("<u2"),
    "int32": np.dtype("<i4"),
    "uint32": np.dtype("<u4"),
    "uint64": np.dtype("<u8"),
    "bool": np.dtype("?"),
    "uint1": np.dtype("u1"),
    "uint4": np.dtype("u1"),
}
MAX_RANK = 5  # and one more for the palette of a weight of rank 4
SUB_BYTE = {"uint1": 1, "uint4": 4}  # bits; only in the blob
BLOB_DTYPES = {
    1: "fp16", 2: "fp32", 3: "uint8", 4: "int8", 6: "int16", 7: "uint16", 9: "uint1", 11: "uint4", 14: "int32", 15: "uint32",
}  # fmt: skip
# operations of iOS16 whose operands stand among the attributes
BY_ATTRIBUTE = {"constexpr_affine_dequantize": {"quantized_data", "zero_point", "scale", "axis"}}
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<hex>-?0x[0-9a-f]+(?:\.[0-9a-f]+)?p[+-][0-9]+)
      | (?P<special>-?(?:inf|nan)\b)
      | (?P<decimal>-?[0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))
      | (?P<integer>-?[0-9]+)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<mark>->|[\[\]{}()<>,=;])""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Type:
    """A dtype and a shape. `string` has no shape; a scalar has ()."""

    dtype: str
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Literal:
    """A value spelled in the text, or found in the blob: `value` is an array of the type's shape, or a string."""

    type: Type
    value: np.ndarray | str
    in_blob: bool = False


Argument = str | Literal | tuple[str, ...]  # a variable, a literal, or a tuple of variables


@dataclass(frozen=True)
class Statement:
    """One operation. `results` are (variable, type)."""

    kind: str
    results: tuple[tuple[str, Type], ...]
    arguments: dict[str, Argument]
    attributes: dict[str, Literal]


@dataclass
class Program:
    """One function."""

    version: str
    build_info: dict[str, str]
    function: str
    opset: str
    inputs: list[tuple[str, Type]]
    statements: list[Statement] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    @property
    def operations(self) -> list[Statement]:
        """The statements that are not constants."""
        return [s for s in self.statements if s.kind != "const"]


def read(text: str, blob: bytes) -> Program:
    """Parses and checks a program.

    Raises:
        MilError: with the line where reading stopped.
    """
    program = _Parser(text, read_records(bytes(blob))).program()
    _check_names(program)
    return program


def read_records(blob: bytes) -> dict[int, tuple[str, np.ndarray]]:
    """Every record of a blob, found by walking it: offset -> (dtype, flat array). An empty blob has none."""
    if not len(blob):
        return {}
    if len(blob) < 64:
        raise MilError("the blob has no header")
    count, version = struct.unpack_from("<II", blob, 0)
    if version != 2 or any(blob[8:64]):
        raise MilError(f"blob header: version {version}, expected 2 and zeros")
    records: dict[int, tuple[str, np.ndarray]] = {}
    end = 64
    for index in range(count):
        offset = -(-end // 64) * 64
        if offset + 64 > len(blob) or any(blob[end:offset]):
            raise MilError(f"the blob counts {count} records and ends, or is not padded with zeros, after {index}")
        magic, code, size, start, unused_bits = struct.unpack_from("<IIQQQ", blob, offset)
        if magic != 0xDEADBEEF or start != offset + 64 or any(blob[offset + 32 : offset + 64]):
            raise MilError(f"bad blob record at {offset}")
        dtype = BLOB_DTYPES.get(code, "")
        if not dtype or size % NUMPY[dtype].itemsize or start + size > len(blob):
            raise MilError(f"blob record at {offset}: dtype code {code}, {size} bytes")
        bits = SUB_BYTE.get(dtype, 8)
        if unused_bits >= 8 or (unused_bits and (bits == 8 or unused_bits % bits or not size)):
            raise MilError(f"blob record at {offset}: {unused_bits} unused bits")
        flat = np.frombuffer(blob, NUMPY[dtype], size // NUMPY[dtype].itemsize, start)
        records[offset] = dtype, flat if bits == 8 else _unpacked(flat, bits, 8 * size - unused_bits, offset)
        end = start + size
    if end != len(blob):
        raise MilError(f"the blob has {len(blob) - end} bytes after its last record")
    return records


def _unpacked(packed: np.ndarray, bits: int, used: int, offset: int) -> np.ndarray:
    """Elements of less than a byte, one after another from the lowest bit up."""
    stream = (packed[:, None] >> np.arange(8, dtype=np.uint8) & 1).reshape(-1)
    if stream[used:].any():
        raise MilError(f"blob record at {offset}: bits are set after the last element")
    spread = stream[:used].reshape(-1, bits)
    return (spread << np.arange(bits, dtype=np.uint8)).sum(1).astype(np.uint8)


class _Parser:
    def __init__(self, text: str, records: dict[int, tuple[str, np.ndarray]]) -> None:
        self.text, self.records, self.at = text, records, 0
        self.tokens: list[tuple[str, str, int]] = []
        here = 0
        while here < len(text):
            match = TOKEN.match(text, here)
            if match is None:
                raise MilError(f"line {text.count(chr(10), 0, here) + 1}: {text[here : here + 20]!r}")
            if match.lastgroup != "space":
                self.tokens.append((str(match.lastgroup), match.group(), here))
            here = match.end()

    def fail(self, why: str) -> MilError:
        place = self.tokens[min(self.at, len(self.tokens) - 1)][2] if self.tokens else 0
        return MilError(f"line {self.text.count(chr(10), 0, place) + 1}: {why}")

    def look(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead][1] if self.at + ahead < len(self.tokens) else ""

    def next(self, *groups: str) -> str:
        if self.at >= len(self.tokens):
            raise self.fail("the text ends too early")
        group, token, _ = self.tokens[self.at]
        if groups and group not in groups:
            raise self.fail(f"{token!r} where a {' or '.join(groups)} belongs")
        self.at += 1
        return token

    def expect(self, *tokens: str) -> None:
        for token in tokens:
            if self.look() != token:
                raise self.fail(f"{self.look()!r} where {token!r} belongs")
            self.at += 1

    def separated(self, item, close: str) -> list:
        """Items divided by commas up to `close`; no trailing comma."""
        out: list = []
        if self.look() != close:
            out.append(item())
            while self.look() == ",":
                self.at += 1
                out.append(item())
        self.expect(close)
        return out

    # ---- program, function, statement

    def program(self) -> Program:
        self.expect("program", "(")
        version = self.next("decimal")
        if version != "1.3":
            raise self.fail(f"version {version}: only 1.3 is read")
        self.expect(")", "[", "buildInfo", "=", "dict", "<", "string", ",", "string", ">", "(", "{")
        info = dict(self.separated(self.info_pair, "}"))
        self.expect(")", "]", "{", "func")
        function = self.next("word")
        self.expect("<")
        opset = self.next("word")
        if opset != "ios18":
            raise self.fail(f"opset {opset}: only ios18 is read")
        self.expect(">", "(")
        program = Program(version, info, function, opset, self.separated(self.variable, ")"))
        self.expect("{")
        while self.look() != "}":
            program.statements.append(self.statement())
        self.expect("}", "->", "(")
        program.outputs = self.separated(lambda: self.next("word"), ")")
        self.expect(";", "}")
        if self.at != len(self.tokens):
            raise self.fail("something follows the program")
        return program

    def info_pair(self) -> tuple[str, str]:
        self.expect("{")
        key = self.string()
        self.expect(",")
        value = self.string()
        self.expect("}")
        return key, value

    def variable(self) -> tuple[str, Type]:
        kind = self.type()
        return self.next("word"), kind

    def statement(self) -> Statement:
        results = [self.variable()]
        while self.look() == ",":
            self.at += 1
            results.append(self.variable())
        self.expect("=")
        kind = self.next("word")
        self.expect("(")
        arguments = self.unique(self.separated(self.argument, ")"))
        self.expect("[")
        attributes = self.unique(self.separated(self.attribute, "]"))
        self.expect(";")
        return Statement(kind, tuple(results), arguments, attributes)

    def unique(self, pairs: list) -> dict:
        if len(dict(pairs)) != len(pairs):
            raise self.fail("an argument is given twice")
        return dict(pairs)

    def argument(self) -> tuple[str, Argument]:
        name = self.next("word")
        self.expect("=")
        if self.look() == "(":
            self.at += 1
            return name, tuple(self.separated(lambda: self.next("word"), ")"))
        if self.look(1) in ("(", "<"):
            return name, self.value()
        return name, self.next("word")

    def attribute(self) -> tuple[str, Literal]:
        name = self.next("word")
        self.expect("=")
        return name, self.value()

    # ---- types and values

    def type(self) -> Type:
        word = self.next("word")
        if word == "tensor":
            self.expect("<")
            dtype = self.dtype(self.next("word"))
            self.expect(",", "[")
            shape = tuple(self.separated(lambda: int(self.next("integer")), "]"))
            self.expect(">")
            if not shape:
                raise self.fail("a scalar is spelled without tensor<> in this dialect")
            if min(shape) < 1 or len(shape) > MAX_RANK + 1:
                raise self.fail(f"shape {list(shape)}: rank 1 to 5, every extent at least 1")
            return Type(dtype, shape)
        return Type("string") if word == "string" else Type(self.dtype(word))

    def dtype(self, word: str) -> str:
        if word not in NUMPY:
            raise self.fail(f"unknown type {word!r}")
        return word

    def value(self) -> Literal:
        kind = self.type()
        self.expect("(")
        if kind.dtype == "string":
            literal = Literal(kind, self.string())
        elif self.look() == "BLOBFILE":
            literal = Literal(kind, self.from_blob(kind), True)
        else:
            literal = Literal(kind, self.array(kind))
        self.expect(")")
        return literal

    def string(self) -> str:
        body = self.next("string")[1:-1]
        return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), body)

    def array(self, kind: Type) -> np.ndarray:
        flat: list = []
        if kind.dtype in SUB_BYTE:
            raise self.fail(f"{kind.dtype} stands in the blob only")

        def nested(shape: tuple[int, ...]) -> None:
            if not shape:
                flat.append(self.number(kind.dtype))
                return
            self.expect("[")
            count = len(self.separated(lambda: nested(shape[1:]), "]"))
            if count != shape[0]:
                raise self.fail(f"{count} values where the type {list(kind.shape)} wants {shape[0]}")

        nested(kind.shape)
        return np.array(flat, NUMPY[kind.dtype]).reshape(kind.shape)

    def number(self, dtype: str) -> object:
        token = self.next()
        group = self.tokens[self.at - 1][0]
        if dtype == "bool":
            if token not in ("true", "false"):
                raise self.fail(f"{token!r} is no bool")
            return token == "true"
        if dtype in ("fp16", "fp32"):
            if group not in ("hex", "special", "decimal"):
                raise self.fail(f"{token!r} is no float")
            exact = float.fromhex(token) if group == "hex" else float(token)
            with np.errstate(over="ignore"):
                held = NUMPY[dtype].type(exact)
            if group == "hex" and not np.isnan(exact) and float(held) != exact:
                raise self.fail(f"{token} is not a value of {dtype}")
            return held
        if group != "integer":
            raise self.fail(f"{token!r} is no integer")
        limits = np.iinfo(NUMPY[dtype])
        if not limits.min <= int(token) <= limits.max:
            raise self.fail(f"{token} is not a value of {dtype}")
        return int(token)

    def from_blob(self, kind: Type) -> np.ndarray:
        self.expect("BLOBFILE", "(", "path", "=")
        path = self.value()
        self.expect(",", "offset", "=")
        offset = self.value()
        self.expect(")")
        if path.value not in ("@model_path/weights.bin", "@model_path/weights/weight.bin"):
            raise self.fail(f"blob path {path.value!r}")
        if offset.type != Type("uint64"):
            raise self.fail("a blob offset is a uint64")
        if int(offset.value) not in self.records:
            raise self.fail(f"the blob has no record at {offset.value}")
        dtype, flat = self.records[int(offset.value)]
        if dtype != kind.dtype or flat.size != int(np.prod(kind.shape, dtype=np.int64)):
            raise self.fail(f"the blob holds {dtype}[{flat.size}] where the text says {kind}")
        return flat.reshape(kind.shape)


def _check_names(program: Program) -> None:
    defined: set[str] = set()

    def define(name: str) -> None:
        if not IDENTIFIER.fullmatch(name) or name in defined:
            raise MilError(f"variable {name!r} is defined twice or is no identifier")
        defined.add(name)

    for name, _ in program.inputs:
        define(name)
    called: set[str] = set()
    palettes = {s.arguments.get("lut") for s in program.statements if s.kind == "constexpr_lut_to_dense"}
    if any(len(kind.shape) > MAX_RANK for _, kind in program.inputs):
        raise MilError("an input has a rank above 5")
    for statement in program.statements:
        for argument in statement.arguments.values():
            for name in (argument,) if isinstance(argument, str) else argument if isinstance(argument, tuple) else ():
                if name not in defined:
                    raise MilError(f"{statement.kind} uses {name!r} before it is defined")
        for name, kind in statement.results:
            define(name)
            if len(kind.shape) > MAX_RANK and not (statement.kind == "const" and name in palettes):
                raise MilError(f"{statement.kind} {name!r} has rank {len(kind.shape)}")
        label = statement.attributes.get("name")
        if label is None or not isinstance(label.value, str) or label.value in called:
            raise MilError(f"{statement.kind} {statement.results[0][0]!r} has no name of its own")
        called.add(label.value)
        expected = {"name", "val"} if statement.kind == "const" else {"name"} | BY_ATTRIBUTE.get(statement.kind, set())
        if set(statement.attributes) != expected:
            raise MilError(f"{statement.kind} {label.value!r} has attributes {sorted(statement.attributes)}")
        if statement.kind == "const" and (
            len(statement.results) != 1
            or statement.arguments
            or statement.attributes["val"].type != statement.results[0][1]
        ):
            raise MilError(f"const {label.value!r}: the type of the variable is not that of its value")
    produced = {name for s in program.operations for name, _ in s.results}
    for name in program.outputs:
        if name not in produced:
            raise MilError(f"output {name!r} is not the result of an operation")
    if not program.outputs or len(set(program.outputs)) != len(program.outputs):
        raise MilError("a program has outputs, each one once")
