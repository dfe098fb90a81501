"""From an imported graph to compiled regions: what is claimed is compiled already, for a claim cannot be taken back."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from aneforge import passes, pipeline
from aneforge.errors import CompileError, Reason
from aneforge.ir import Tensor
from aneforge.onnx.importer import Imported
from aneforge.options import Options
from aneforge.partitioner import Node, Region, partition, split
from aneforge.pipeline import Compiled, Lowered
from aneforge.targets import Target

log = logging.getLogger("aneforge.provider")


@dataclass
class Budget:
    """How much failing compilation a session puts up with. The engine's compiler can be slow, and a failure may
    slow down the next; the host backend's is neither."""

    failures: int | None = None
    seconds: float | None = None

    @classmethod
    def of_engine(cls) -> Budget:
        return cls(3, 60.0)

    def spent(self) -> bool:
        return (self.failures is not None and self.failures <= 0) or (self.seconds is not None and self.seconds <= 0)

    def failed(self, seconds: float) -> None:
        if self.failures is not None:
            self.failures -= 1
        if self.seconds is not None:
            self.seconds -= seconds


@dataclass(frozen=True)
class CompiledRegion:
    region: Region
    compiled: Compiled


@dataclass
class Lowering:
    """One graph on its way. `regions` is the result; `reasons` holds one for every node that is in none of them (those
    given beforehand keep their nodes out)."""

    imported: Imported
    options: Options
    target: Target
    budget: Budget
    regions: list[CompiledRegion] = field(default_factory=list)
    reasons: dict[int, Reason] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    bugs: list[str] = field(default_factory=list)
    _lowered: dict[Region, Lowered] = field(default_factory=dict)

    def run(self) -> None:
        self.reasons = {n.index: n.reason for n in self.imported.nodes if n.reason is not None} | self.reasons
        start = time.perf_counter()
        regions = self._settle()
        middle = time.perf_counter()
        for region in regions:
            self.regions += self._compile(region)
        self.seconds |= {"partition and lower": middle - start, "compile": time.perf_counter() - middle}
        claimed = {i for made in self.regions for i in made.region.nodes}
        for node in self.imported.nodes:
            if node.index not in claimed and node.status == "free":
                self.reasons[node.index] = Reason(
                    "policy", "its result is known in advance and is needed outside regions"
                )
        self._lowered.clear()

    # ------------------------------------------------------------ regions that are legal

    def _settle(self) -> list[Region]:
        """Regions whose programs are legal for the target. A node that the target does not take is put off the engine,
        and the graph is divided anew, until nothing changes."""
        while True:
            divided = partition(
                self._nodes(),
                self.imported.view.outputs,
                self.options.min_nodes,
                keep_layout=self._all,
                keep_crumbs=self._all,
            )
            refused: dict[int, Reason] = {}
            for region in divided.regions:
                refused |= self._lower(region)
            self._lowered = {region: self._lowered[region] for region in divided.regions if region in self._lowered}
            if not refused:
                self.reasons |= {i: Reason("policy", why) for i, why in divided.released.items()}
                return list(divided.regions)
            self.reasons |= refused

    @property
    def _all(self) -> bool:
        return self.options.partition == "all"

    def _nodes(self) -> list[Node]:
        """The graph as the partitioner sees it; what a node's bodies read counts as its inputs."""
        view = self.imported.view
        return [
            Node(
                node.index,
                (*seen.inputs, *seen.implicit),
                seen.outputs,
                "cpu" if node.index in self.reasons else node.status,
                node.macs,
                node.layout,
            )
            for node, seen in zip(self.imported.nodes, view.nodes, strict=True)
        ]

    def _lower(self, region: Region) -> dict[int, Reason]:
        """Lowers a region; returns the nodes that are in the way, with reasons."""
        if region in self._lowered:
            return {}
        values = self.imported.values
        inputs = [name for name in region.inputs if isinstance(values.get(name), Tensor)]
        if not region.outputs:
            return self._release(region, Reason("policy", "nobody reads what it computes"))
        if stuck := self._stuck(region):
            return stuck
        try:
            program = self.imported.region(region.nodes, inputs, region.outputs)
            self._lowered[region] = pipeline.lower(program, self.options, self.target)
        except passes.LegalizeError as error:
            refused: dict[int, Reason] = {}
            for violation in error.violations:
                reason = Reason(violation.why.kind, f"{violation.what}: {violation.why}")
                refused |= {i: reason for i in violation.origins if i in region.nodes and self._on_engine(i)}
            return refused or self._release(region, Reason("limit", str(error)))
        except Exception as error:  # a bug must not cost the user the session, nor the other regions
            return self._release(region, self._bug(region, error))
        return {}

    def _stuck(self, region: Region) -> dict[int, Reason]:
        """Members with an input that cannot enter the region or an output that cannot leave it: more axes than the
        engine has, a constant (only computed floats leave a program), or a
        tensor of another shape than the graph declares (ONNX's inference is wrong for some windows; onnxruntime would
        not take the tensor from a fused node)."""
        view = self.imported.view
        producer: dict[str, int] = {}
        for i in region.nodes:
            producer |= dict.fromkeys(view.nodes[i].outputs, i)
        found: dict[int, Reason] = {}
        for name in (*region.inputs, *region.outputs):
            if (why_not := self.imported.cannot_cross(name)) is not None:
                read = [i for i in region.nodes if name in view.nodes[i].inputs]
                found |= dict.fromkeys(read if name in region.inputs else [producer[name]], why_not)
        if found:
            return {i: reason for i, reason in found.items() if self._on_engine(i)}
        for name in region.outputs:
            value, declared = self.imported.values.get(name), view.values[name].shape
            if isinstance(value, np.ndarray) or (isinstance(value, Tensor) and value.is_const):
                found[producer[name]] = Reason("policy", f"its output {name!r} is a constant that is needed outside")
            elif isinstance(value, Tensor) and declared is not None and not _agrees(declared, value.shape):
                why = f"its output {name!r} has the shape {list(value.shape)}, and the graph declares {list(declared)}"
                found[producer[name]] = Reason("policy", why)
        return found

    def _on_engine(self, index: int) -> bool:
        return self.imported.nodes[index].status == "engine" and index not in self.reasons

    def _release(self, region: Region, reason: Reason) -> dict[int, Reason]:
        return {i: reason for i in region.nodes if self._on_engine(i)}

    def _bug(self, region: Region, error: Exception) -> Reason:
        first = self.imported.nodes[region.nodes[0]]
        text = f"{type(error).__name__}: {error}"
        self.bugs.append(text)
        log.warning("a bug of aneforge: the region of %d nodes at %s %r stays on the CPU: %s",
                    len(region.nodes), first.op, first.name, text)  # fmt: skip
        log.debug("traceback", exc_info=error)
        return Reason("bug", text)

    # ------------------------------------------------------------ compiling

    def _compile(self, region: Region) -> Iterator[CompiledRegion]:
        """Compiles a region; if that fails, its two halves, once; what then fails is released."""
        why = self._attempt(region)
        if isinstance(why, Compiled):
            yield CompiledRegion(region, why)
            return
        parts = () if self.budget.spent() else split(self._nodes(), self.imported.view.outputs, region)
        left = set(region.nodes)
        for part in parts:
            in_the_way = self._lower(part)
            made = next(iter(in_the_way.values())) if in_the_way else self._attempt(part)
            if isinstance(made, Compiled):
                yield CompiledRegion(part, made)
                left -= set(part.nodes)
            else:
                why = made
        self.reasons |= {i: why for i in left if self._on_engine(i)}

    def _attempt(self, region: Region) -> Compiled | Reason:
        if self.budget.spent():
            return Reason("compile", "the session has used up its allowance of failed compilations")
        start = time.perf_counter()
        try:
            return pipeline.finish(self._lowered.pop(region), self.options, self.target)
        except CompileError as error:
            self.budget.failed(time.perf_counter() - start)
            return Reason("compile", str(error))
        except Exception as error:
            return self._bug(region, error)


def _agrees(declared: tuple[int | str | None, ...], shape: tuple[int, ...]) -> bool:
    return len(declared) == len(shape) and all(
        d == s for d, s in zip(declared, shape, strict=True) if isinstance(d, int)
    )
