"""From a Program to something that runs: rewrite, legalize, write, compile. Every road goes through here."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import backends, engine_time, mil, passes
from .backends import Executable
from .ir import Fired, Notes, Op, Origin, Program
from .options import Options
from .passes.optimize import chosen
from .targets import Target


@dataclass(frozen=True)
class RuleNote:
    """What a rewrite rule did with nodes of the model.

    Attributes:
        what: "fired", "block" (it knows them by name and had nothing to rewrite), or "nearly".
        condition: for "nearly", what failed; else "".
        nodes: positions in the graph (names, where the program was written by hand).
    """

    rule: str
    what: str
    condition: str
    nodes: tuple[int | str, ...]


@dataclass(frozen=True)
class Lowered:
    """A program as the target takes it, not yet compiled.

    Attributes:
        fired: names of the rewrite rules that fired, and how often; blocks that a rule knows count too.
        notes: where, and where they nearly did.
        seconds: time of each stage so far.
        risks: what may go wrong for some inputs, from the ranges of values.
    """

    program: Program
    fired: Mapping[str, int]
    notes: tuple[RuleNote, ...]
    seconds: Mapping[str, float]
    risks: tuple[passes.Risk, ...] = ()


@dataclass(frozen=True)
class Compiled:
    """A compiled program, and what is worth telling about it.

    Attributes:
        executable: runs it; its ports carry the names of the program's inputs and outputs.
        n_ops: operations of the program as compiled, constants and packed weights not counted.
        fired, notes, seconds, risks: as in `Lowered`.
        estimate_us: estimated microseconds of one run on the target's engine (never measured).
        weights: what became of each weight, if compression was asked for.
        weight_bytes: of all constants, before and after it.
    """

    executable: Executable
    n_ops: int
    fired: Mapping[str, int]
    notes: tuple[RuleNote, ...]
    seconds: Mapping[str, float]
    estimate_us: float
    risks: tuple[passes.Risk, ...] = ()
    weights: tuple[passes.Weight, ...] = ()
    weight_bytes: tuple[int, int] = (0, 0)


def check_effective(options: Options) -> None:
    """Raises NotImplementedError for an option that is known but has no effect in this release (none is ignored), and
    OptionError for rules that `opt` names and that do not exist."""
    if options.opt in ("1", "2", "max"):
        raise NotImplementedError(
            f"option 'opt': {options.opt} (choosing forms by cost, or by measuring) is not effective in this release; "
            "there are routes, 0, and rules to switch off"
        )
    chosen(options.opt)


def compile_program(program: Program, options: Options, target: Target) -> Compiled:
    """Rewrites and legalizes `program` for `target`, writes it down, and compiles it with the backend of `options`.

    Inputs that nothing reads are dropped: the executable's ports are the truth.

    Raises:
        LegalizeError: some operations are outside the target's vocabulary or limits; it lists them with their origins.
        CompileError: the backend does not take the program.
        BackendUnavailableError, OptionError: the options ask for a backend that is not here.
    """
    return finish(lower(program, options, target), options, target)


def lower(program: Program, options: Options, target: Target) -> Lowered:
    """The first half of `compile_program`: up to a legal program."""
    start = time.perf_counter()
    said = Notes()
    fused = passes.engine_form(target) if options.fuse_attention else None
    program, fired = passes.optimize(_without_idle_inputs(program), options.opt, said, fused)
    middle = time.perf_counter()
    program = passes.legalize(program, target, fused is not None)
    program, risks = passes.leave_headroom(_without_idle_inputs(program), target)
    end = time.perf_counter()
    notes = _notes(fired, said)
    counts: dict[str, int] = {}
    for note in notes:
        if note.what != "nearly":
            counts[note.rule] = counts.get(note.rule, 0) + 1
    return Lowered(program, counts, notes, {"optimize": middle - start, "legalize": end - middle}, tuple(risks))


def in_advance(program: Program, target: Target) -> dict[str, NDArray[np.float32]]:
    """The outputs that depend on no input, computed once: an engine's program needs an input, and its outputs must need one too.
    Raises as `compile_program` does."""
    moving = set[Op]()
    for op in program.ops:
        if op.kind == "input" or any(source.op in moving for source in op.sources):
            moving.add(op)
    still = [(name, tensor) for name, tensor in program.outputs if tensor.op not in moving]
    if not still:
        return {}
    here = Options(backend="host", numerics="fp32")
    executable = compile_program(Program([], still, program.origin_table), here, target).executable
    arrays = executable.run([], [np.float32] * len(still))
    executable.release()
    return {name: array for (name, _), array in zip(still, arrays, strict=True)}


def _notes(fired: list[Fired], said: Notes) -> tuple[RuleNote, ...]:
    """In words and numbers, which keep no program alive."""
    return (
        *(RuleNote(rule.name, "fired", "", _nodes(origin)) for rule, origin in fired),
        *(RuleNote(rule.name, "block", "", _nodes(origin)) for rule, origin in said.blocks),
        *(RuleNote(near.rule.name, "nearly", near.condition, _nodes(near.origin)) for near in said.near),
    )


def _nodes(origin: Origin) -> tuple[int | str, ...]:
    return tuple(sorted(origin, key=lambda mark: (isinstance(mark, str), mark)))


def finish(lowered: Lowered, options: Options, target: Target) -> Compiled:
    """The second half of `compile_program`: text, blob, executable."""
    program = lowered.program
    weights: tuple[passes.Weight, ...] = ()
    risks, seconds = lowered.risks, dict(lowered.seconds)
    before = passes.stored_bytes(program)
    start = time.perf_counter()
    if options.compress != "none":
        program, weights, more = passes.compress(
            program, target, options.compress, options.compress_atol, options.block_size
        )
        risks += more
        seconds["compress"] = time.perf_counter() - start
        start = time.perf_counter()
    written = mil.write(program, options.numerics)
    middle = time.perf_counter()
    executable = backends.compile(written, options, target)
    end = time.perf_counter()
    seconds |= {"write": middle - start, "compile": end - middle}
    n_ops = sum(not op.is_leaf and not op.kind.startswith("constexpr_") for op in program.ops)
    estimate = engine_time.microseconds(program, target)
    sizes = before, passes.stored_bytes(program)
    return Compiled(executable, n_ops, lowered.fired, lowered.notes, seconds, estimate, risks, weights, sizes)


def _without_idle_inputs(program: Program) -> Program:
    used = [(name, tensor) for name, tensor in program.inputs if program.uses(tensor)]
    return program if len(used) == len(program.inputs) else Program(used, program.outputs, program.origin_table)
