"""From a Program to something that runs: rewrite, legalize, write, compile. Every road goes through here."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from . import backends, engine_time, mil, passes
from .backends import Executable
from .ir import Program
from .options import Options
from .passes.optimize import chosen
from .targets import Target


@dataclass(frozen=True)
class Lowered:
    """A program as the target takes it, not yet compiled.

    Attributes:
        fired: names of the rewrite rules that fired, and how often.
        seconds: time of each stage so far.
        risks: what may go wrong for some inputs, from the ranges of values.
    """

    program: Program
    fired: Mapping[str, int]
    seconds: Mapping[str, float]
    risks: tuple[passes.Risk, ...] = ()


@dataclass(frozen=True)
class Compiled:
    """A compiled program, and what is worth telling about it.

    Attributes:
        executable: runs it; its ports carry the names of the program's inputs and outputs.
        n_ops: operations of the program as compiled, constants not counted.
        fired, seconds, risks: as in `Lowered`.
        estimate_us: estimated microseconds of one run on the target's engine (never measured).
    """

    executable: Executable
    n_ops: int
    fired: Mapping[str, int]
    seconds: Mapping[str, float]
    estimate_us: float
    risks: tuple[passes.Risk, ...] = ()


def check_effective(options: Options) -> None:
    """Raises NotImplementedError for an option that is known but has no effect in this release (none is ignored), and
    OptionError for rules that `opt` names and that do not exist."""
    if options.opt in ("1", "2", "max"):
        raise NotImplementedError(
            f"option 'opt': {options.opt} (choosing forms by cost, or by measuring) is not effective in this release; "
            "there are routes, 0, and rules to switch off"
        )
    chosen(options.opt)
    if options.fuse_attention:
        raise NotImplementedError("option 'fuse_attention' is not effective in this release")
    if options.cache_dir:
        raise NotImplementedError("option 'cache_dir' is not effective in this release: no program is kept on disk")
    if options.compile_guard == "on":
        raise NotImplementedError("option 'compile_guard' is not effective in this release: no backend needs one yet")


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
    program, fired = passes.optimize(_without_idle_inputs(program), options.opt)
    middle = time.perf_counter()
    program = passes.halved(_without_idle_inputs(passes.legalize(program, target)), target)
    risks = tuple(passes.risks(program, target))
    end = time.perf_counter()
    counts: dict[str, int] = {}
    for rule, _ in fired:
        counts[rule.name] = counts.get(rule.name, 0) + 1
    return Lowered(program, counts, {"optimize": middle - start, "legalize": end - middle}, risks)


def finish(lowered: Lowered, options: Options, target: Target) -> Compiled:
    """The second half of `compile_program`: text, blob, executable."""
    program = lowered.program
    start = time.perf_counter()
    written = mil.write(program, options.numerics)
    middle = time.perf_counter()
    executable = backends.compile(written, options, target)
    end = time.perf_counter()
    seconds = {**lowered.seconds, "write": middle - start, "compile": end - middle}
    n_ops = sum(not op.is_leaf for op in program.ops)
    estimate = engine_time.microseconds(program, target)
    return Compiled(executable, n_ops, lowered.fired, seconds, estimate, lowered.risks)


def _without_idle_inputs(program: Program) -> Program:
    used = [(name, tensor) for name, tensor in program.inputs if program.uses(tensor)]
    return program if len(used) == len(program.inputs) else Program(used, program.outputs, program.origin_table)
