"""One lowered program with every value read out, in three ways at once.

*reference*: fp32 all along. *accumulated*: the engine's arithmetic all along. *local*: the engine's arithmetic on the
reference's values, rounded to fp16; what is wrong there is born there. The three go through the program in blocks, so
that only what is still needed is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .. import backends, ir, mil, ops
from ..ir import Op, Program, Tensor
from ..options import Options
from ..targets import Target
from .causes import PRODUCTS, ROUNDING, Cause, cause
from .measure import HALF_MAX, Array, Error, error, peak

_BLOCK_BYTES = 48 << 20
_BLOCK_OPS = 400
NOWHERE = -1


@dataclass
class Step:
    """What one node of the model became, with those that it was fused with.

    Attributes:
        nodes: indices of the nodes of the model.
        kinds: MIL operations.
        arrived: worst error of the values that it reads, along the engine's path.
        accumulated: worst error of the values that it gives, along the engine's path.
        local: the same, computed from right values.
        beyond: one of the values that it reads is beyond fp16's range in fp32.
        peak, product_peak: largest sizes of its values, inner ones included; of sums of products.
        lost: the engine's path has an infinity or NaN here, fp32 has numbers.
        shape: of its first value.
    """

    nodes: set[int] = field(default_factory=set)
    kinds: list[str] = field(default_factory=list)
    arrived: Error = field(default_factory=Error)
    accumulated: Error = field(default_factory=Error)
    local: Error = field(default_factory=Error)
    beyond: bool = False
    peak: float = 0.0
    product_peak: float = 0.0
    lost: bool = False
    shape: tuple[int, ...] = ()
    cause: Cause | None = None


class Trace:
    """A program on its way. After `run`: `steps`, in the program's order, and the outputs of two of the three ways."""

    def __init__(self, program: Program, options: Options, target: Target, tolerance: float) -> None:
        self._program, self._target, self._tolerance = program, target, tolerance
        self._fp32 = replace(options, numerics="fp32", backend="host")
        self._engine = replace(options, numerics="engine", backend="host")
        self._ops = [op for op in program.ops if not op.is_leaf]
        self._reference: dict[Tensor, Array] = {}
        self._accumulated: dict[Tensor, Array] = {}
        self._errors: dict[Tensor, Error] = {}
        self._peaks: dict[Tensor, float] = {}
        self._steps: dict[int, Step] = {}

    def run(self, feeds: Mapping[str, tuple[Array, Array]]) -> None:
        """Computes all. `feeds`: for each input its reference and what the engine's path has there."""
        for name, tensor in self._program.inputs:
            right, given = (array.reshape(tensor.shape) for array in feeds[name])
            self._note(tensor, right.astype(np.float32) if right.dtype.kind in "fb" else right, given)
        last = self._last_readers()
        for block in self._blocks():
            self._run(block)
            for tensor in [t for t in self._reference if last.get(t, NOWHERE) <= self._place[block[-1]]]:
                del self._reference[tensor], self._accumulated[tensor]

    @property
    def steps(self) -> list[Step]:
        return list(self._steps.values())

    def outputs(self) -> dict[str, tuple[Array, Array]]:
        """By name: the reference, and the engine's path."""
        return {name: (self._reference[t], self._accumulated[t]) for name, t in self._program.outputs}

    def _last_readers(self) -> dict[Tensor, int]:
        self._place = {op: i for i, op in enumerate(self._ops)}
        last: dict[Tensor, int] = {}
        for i, op in enumerate(self._ops):
            last |= dict.fromkeys(op.sources, i)
        last |= dict.fromkeys((t for _, t in self._program.outputs), len(self._ops))
        return last

    def _blocks(self) -> Iterator[list[Op]]:
        """Stretches of the program; cut where the next node of the model begins, if that comes soon."""
        block: list[Op] = []
        size = 0
        for op in self._ops:
            fresh = not block or self._owner(op) != self._owner(block[-1])
            if block and (size > _BLOCK_BYTES or len(block) >= _BLOCK_OPS) and (fresh or size > 2 * _BLOCK_BYTES):
                yield block
                block, size = [], 0
            block.append(op)
            size += sum(4 * t.type.size for t in op.outputs)
        if block:
            yield block

    def _owner(self, op: Op) -> int:
        """The node of the model that `op` belongs to: the last of those that it stands for."""
        return max((o for o in self._program.origins(op) if isinstance(o, int)), default=NOWHERE)

    def _note(self, tensor: Tensor, right: Array, got: Array) -> None:
        self._reference[tensor], self._accumulated[tensor] = right, got
        self._errors[tensor] = _apart(tensor, got, right)
        self._peaks[tensor] = peak(right)

    # ------------------------------------------------------------ one block

    def _run(self, block: Sequence[Op]) -> None:
        inside = set(block)
        outside = list(dict.fromkeys(s for op in block for s in op.sources if not s.is_const and s.op not in inside))
        made = [t for op in block for t in op.outputs]
        ports = [_port(i, t) for i, t in enumerate(outside)]
        mapping = {t: _typed(port, t) for t, port in zip(outside, ports, strict=True)}
        program = _program(ports, ir.substitute([_readable(t) for t in made], mapping))
        right = self._execute(program, [self._reference[t] for t in outside], self._fp32)
        got = self._execute(program, [self._accumulated[t] for t in outside], self._engine)
        for tensor, r, g in zip(made, right, got, strict=True):
            self._note(tensor, r.reshape(tensor.shape), g.reshape(tensor.shape))
        local = self._local(block)
        for op in block:
            self._judge(op, local)
        self._explain(block)

    def _local(self, block: Sequence[Op]) -> dict[Tensor, Error]:
        """Errors of what each node of the model makes of right inputs, rounded to fp16."""
        shadows: dict[Tensor, Tensor] = {}
        ports: dict[Tensor, Tensor] = {}
        owners = {op: self._owner(op) for op in block}
        visible = self._visible(block, owners)
        for op in block:
            sources = []
            for s in op.sources:
                if s.is_const:
                    sources.append(s)
                elif s in shadows and owners[s.op] == owners[op]:
                    sources.append(shadows[s])
                else:
                    port = ports.setdefault(s, _port(len(ports), s))
                    sources.append(_typed(port, s))
            shadows |= dict(zip(op.outputs, op.with_sources(sources).outputs, strict=True))
        program = _program(list(ports.values()), [_readable(shadows[t]) for t in visible])
        got = self._execute(program, [self._reference[t] for t in ports], self._engine)
        return {t: _apart(t, g.reshape(t.shape), self._reference[t]) for t, g in zip(visible, got, strict=True)}

    def _visible(self, block: Sequence[Op], owners: Mapping[Op, int]) -> list[Tensor]:
        """What other nodes of the model, later blocks or the caller read."""
        read = {t for _, t in self._program.outputs}
        for op in self._ops:
            if op in owners:
                read.update(s for s in op.sources if owners.get(s.op) != owners[op])
            else:
                read.update(op.sources)
        return [t for op in block for t in op.outputs if t in read]

    def _execute(self, program: Program, arrays: Sequence[Array], options: Options) -> list[Array]:
        executable = backends.compile(mil.write(program, options.numerics), options, self._target)
        try:
            return executable.execute([np.ascontiguousarray(a.reshape(a.shape or (1,))) for a in arrays])[0]
        finally:
            executable.release()

    def _judge(self, op: Op, local: Mapping[Tensor, Error]) -> None:
        owner = self._owner(op)
        step = self._steps.setdefault(owner, Step())
        step.nodes |= {o for o in self._program.origins(op) if isinstance(o, int)}
        step.kinds.append(op.kind)
        step.shape = step.shape or op.outputs[0].shape
        for source in op.sources:
            if not source.is_const and (source.op.is_leaf or self._owner(source.op) != owner):
                step.arrived = step.arrived.worst(self._errors[source])
                step.beyond |= self._peaks[source] > HALF_MAX
        for tensor in op.outputs:
            right, got = self._reference[tensor], self._accumulated[tensor]
            largest = self._peaks[tensor]
            step.peak = max(step.peak, largest)
            if op.kind in PRODUCTS:
                step.product_peak = max(step.product_peak, largest)
            step.lost |= bool(np.isfinite(right).all() and not np.isfinite(got).all())
            if tensor in local:
                step.local = step.local.worst(local[tensor])
                step.accumulated = step.accumulated.worst(self._errors[tensor])

    def _explain(self, block: Sequence[Op]) -> None:
        for op in block:
            step = self._steps[self._owner(op)]
            if step.local.relative >= self._tolerance:
                found = cause(op, self._reference) or ROUNDING
                step.cause = found if found.worse_than(step.cause) else step.cause


def _apart(tensor: Tensor, got: Array, right: Array) -> Error:
    return error(got != 0, right != 0) if tensor.dtype == "bool" else error(got, right)


def _port(index: int, tensor: Tensor) -> Tensor:
    """An input for a value; ports have a rank of 1 and more."""
    return ir.input(f"i{index}", tensor.shape or (1,), "uint8" if tensor.dtype == "uint8" else "fp16")


def _typed(port: Tensor, tensor: Tensor) -> Tensor:
    """What `tensor` was, from its port."""
    x = port if tensor.shape else ops.squeeze(port, (0,))
    return ops.as_bool(x) if tensor.dtype == "bool" else x


def _readable(tensor: Tensor) -> Tensor:
    """What a port takes of `tensor`."""
    x = ops.as_mask(tensor) if tensor.dtype == "bool" else tensor
    return x if x.shape else ops.expand_dims(x, (0,))


def _program(ports: Sequence[Tensor], outputs: Sequence[Tensor]) -> Program:
    return Program(
        [(port.op.params["name"], port) for port in ports], [(f"o{i}", tensor) for i, tensor in enumerate(outputs)]
    )
