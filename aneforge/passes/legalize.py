"""From any program to one that a target's compiler takes, or the list of what it does not take.

Rules bring each Op into a known form (`forms`, `kernels`, `slices`, and what `layout` tidies up after them); then
every Op is judged (`limits`), and the ports. What the rules cannot mend is a Violation, with the nodes of the model
that it stands for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from .. import ops
from ..errors import AneforgeError, Reason
from ..ir import Op, Origin, Program, Rule, RuleSet, Tensor, Uses, const, rewrite, topological
from ..targets import Target
from . import arithmetic, attention, extremes, forms, kernels, layout, slices
from .extremes import lost
from .hazards import hazard, hazard_at_output
from .limits import refusal
from .masks import mask_clamp
from .match import ROUNDING


@dataclass(frozen=True)
class Violation:
    """One thing that the target does not take: `what` (the Op, with its types), why, and the nodes of the model behind
    it.
    """

    op: Op
    what: str
    why: Reason
    origins: Origin

    def __str__(self) -> str:
        nodes = f" (from {', '.join(sorted(map(str, self.origins)))})" if self.origins else ""
        return f"{self.what}: {self.why}{nodes}"


class LegalizeError(AneforgeError):
    """A program has no form that the target takes. `violations` lists every reason."""

    def __init__(self, target: Target, violations: Sequence[Violation]) -> None:
        self.violations = tuple(violations)
        lines = "\n".join(f"  {v}" for v in self.violations)
        super().__init__(f"{len(self.violations)} operations do not run on {target.chips} ({target.name}):\n{lines}")


@lru_cache(maxsize=32)
def _rules(target: Target, fused: bool = False) -> RuleSet:
    own = {forms.attention: attention.beyond(target)} if fused else {}
    return RuleSet(
        (
            mask_clamp,
            *(own.get(rule, rule) for rule in forms.RULES),
            *kernels.RULES,
            *kernels.window_rules(target),
            *slices.RULES,
            *slices.target_rules(target),
            *extremes.RULES,
            *extremes.target_rules(target),
            arithmetic.constant_layout,
            *layout.RULES,
        )
    )


def rules_of(target: Target) -> tuple[Rule, ...]:
    """The rules that bring a program into the target's forms, in order."""
    return _rules(target).rules


def legalized(program: Program, target: Target, fused: bool = False) -> tuple[Program, list[Violation]]:
    """The program in the target's forms, and what is left that it does not take. `fused`: see `legalize`."""
    program, _ = rewrite(program, _rules(target, fused))
    program = _ports(program)
    return program, violations(program, target)


def legalize(program: Program, target: Target, fused: bool = False) -> Program:
    """The program in the target's forms. `fused`: the engine's attention stays where it is known to be right.

    Raises:
        LegalizeError: something has no form there; it lists every such Op.
    """
    program, found = legalized(program, target, fused)
    if found:
        raise LegalizeError(target, found)
    return program


def violations(program: Program, target: Target) -> list[Violation]:
    """What the target does not take of a program as it stands."""
    found: list[Violation] = []
    for op in program.ops:
        why = refusal(op, target) or lost(op) or hazard(op, target)
        if why is not None:
            found.append(Violation(op, f"{op.kind} -> {', '.join(map(str, op.types))}", why, program.origins(op)))
    for role, ports in (("input", program.inputs), ("output", program.outputs)):
        for name, tensor in ports:
            why = _port(role, name, tensor) or (hazard_at_output(name, tensor) if role == "output" else None)
            if why is not None:
                found.append(Violation(tensor.op, f"{role} {name!r}", why, program.origins(tensor.op)))
    return found


def _port(role: str, name: str, tensor: Tensor) -> Reason | None:
    if tensor.dtype != "fp16" and (role, tensor.dtype) != ("input", "uint8"):
        return Reason("data type", f"{role} {name!r} is {tensor.dtype}: the engine's ports are fp16 (and uint8 inputs)")
    if role == "output" and tensor.is_const:
        return Reason("policy", f"output {name!r} is a constant: there is nothing to compute")
    return None


def _ports(program: Program) -> Program:
    """Gives every output an Op of its own: one that is an input, or another output too, crashes the compiler (Q29)."""
    while True:
        last: dict[Tensor, Tensor] = {}
        outputs = []
        for name, tensor in program.outputs:
            own = last.get(tensor, tensor)
            if own.dtype == "fp16" and not own.is_const and (own.op.kind == "input" or tensor in last):
                marks = program.origins(own.op) or frozenset({name})
                own = Op("mul", {"x": own, "y": _one(own)}, {}, (own.type,), marks).outputs[0]
            last[tensor] = own
            outputs.append((name, own))
        if all(own is tensor for (_, own), (_, tensor) in zip(outputs, program.outputs, strict=True)):
            return program
        program = Program(program.inputs, outputs, program.origin_table)  # equal products are one again: look once more


def _one(x: Tensor) -> Tensor:
    """A factor of 1, full where a scalar would be dropped (Q15)."""
    return const(ops.filled(x.shape, 1.0) if x.op.kind in ROUNDING else 1.0)


def check_node(outputs: Sequence[Tensor], inputs: Collection[Tensor], target: Target) -> Reason | None:
    """Why the part of a graph between `inputs` and `outputs` does not run on the target; None if it does.

    For one node of a model: cheap where everything is in a known form already, which is the rule.
    """
    given = frozenset(inputs)
    rules = _rules(target)
    uses = Uses()
    plain = True
    for op in topological(outputs, at=given):
        if op.is_leaf:
            continue
        if rules.fires(op, uses) or _refusal(op, target) is not None:
            plain = False
            break
    for tensor in given:
        why = _extent_of_input(tensor, target)
        if why is not None:
            return why
    if plain:
        return None
    wanted = [out for out in outputs if out not in given and not out.op.is_leaf]
    leaves = [t for t in dict.fromkeys(inputs) if not t.is_const]
    program = Program.cut(
        [(f"x{i}", t) for i, t in enumerate(leaves)], [(f"y{i}", t) for i, t in enumerate(dict.fromkeys(wanted))]
    )
    program, _ = rewrite(program, rules)
    return next((why for op in program.ops if (why := _refusal(op, target)) is not None), None)


def _refusal(op: Op, target: Target) -> Reason | None:
    """What is wrong with `op`, seen alone: whether it is part of a mask, only the whole region shows."""
    return refusal(op, target) or lost(op, maybe_mask=True)


def _extent_of_input(tensor: Tensor, target: Target) -> Reason | None:
    if tensor.is_const or tensor.op.kind == "input":
        return None if tensor.is_const else refusal(tensor.op, target)
    return None
