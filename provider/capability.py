"""The hook that ONNX Runtime reaches while it builds a session: which nodes of this graph does the engine take?

It answers with compiled regions. Two things are loud, an option that is wrong and `strict`: their text becomes the
error of the session. Nothing else is: whatever goes wrong here, the session is made, on the CPU, and its report
says why.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import onnx

from aneforge import backends, passes, pipeline
from aneforge.backends import native
from aneforge.errors import BackendUnavailableError, OptionError, Reason, RefusedNode, UnsupportedModelError
from aneforge.onnx.importer import Imported, import_graph
from aneforge.onnx.view import from_bytes
from aneforge.options import Options
from aneforge.targets import Target, resolve

from . import records
from .lowering import Budget, Lowering
from .records import GraphRecord, NodeRecord, RegionRecord, SessionRecord
from .registration import NAME
from .reports import build, write_json

log = logging.getLogger("aneforge.provider")


def capability(ep: int, parent_op: str, model_path: str, model: bytes, options: dict[str, str]) -> dict[str, Any]:
    """See native/core/c_api.h (AfGraph, AfCapability) for what is told and returned.

    Args:
        ep: number of the provider instance.
        parent_op: "" for the main graph, else the operator whose body this is.
        model: a serialized ModelProto; large weights by address, valid during this call.
        options: the session's options for this provider.
    """
    record = records.of(ep, native.load().live_eps)
    absent = ""
    try:
        parsed = Options.parse(options)
        pipeline.check_effective(parsed)
        record.word = backends.word(parsed)
    except (OptionError, NotImplementedError) as error:
        return {"regions": [], "compile_error": f"ANEForgeProvider: {error}"}
    except BackendUnavailableError as error:
        if parsed.backend != "auto" or parsed.strict:
            return {"regions": [], "compile_error": f"ANEForgeProvider: {error}"}
        record.word, absent = backends.CPU, str(error)  # a Mac without an engine: the session lives, and says so
    overflow = parsed.on_overflow if "on_overflow" in options else ("error" if parsed.strict else "warn")
    target = resolve(parsed.target)
    record.target, record.chips = target.name, target.chips
    record.options = {**vars(parsed), "dims": dict(parsed.dims), "input_shapes": dict(parsed.input_shapes)}
    try:
        answer = _answer(record, parent_op, model_path, model, parsed, target, absent)
    except OptionError as error:
        return {"regions": [], "compile_error": f"ANEForgeProvider: {error}"}
    except Exception as error:  # a bug must not cost the user the session
        text = f"a bug of aneforge keeps this graph on the CPU: {type(error).__name__}: {error}"
        log.warning("%s", text)
        log.debug("traceback", exc_info=error)
        key = record.key(parent_op, ())
        record.add(key, GraphRecord(record.label(key), parent_op, (), (), {}, (text,)))
        answer = {"regions": [], "warning": text}
        if parsed.strict:
            answer["compile_error"] = f"ANEForgeProvider: strict=1: {text}"
    return {**answer, "on_overflow": overflow}


def _answer(
    record: SessionRecord,
    parent_op: str,
    model_path: str,
    model: bytes,
    options: Options,
    target: Target,
    absent: str,
) -> dict[str, Any]:
    """`absent`: why there is no backend, when the graph is only to be reported on."""
    start = time.perf_counter()
    view = from_bytes(model, dict(options.dims), {} if parent_op else dict(options.input_shapes))
    read = time.perf_counter()
    imported = import_graph(view, options, target, passes.check_node)
    done = time.perf_counter()
    budget = Budget() if record.word == backends.HOST else Budget.of_engine()
    work = Lowering(imported, options, target, budget)
    taken = _taken(model)
    work.reasons |= {i: Reason("policy", f"{other} has taken it") for i, other in taken.items()}
    if absent:
        work.reasons |= {n.index: n.reason or Reason("policy", absent) for n in imported.nodes if n.status != "free"}
    work.run()
    key = record.key(parent_op, view.outputs)
    label = record.label(key)
    fused = {i for i, owner in taken.items() if owner == NAME}
    earlier = _earlier(record.before(key), [set(view.nodes[i].outputs) for i in fused])
    first = len(earlier.regions) if earlier else 0
    names = [f"{label}.{i}" if label else f"region {i}" for i in range(first, first + len(work.regions))]
    regions = [
        {
            "name": name,
            "nodes": list(made.region.nodes),
            "executable": made.compiled.executable.handle,
            "inputs": [port.name for port in made.compiled.executable.inputs],
            "outputs": [port.name for port in made.compiled.executable.outputs],
        }
        for name, made in zip(names, work.regions, strict=True)
    ]
    said = f"ANEForgeProvider: everything runs on the CPU: {absent}" if absent and not parent_op else ""
    warnings = [
        w for w in (said, *_unknown(options, parent_op, model, view.inputs), _dynamic(imported, parent_op)) if w
    ]
    seconds = {"read": read - start, "import": done - read, **work.seconds}
    graph = _record(label, parent_op, work, names, record.word, seconds, (*warnings, *_risks(work)))
    graph = replace(graph, nodes=tuple(n for n in graph.nodes if n.index not in fused))
    if earlier:
        graph = replace(
            graph,
            nodes=earlier.nodes + graph.nodes,
            regions=earlier.regions + graph.regions,
            warnings=tuple(dict.fromkeys((*earlier.warnings, *graph.warnings))),
        )
    record.add(key, graph)
    if options.report and not parent_op:
        try:
            write_json(build(record, None), options.report)
        except OSError as error:
            warnings.append(f"ANEForgeProvider: the report could not be written: {error}")
            record.add(key, replace(graph, warnings=(*graph.warnings, warnings[-1])))
    answer: dict[str, Any] = {"regions": regions, "warning": "\n".join(warnings) or None}
    if options.strict and (refused := _refused(work, parent_op, fused)):
        answer["compile_error"] = f"ANEForgeProvider: strict=1: {UnsupportedModelError(refused, model_path)}"
    # They must live until the provider has taken its own references, which it does with the answer in hand.
    answer["keep"] = [made.compiled.executable for made in work.regions]
    return answer


def _record(
    label: str,
    parent_op: str,
    work: Lowering,
    names: list[str],
    word: str,
    seconds: dict[str, float],
    warnings: tuple[str, ...],
) -> GraphRecord:
    home = {i: name for name, made in zip(names, work.regions, strict=True) for i in made.region.nodes}
    nodes = [
        NodeRecord(n.index, n.name, n.op, n.domain, n.macs, home.get(n.index),
                   None if n.index in home else work.reasons.get(n.index))
        for n in work.imported.nodes
    ]  # fmt: skip
    regions = [
        RegionRecord(
            name=name,
            word=made.compiled.executable.word,
            nodes=made.region.nodes,
            inputs=tuple(port.name for port in made.compiled.executable.inputs),
            outputs=tuple(port.name for port in made.compiled.executable.outputs),
            macs=made.region.macs,
            n_ops=made.compiled.n_ops,
            fired=made.compiled.fired,
            notes=made.compiled.notes,
            seconds=made.compiled.seconds,
            estimate_us=made.compiled.estimate_us,
            describe=made.compiled.executable.describe(),
            weight_bytes=made.compiled.weight_bytes,
            weights=made.compiled.weights,
        )
        for name, made in zip(names, work.regions, strict=True)
    ]
    return GraphRecord(label, parent_op, tuple(nodes), tuple(regions), seconds, warnings)


def _earlier(before: GraphRecord | None, fused: list[set[str]]) -> GraphRecord | None:
    """What is left of an earlier look at the same graph: its regions that ONNX Runtime has meanwhile put into single
    nodes (told by their outputs), and the nodes in them. ONNX Runtime looks again after it has inlined functions.
    """
    if before is None or not fused:
        return None
    regions = tuple(r for r in before.regions if any(outputs and outputs <= set(r.outputs) for outputs in fused))
    names = {r.name for r in regions}
    return replace(before, regions=regions, nodes=tuple(n for n in before.nodes if n.region in names))


def _risks(work: Lowering) -> list[str]:
    """What may go wrong for some inputs, by the ranges of values. For the report: no line in the log, since most inputs
    are not of that kind."""
    told = []
    for made in work.regions:
        for risk in made.compiled.risks:
            nodes = [work.imported.nodes[i] for i in sorted(i for i in risk.origins if isinstance(i, int))]
            told.append(f"{' + '.join(f'{n.op} {n.name!r}' for n in nodes)}: {risk.text}")
    return told


def _refused(work: Lowering, parent_op: str, fused: set[int]) -> list[RefusedNode]:
    """Every node that does not run on the engine, `fused` aside, which are regions of an earlier look. Values known in
    advance need no engine."""
    claimed = {i for made in work.regions for i in made.region.nodes} | fused
    refused = [
        RefusedNode(n.name, n.op, n.domain, work.reasons.get(n.index, Reason("policy", "not claimed")))
        for n in work.imported.nodes
        if n.index not in claimed and n.status != "free"
    ]
    if parent_op:  # the node whose body this is runs on the CPU, whatever the body does
        refused.append(RefusedNode("", parent_op, "", Reason("no engine form", "control flow runs on the CPU")))
    return refused


def _dynamic(imported: Imported, parent_op: str) -> str:
    """One warning when dimensions that are not fixed keep most of a graph off the engine."""
    reasons = [n.reason for n in imported.nodes if n.status != "free"]
    loose = sum(reason is not None and reason.kind == "dynamic shape" for reason in reasons)
    if parent_op or 2 * loose < max(1, len(reasons)):
        return ""
    values = [imported.view.values[name] for name in imported.view.inputs]
    shapes = [(v.name, v.shape) for v in values if v.shape is not None and not all(isinstance(d, int) for d in v.shape)]
    if not shapes:  # shapes that depend on data: nothing that the user could fix
        return ""
    shown = "; ".join(f"{name!r} [{', '.join('?' if d is None else str(d) for d in shape)}]" for name, shape in shapes)
    text = f"ANEForgeProvider: {loose} of {len(reasons)} nodes run on the CPU because their shapes are not fixed"
    symbols = {d for _, shape in shapes for d in shape if isinstance(d, str)}
    if not symbols:
        example = ";".join(f"{name}={'x'.join(str(d or 1) for d in shape)}" for name, shape in shapes)
        return (
            f"{text}: inputs {shown}. Fix them with "
            f'providers=[("ANEForgeProvider", {{"input_shapes": "{example}"}})] (with your extents).'
        )
    example = ",".join(f"{s}=1" for s in sorted(symbols))
    return (
        f"{text}: inputs {shown}. Fix them with "
        f'providers=[("ANEForgeProvider", {{"dims": "{example}"}})] (with your extents), or with '
        "SessionOptions.add_free_dimension_override_by_name."
    )


def _unknown(options: Options, parent_op: str, model: bytes, inputs: tuple[str, ...]) -> Iterator[str]:
    """A word in `dims` that the graph does not have anywhere, or a wrong name in `input_shapes`, is a slip of the pen."""
    if parent_op:
        return
    if dims := [name for name, _ in options.dims if name.encode() not in model]:
        yield f"ANEForgeProvider: dims: the graph has no dimension {', '.join(map(repr, dims))}"
    if names := [name for name, _ in options.input_shapes if name not in inputs]:
        yield f"ANEForgeProvider: input_shapes: the graph has no input {', '.join(map(repr, names))}"


def _taken(model: bytes) -> dict[int, str]:
    """Nodes that another provider has already: the native side marks them in their doc_string."""
    mark = "@ep:"
    if mark.encode() not in model:
        return {}
    graph = onnx.ModelProto.FromString(model).graph
    return {i: n.doc_string.removeprefix(mark) for i, n in enumerate(graph.node) if n.doc_string.startswith(mark)}
