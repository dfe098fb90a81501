"""From a Program to the statements of one MIL function: names, literals, and where each constant lives.

Both forms of a program, text and protobuf, are spelled from these statements. What is decided here:

* identifiers are generated, because names of a model may hold anything: `x0`, `y0` for ports, `t0` results, `c0`
  constants;
* ints, bools and strings become constant variables, each value once, and single floats stay inline, as ANEForge 0.4.0
  emits them;
* constants of ten or more elements go to the blob (the rule of coremltools 9.0), where equal ones share a record;
* floats are narrowed, once: "fp16" for the engine, "fp32" for the reference numerics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InternalError
from ..ir import Op, Program, Tensor, Type
from .blob import Blob, narrow

MIN_BLOB_ELEMENTS = 10
# parameters that MIL types as uint32 (coremltools 9.0 op registry, iOS18)
_BYTES = {("constexpr_affine_dequantize", "zero_point")}  # int8, as the data
# operations of iOS16 whose operands are attributes, values and not variables (coremltools 9.0, backend/mil/load.py)
_ATTRIBUTES = frozenset({"constexpr_affine_dequantize"})
_UNSIGNED = {("pixel_unshuffle", "downscale_factor"), ("resize", "resized_dims")}


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A value with its type: a string, an array, or, with `offset`, a record of the blob."""

    type: Type
    data: str | NDArray[Any] | None
    offset: int | None = None


Argument = str | Literal | tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """`results = kind(arguments)`; a const has `value` instead of arguments, and some old
    operations have `attributes`."""

    kind: str
    results: tuple[tuple[str, Type], ...]
    arguments: tuple[tuple[str, Argument], ...] = ()
    value: Literal | None = None
    attributes: tuple[tuple[str, Literal], ...] = ()


@dataclass(frozen=True, eq=False)
class Function:
    """The statements of one function in order; `inputs` and `outputs` are (identifier, type)."""

    name: str
    inputs: tuple[tuple[str, Type], ...]
    statements: tuple[Statement, ...]
    outputs: tuple[tuple[str, Type], ...]
    blob: memoryview


def emit(program: Program, float_type: str, name: str = "main") -> Function:
    """Spells a program.

    Raises:
        InternalError: it cannot be spelled: an output that is a constant or no float, a list or an extent of zero.
    """
    return _Emitter(program, float_type).function(name)


class _Emitter:
    def __init__(self, program: Program, float_type: str) -> None:
        self.program = program
        self.float_type = float_type
        self.names: dict[Tensor, str] = {}
        self.statements: list[Statement] = []
        self.parameters: dict[tuple[Any, ...], str] = {}
        self.spelled: dict[tuple[Any, ...], Argument] = {}
        self.constants = 0
        self.results = 0
        # What is added, or is a least value, may guard a root, a logarithm or a division below it.
        self.guards = {s for op in program.ops if op.kind in ("add", "maximum") for s in op.sources if s.is_const}
        # What is packed goes to the blob, however short: the engine's compiler was only seen to take it from there.
        self.packed = {s for op in program.ops if op.kind.startswith("constexpr_") for s in op.sources}
        inside = {s for op in program.ops if op.kind in _ATTRIBUTES for s in op.sources}
        self.unnamed = inside - {s for op in program.ops if op.kind not in _ATTRIBUTES for s in op.sources}
        self.blob = Blob(
            (op.outputs[0], self.stored(op.types[0].dtype), op.params["value"])
            for op in program.ops
            if op.kind == "const" and self.in_blob(op)
        )

    def function(self, name: str) -> Function:
        inputs = []
        for i, (_, tensor) in enumerate(self.program.inputs):
            self.names[tensor] = f"x{i}"
            inputs.append((f"x{i}", self.typed(tensor.type, "input")))
        outputs = self.outputs()
        for op in self.program.ops:
            if op.kind == "const":
                if op.outputs[0] not in self.unnamed:
                    self.const(op)
            elif op.kind != "input":
                self.operation(op)
        self.copies(outputs)
        return Function(name, tuple(inputs), tuple(self.statements), tuple(outputs), self.blob.buffer())

    def outputs(self) -> list[tuple[str, Type]]:
        """Names the outputs: a tensor's own name is that of the first output that it is."""
        out = []
        for i, (name, tensor) in enumerate(self.program.outputs):
            if tensor.op.kind == "const":
                raise InternalError(f"output {name!r} is a constant: it is no result of the engine")
            if tensor.dtype != "fp16":
                raise InternalError(f"output {name!r} is {tensor.type}: only floats leave a program")
            out.append((f"y{i}", self.typed(tensor.type, "output")))
            self.names.setdefault(tensor, f"y{i}")
        return out

    def copies(self, outputs: list[tuple[str, Type]]) -> None:
        """Makes every output the result of an operation of its own: the compiler crashes on an output that is an input
        (ANEForge 0.4.0, _compile.py), and a result has one name. A product with 1 keeps every value."""
        for (name, kind), (_, tensor) in zip(outputs, self.program.outputs, strict=True):
            if self.names[tensor] != name:
                one = self.literal("mul", "y", 1.0)
                self.statements.append(Statement("mul", ((name, kind),), (("x", self.names[tensor]), ("y", one))))

    # ---- types

    def stored(self, dtype: str) -> str:
        return self.float_type if dtype == "fp16" else dtype

    def typed(self, kind: Type, what: str) -> Type:
        if kind.dtype == "fp32":
            raise InternalError(f"{what} {kind}: floats are fp16 until they are written")
        if 0 in kind.shape or len(kind.shape) > (6 if what == "table" else 5):
            raise InternalError(f"{what} {kind}: ranks are 0 to 5 and extents 1 and more")
        return Type(self.stored(kind.dtype), kind.shape)

    # ---- statements

    def const(self, op: Op) -> None:
        tensor, array = op.outputs[0], op.params["value"]
        # The palette of a convolution's weight is the one value of rank 6 (rank of the weight + 2): no operation computes it.
        kind = self.typed(tensor.type, "table" if tensor in self.packed else "const")
        if array.shape != kind.shape:
            raise InternalError(f"const {kind} holds an array of shape {array.shape}")
        if self.in_blob(op):
            value = self.record(tensor)
        else:
            value = Literal(kind, narrow(array, kind.dtype, guards=tensor in self.guards))
        self.names[tensor] = self.variable(value)

    def in_blob(self, op: Op) -> bool:
        kind = op.types[0]
        return (kind.size >= MIN_BLOB_ELEMENTS and kind.dtype != "bool") or op.outputs[0] in self.packed

    def record(self, tensor: Tensor) -> Literal:
        return Literal(self.typed(tensor.type, "table"), None, self.blob.offset(tensor))

    def variable(self, value: Literal) -> str:
        name = f"c{self.constants}"
        self.constants += 1
        self.statements.append(Statement("const", ((name, value.type),), value=value))
        return name

    def operation(self, op: Op) -> None:
        arguments: dict[str, Argument] = {}
        if op.kind in _ATTRIBUTES:
            self.with_attributes(op)
            return
        for name, given in op.inputs.items():
            arguments[name] = tuple([self.names[t] for t in given]) if isinstance(given, tuple) else self.names[given]
        for name, value in op.params.items():
            if value is not None:
                arguments[name] = self.parameter(op, name, value)
        results = []
        for tensor in op.outputs:
            if tensor not in self.names:
                self.names[tensor] = f"t{self.results}"
                self.results += 1
            results.append((self.names[tensor], self.typed(tensor.type, op.kind)))
        self.statements.append(Statement(op.kind, tuple(results), tuple(sorted(arguments.items()))))

    def with_attributes(self, op: Op) -> None:
        self.names[op.outputs[0]] = name = f"t{self.results}"
        self.results += 1
        attributes = {role: self.record(op.operand(role)) for role in op.inputs}
        attributes |= {role: self.literal(op.kind, role, value) for role, value in op.params.items()}
        result = (name, self.typed(op.types[0], op.kind))
        self.statements.append(Statement(op.kind, (result,), attributes=tuple(sorted(attributes.items()))))

    def parameter(self, op: Op, name: str, value: Any) -> Argument:
        if op.kind == "cast" and name == "dtype":
            value = self.stored(value)
        # Most parameters are whole numbers and words that every layer repeats. Floats are left out: 0.0 equals -0.0.
        parts = value if type(value) is tuple else (value,)
        kinds = tuple(map(type, parts))
        if not set(kinds) <= {int, bool, str}:
            return self.parameter_of(self.literal(op.kind, name, value))
        key = (op.kind, name, kinds, value)
        if key not in self.spelled:
            self.spelled[key] = self.parameter_of(self.literal(op.kind, name, value))
        return self.spelled[key]

    def parameter_of(self, literal: Literal) -> Argument:
        if literal.type.dtype == self.float_type and not literal.type.shape:
            return literal
        data = literal.data if isinstance(literal.data, str) else np.asarray(literal.data).tobytes()
        key = (literal.type, data)
        if key not in self.parameters:
            self.parameters[key] = self.variable(literal)
        return self.parameters[key]

    def literal(self, kind: str, name: str, value: Any) -> Literal:
        if isinstance(value, str):
            return Literal(Type("string", ()), value)
        array = np.asarray(value)
        if array.size == 0:
            raise InternalError(f"{kind}: an empty list for {name!r} cannot be spelled")
        if array.dtype.kind == "b":
            dtype = "bool"
        elif array.dtype.kind in "iu":
            dtype = "uint32" if (kind, name) in _UNSIGNED else "int8" if (kind, name) in _BYTES else "int32"
            limits = np.iinfo(dtype)
            if array.min() < limits.min or array.max() > limits.max:
                raise InternalError(f"{kind}: {name} = {value!r} does not fit {dtype}")
        elif array.dtype.kind == "f":
            dtype = self.float_type
        else:
            raise InternalError(f"{kind}: no way to spell {name} = {value!r}")
        return Literal(Type(dtype, array.shape), narrow(array, dtype, guards=name == "epsilon"))


def renamed(function: Function, names: Mapping[str, str]) -> Function:
    """The same function with other identifiers."""

    def new(name: str) -> str:
        return names.get(name, name)

    def argument(given: Argument) -> Argument:
        if isinstance(given, str):
            return new(given)
        return tuple([new(n) for n in given]) if isinstance(given, tuple) else given

    statements = [
        Statement(
            s.kind,
            tuple([(new(n), t) for n, t in s.results]),
            tuple([(k, argument(a)) for k, a in s.arguments]),
            s.value,
            s.attributes,
        )
        for s in function.statements
    ]
    inputs, outputs = (tuple([(new(n), t) for n, t in ports]) for ports in (function.inputs, function.outputs))
    return Function(function.name, inputs, tuple(statements), outputs, function.blob)
