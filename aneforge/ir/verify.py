"""Checks that a program is what it says: structure, and every Op's types against its type rule."""

from __future__ import annotations

from collections.abc import Callable

from .core import Op, Tensor, Type
from .program import Program

TypeRule = Callable[[Op], tuple[Type, ...]]
_rules: dict[str, TypeRule] = {}


def register_type_rule(kind: str, rule: TypeRule) -> None:
    """Tells `verify` how the result types of `kind` follow from operands and parameters. Called by the declarations in
    `ops`.
    """
    _rules[kind] = rule


def verify(program: Program) -> None:
    """Raises ValueError naming the first Op that is out of order, has no type rule, or has other types than its rule
    gives.
    """
    known: set[Tensor] = {tensor for _, tensor in program.inputs}
    for position, op in enumerate(program.ops):
        where = f"op {position} ({op.kind})"
        for source in op.sources:
            if source not in known:
                raise ValueError(f"{where} reads {source!r} before it is made")
        known.update(op.outputs)
        if op.is_leaf:
            continue
        rule = _rules.get(op.kind)
        if rule is None:
            raise ValueError(f"{where}: no operation of this name is declared")
        if (expected := rule(op)) != op.types:
            raise ValueError(f"{where}: its type is {_plain(op.types)}, by its rule {_plain(expected)}")
    for name, tensor in program.outputs:
        if tensor not in known:
            raise ValueError(f"output {name!r} is not made by the program")


def _plain(types: tuple[Type, ...]) -> str:
    return ", ".join(map(str, types))
