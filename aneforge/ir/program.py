"""Program: a graph with named ports, canonical by construction; and the walks that everything else is built of.

No walk recurses: a chain of 50,000 operations is an ordinary graph.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from .core import Op, Origin, Tensor, Type, input
from .printer import render

_SMALL = 4096
"""Constants up to this many bytes are compared by content, larger ones by address: hashing weights would cost more
than it saves.
"""

Ports = tuple[tuple[str, Tensor], ...]


def topological(roots: Iterable[Tensor], stop: Container[Op] = frozenset(), *, at: Container[Tensor] = ()) -> list[Op]:
    """Every Op that `roots` need, operands first; the order depends on the graph alone.

    The walk leaves out the Ops in `stop` and does not go past the Tensors in `at`.
    """
    order: list[Op] = []
    seen: set[Op] = set()
    for root in roots:
        if root.op in seen or root.op in stop or root in at:
            continue
        seen.add(root.op)
        stack = [(root.op, iter(root.op.sources))]
        while stack:
            op, rest = stack[-1]
            for source in rest:
                below = source.op
                if below not in seen and below not in stop and source not in at:
                    seen.add(below)
                    stack.append((below, iter(below.sources)))
                    break
            else:
                order.append(op)
                stack.pop()
    return order


def substitute(
    outputs: Sequence[Tensor], mapping: Mapping[Tensor, Tensor], origins: Mapping[Op, Origin] | None = None
) -> list[Tensor]:
    """`outputs`, recomputed with every Tensor in `mapping` replaced. Ops that do not depend on one are kept as they
    are.

    Raises:
        TypeError: a replacement has another type than what it replaces.
    """
    for old, new in mapping.items():
        if old.type != new.type:
            raise TypeError(f"cannot replace {old.type} of {old.op.kind} by {new.type} of {new.op.kind}")
    moved: dict[Tensor, Tensor] = dict(mapping)
    for op in topological(outputs, at=mapping):
        sources = [moved.get(source, source) for source in op.sources]
        if any(new is not old for new, old in zip(sources, op.sources, strict=True)):
            fresh = op.with_sources(sources, origins.get(op, op.origin) if origins else op.origin)
            for old, new in zip(op.outputs, fresh.outputs, strict=True):
                moved.setdefault(old, new)
    return [moved.get(tensor, tensor) for tensor in outputs]


class Program:
    """A graph between named inputs and named outputs.

    Canonical on construction: Ops that no output needs are gone, equal Ops are one (their origins united), and `ops`
    stands in a topological order that depends on the graph alone. Listed inputs stay listed even when nothing reads
    them.

    Raises:
        ValueError: a name given twice, a leaf that is not a listed input, no outputs.
    """

    __slots__ = ("_origins", "_uses", "inputs", "ops", "outputs")

    inputs: Ports
    outputs: Ports
    ops: tuple[Op, ...]

    def __init__(
        self,
        inputs: Iterable[tuple[str, Tensor]],
        outputs: Iterable[tuple[str, Tensor]],
        origins: Mapping[Op, Origin] | None = None,
    ) -> None:
        self.inputs = tuple(inputs)
        given = tuple(outputs)
        if not given:
            raise ValueError("a program needs an output")
        for role, ports in (("input", self.inputs), ("output", given)):
            names = [name for name, _ in ports]
            if len(set(names)) != len(names):
                twice = sorted({name for name in names if names.count(name) > 1})
                raise ValueError(f"{role} names are given twice: {', '.join(twice)}")
        for name, tensor in self.inputs:
            if tensor.op.kind != "input":
                raise ValueError(f"input {name!r} is not an input but the result of {tensor.op.kind}; use Program.cut")
        known = {tensor.op for _, tensor in self.inputs}
        table: dict[Any, Op] = {}
        merged: dict[Op, Op] = {}
        united: dict[Op, Origin] = {}
        for op in topological(tensor for _, tensor in given):
            if op.kind == "input" and op not in known:
                raise ValueError(f"input {op.params['name']!r} is needed but not listed")
            mark = op.origin if origins is None else origins.get(op, op.origin)
            sources = [merged[s.op].outputs[s.index] for s in op.sources]
            same = all(new is old for new, old in zip(sources, op.sources, strict=True))
            candidate = op if same else op.with_sources(sources, mark)
            kept = table.setdefault(_identity(candidate), candidate)
            merged[op] = kept
            before = united.get(kept)
            united[kept] = mark if before is None or before == mark else before | mark
        self.outputs = tuple([(name, merged[t.op].outputs[t.index]) for name, t in given])
        self.ops = tuple(table.values())
        self._origins = united
        self._uses: dict[Tensor, int] | None = None

    @classmethod
    def cut(cls, inputs: Iterable[tuple[str, Tensor]], outputs: Iterable[tuple[str, Tensor]]) -> Program:
        """The part of a graph between given tensors: each tensor in `inputs` becomes a fresh input of its type."""
        given = [(name, tensor, input(name, tensor.shape, tensor.dtype)) for name, tensor in inputs]
        wanted = list(outputs)
        roots = substitute([tensor for _, tensor in wanted], {old: fresh for _, old, fresh in given})
        return cls(
            [(name, fresh) for name, _, fresh in given],
            [(name, root) for (name, _), root in zip(wanted, roots, strict=True)],
        )

    def origins(self, op: Op) -> Origin:
        """Which nodes of the model `op` stands for."""
        return self._origins.get(op, op.origin)

    @property
    def origin_table(self) -> Mapping[Op, Origin]:
        return self._origins

    def uses(self, tensor: Tensor) -> int:
        """How many operands and outputs read `tensor`."""
        if self._uses is None:
            count: dict[Tensor, int] = {}
            for op in self.ops:
                for source in op.sources:
                    count[source] = count.get(source, 0) + 1
            for _, output in self.outputs:
                count[output] = count.get(output, 0) + 1
            self._uses = count
        return self._uses.get(tensor, 0)

    @property
    def input_types(self) -> tuple[Type, ...]:
        return tuple(tensor.type for _, tensor in self.inputs)

    @property
    def output_types(self) -> tuple[Type, ...]:
        return tuple(tensor.type for _, tensor in self.outputs)

    def __str__(self) -> str:
        return render(self)

    def __repr__(self) -> str:
        return f"<Program {len(self.inputs)} inputs, {len(self.ops)} ops, {len(self.outputs)} outputs>"


def replace(program: Program, mapping: Mapping[Tensor, Tensor]) -> Program:
    """The program with tensors replaced by others of the same type; what is no longer needed is gone."""
    table = program.origin_table
    roots = substitute([tensor for _, tensor in program.outputs], mapping, table)
    return Program(
        program.inputs, [(name, root) for (name, _), root in zip(program.outputs, roots, strict=True)], table
    )


def _identity(op: Op) -> Any:
    """Equal for two Ops exactly when they compute the same."""
    if op.kind == "const":
        value = op.params["value"]
        if value.nbytes <= _SMALL:
            return ("const", op.types, value.dtype.str, value.tobytes())
        where = value.__array_interface__
        return ("const", op.types, value.dtype.str, where["data"][0], where["strides"])
    if op.kind == "input":
        return op
    params = op.params
    key = tuple([(name, repr(v) if type(v) is float else v) for name, v in params.items()]) if params else ()
    return (op.kind, tuple(op.inputs.items()), key)
