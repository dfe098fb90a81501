"""What stands between a program and an engine: every violation, with the operation and the reason."""

from __future__ import annotations

from collections.abc import Sequence

from . import passes
from .errors import Reason
from .ir import Program, Tensor, topological
from .passes import Violation
from .targets import Target, resolve


def check(program: Program | Tensor | Sequence[Tensor], target: Target | str = "auto") -> list[Violation]:
    """Every reason why `program` does not run on the engine of `target`; empty when it does.

    A `Program` is judged as it stands. Tensors, a graph written by hand, are first brought into the target's forms, as
    `compile` does; what is left are the operations without a form.

    Args:
        target: "m1" … "m5", a compiler string ("h13" … "h18"), "auto" for this machine; need not be here.

    Raises:
        OptionError: an unknown target, or one that no program can be compiled for.
        ValueError: there are no tensors.
    """
    engine = resolve(target) if isinstance(target, str) else target
    if isinstance(program, Program):
        return [*passes.violations(program, engine), *_weights(program, engine)]
    outputs = [program] if isinstance(program, Tensor) else list(program)
    leaves = [op.outputs[0] for op in topological(outputs) if op.kind == "input"]
    whole = Program([(f"x{i}", t) for i, t in enumerate(leaves)], [(f"y{i}", t) for i, t in enumerate(outputs)])
    lowered, found = passes.legalized(passes.optimize(whole)[0], engine)
    return [*found, *_weights(lowered, engine)]


def _weights(program: Program, target: Target) -> list[Violation]:
    """One violation where the constants together are more than one program loads."""
    total, most = passes.stored_bytes(program), target.limits.program_weight_bytes
    if total <= most:
        return []
    last = program.outputs[0][1].op
    text = f"weights of {total / 1e9:.1f} GB: one program loads {most / 1e9:.1f} GB; keep parts of the model apart"
    return [Violation(last, "program", Reason("limit", text), program.origins(last))]
