"""`aneforge check MODEL`: where the engine's arithmetic parts from fp32, node by node, on the host backend."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from . import arguments, baseline, feeds, tables
from .errors import OK, CheckError, UsageError

SCHEMA_VERSION = 1
MIN_COSINE = 0.999
WIDEST = 40
SHOWN = 12
"""Rows of a table without --all: what comes first matters most."""


def configure(parser: argparse.ArgumentParser) -> None:
    arguments.add_model(parser)
    parser.add_argument("--input", action="append", default=[], metavar="IN.npz", help=feeds.HELP)
    parser.add_argument("--tolerance", type=float, default=0.01, metavar="REL",
                        help="max|d| / max|ref| of one node from which on it is spoken of (0.01)")  # fmt: skip
    parser.add_argument("--min-cosine", type=float, default=MIN_COSINE, metavar="COS",
                        help=f"what every output must keep ({MIN_COSINE})")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="every node on the engine, not the conspicuous ones alone")
    baseline.configure(parser)
    parser.add_argument("--json", action="store_true", help="say it as JSON; every node is in it")


def main(given: argparse.Namespace) -> int:
    """Compares; 3 when an output is not what it should be, or something is worse than its baseline."""
    told = measured(given)
    if given.json:
        print(json.dumps(told, indent=1))
    else:
        _show(told, given.all)
    bad = [row for row in told["outputs"] if not row["good"]]
    baseline.apply(given, "check", told["target"], _entries(told), given.tolerance)
    if bad:
        names = ", ".join(repr(row["name"]) for row in bad)
        raise CheckError(f"the engine's arithmetic does not keep {names}: see the nodes where errors are born")
    return OK


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """The comparison as plain data.

    Raises:
        UsageError: options or inputs that do not fit the model.
    """
    from .. import passes
    from ..accuracy import hazards, walk
    from ..onnx.importer import import_graph
    from ..onnx.view import from_model
    from ..targets import resolve
    from .reference import Cpu

    options = _options(given)
    target = resolve(options.target)
    fixed, shapes = {**dict(options.dims), **arguments.dims(given)}, arguments.shapes(given)
    view = from_model(given.model, fixed, shapes)
    arrays = feeds.feeds(given.input, _inputs(view))
    if given.input:
        view = from_model(given.model, fixed, {name: array.shape for name, array in arrays.items()})
    _check_types(view, arrays)
    imported = import_graph(view, options, target, passes.check_node)
    parts, reasons = _parts(imported, options, target, given.strict)
    cpu = Cpu(given.model, imported)
    outcome = walk.compare(imported, parts, arrays, cpu, given.tolerance)
    inside = sorted({i for part in parts for i in part.nodes if imported.nodes[i].status == "engine"})
    rows = [_row(imported, number, row) for number, row in enumerate(outcome.nodes, 1) if row.nodes]
    return {
        "schema_version": SCHEMA_VERSION,
        "model": given.model,
        "input": feeds.named(given.input),
        "target": target.name,
        "tolerance": given.tolerance,
        "placement": _placement(imported, inside, len(parts), reasons),
        "outputs": [
            _output(name, apart, outcome.reference[name], given.min_cosine) for name, apart in outcome.outputs.items()
        ],
        "import": _import_check(cpu, arrays, outcome),
        "nodes": rows,
        "avoided": _avoided(imported, hazards.hazards(imported), outcome),
    }


def _options(given: argparse.Namespace) -> Any:
    """The options, for the host backend: this needs no engine."""
    from ..options import Options

    words = dict(text.partition("=")[::2] for text in given.option)
    if words.get("backend", "host") not in ("host", "auto"):
        raise UsageError("check computes on the host backend; leave the option 'backend' out")
    if "numerics" in words:
        raise UsageError("check compares the numerics fp32 and engine; leave the option 'numerics' out")
    given.option = [text for text in given.option if not text.startswith("backend=")] + ["backend=host"]
    return Options.parse(arguments.options(given))


def _inputs(view: Any) -> list[feeds.Input]:
    found: list[feeds.Input] = []
    for name in view.inputs:
        value = view.values[name]
        kind = "an unknown type" if value.dtype is None else f"tensor({value.dtype})"
        found.append((name, kind, list(value.shape or ())))
    return found


def _check_types(view: Any, arrays: dict[str, Any]) -> None:
    for name, array in arrays.items():
        value = view.values[name]
        if value.dtype is not None and array.dtype != value.dtype:
            raise UsageError(f"input {name!r} is {value.dtype} in the model, and {array.dtype} was given")
        if value.shape is not None and tuple(array.shape) != tuple(value.shape):
            raise UsageError(f"input {name!r} has the shape {list(value.shape)}, and {list(array.shape)} was given")


def _parts(imported: Any, options: Any, target: Any, strict: bool) -> Any:
    """The regions as a session would have them; with --strict, all in one or an exception."""
    from ..accuracy.walk import Part, whole

    if strict:
        imported.check()
        return whole(imported), {}
    from ..provider.lowering import Budget, Lowering

    work = Lowering(imported, options, target, Budget())
    work.run()
    found = [
        Part(tuple(made.region.nodes), tuple(made.region.inputs), tuple(made.region.outputs)) for made in work.regions
    ]
    for made in work.regions:
        made.compiled.executable.release()
    return found, work.reasons


def _import_check(cpu: Any, arrays: dict[str, Any], outcome: Any) -> dict[str, Any]:
    """Whether the fp32 form of the regions computes what ONNX Runtime's CPU provider does: the import itself."""
    from ..accuracy.measure import error

    expected = cpu.whole(arrays)
    worst = {name: error(outcome.reference[name], value) for name, value in expected.items() if hasattr(value, "dtype")}
    return {name: _error(apart) for name, apart in worst.items()}


# ---------------------------------------------------------------- plain data


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"


def _error(apart: Any) -> dict[str, Any]:
    return {"relative": _number(apart.relative), "cosine": apart.cosine}


def _label(imported: Any, index: int) -> dict[str, Any]:
    node = imported.nodes[index]
    return {"index": index, "name": node.name, "op": node.op}


def _row(imported: Any, number: int, row: Any) -> dict[str, Any]:
    from ..accuracy.walk import near_limit

    return {
        "order": number,
        "nodes": [_label(imported, i) for i in row.nodes],
        "mil": list(row.kinds),
        "shape": list(row.shape),
        "region": row.region + 1,
        "verdict": row.verdict,
        "local": _error(row.local),
        "accumulated": _error(row.accumulated),
        "arrived": _error(row.arrived),
        "largest": row.peak,
        "largest_product": row.product_peak,
        "nonfinite": row.lost,
        "near_limit": near_limit(row),
        "cause": row.cause and {"kind": row.cause.kind, "text": row.cause.text, "remedy": row.cause.remedy},
    }


def _output(name: str, apart: Any, reference: Any, least: float) -> dict[str, Any]:
    return {"name": name, "dtype": str(reference.dtype), **_error(apart), "good": apart.cosine >= least}


def _avoided(imported: Any, found: Any, outcome: Any) -> list[dict[str, Any]]:
    """What plain fp16 would break, and did not break here: nodes in which an error is born are no success."""
    worst: dict[int, float] = {}
    for row in outcome.nodes:
        for i in row.nodes:
            worst[i] = max(worst.get(i, 0.0), float("inf") if row.verdict == "born" else row.local.relative)
    told = []
    for h in found:
        own = max((worst[i] for i in h.nodes if i in worst), default=None)
        if own is None or math.isfinite(own):
            nodes = [_label(imported, i) for i in h.nodes]
            told.append({"nodes": nodes, "danger": h.danger, "remedy": h.remedy, "own_error": own})
    return told


def _placement(imported: Any, inside: Sequence[int], regions: int, reasons: Any) -> dict[str, Any]:
    """Where every node is that computes something at run time."""
    nodes = [n for n in imported.nodes if n.status != "free"]
    total, taken = sum(n.macs for n in nodes), sum(imported.nodes[i].macs for i in inside)
    engine = set(inside)
    return {
        "engine": len(inside),
        "CPU": len(nodes) - len(inside),
        "regions": regions,
        "node_share": len(inside) / len(nodes) if nodes else 0.0,
        "mac_share": taken / total if total else None,
        "nodes": [
            {
                **_label(imported, n.index),
                "engine": n.index in engine,
                "macs": n.macs,
                "reason": None if n.index in engine else str(reasons.get(n.index, "")),
            }
            for n in nodes
        ],
    }


def _entries(told: dict[str, Any]) -> list[baseline.Entry]:
    """The nodes as a baseline knows them, with the error of what each gives."""
    errors: dict[int, float] = {}
    for row in told["nodes"]:
        for label in row["nodes"]:
            index = label["index"]
            errors[index] = max(errors.get(index, 0.0), float(row["accumulated"]["relative"]))
    entries = []
    for n in told["placement"]["nodes"]:
        error = errors.get(n["index"], 0.0) if n["engine"] else None  # without a row: nothing was left of it
        entries.append(
            baseline.Entry(n["name"], n["op"], n["index"], "", n["engine"], n["macs"], n["reason"] or "", error)
        )
    return entries


# ---------------------------------------------------------------- text


def _show(told: dict[str, Any], everything: bool) -> None:
    place = told["placement"]
    macs = "" if place["mac_share"] is None else f", {place['mac_share']:.1%} of the multiply-adds"
    print(f"{told['model']}: {place['engine']} nodes on the engine in {place['regions']} region(s){macs}, "
          f"{place['CPU']} on the CPU; target {told['target']}; input: {told['input']}")  # fmt: skip
    for row in told["outputs"]:
        print(f"  {row['name']}  {row['dtype']}  max|d|/max|ref| {_short(row['relative'])}  cosine {row['cosine']:.6f}"
              f"{'' if row['good'] else '  BAD'}")  # fmt: skip
    for name, apart in told["import"].items():
        if apart["cosine"] < MIN_COSINE:
            print(
                f"  {name}: in fp32 already, the regions and ONNX Runtime's CPU differ (cosine {apart['cosine']:.6f})"
            )
    _findings(told, everything)
    for entry in told["avoided"]:
        own = "" if entry["own_error"] is None else f" (own error {_short(entry['own_error'])})"
        print(f"avoided: {_names(entry['nodes'])}: {entry['danger']}; here: {entry['remedy']}{own}")


def _findings(told: dict[str, Any], everything: bool) -> None:
    born = [row for row in told["nodes"] if row["verdict"] == "born"]
    parted = next((row for row in told["nodes"] if row["verdict"]), None)
    near = [row for row in told["nodes"] if row["near_limit"] and row["verdict"] != "born"]
    if not born:
        print(f"no node loses {told['tolerance']:g} or more by itself")
    for row in born[:SHOWN]:
        cause = row["cause"]
        print(f"born: {_names(row['nodes'])}: error {_short(row['local']['relative'])} from right inputs: "
              f"{cause['text']}; remedy: {cause['remedy']}")  # fmt: skip
    if len(born) > SHOWN:
        print(f"  and {len(born) - SHOWN} more: --json, or --all")
    if parted is not None and parted["verdict"] != "born":
        print(f"first apart: {_names(parted['nodes'])} ({parted['verdict']}): {_short(parted['accumulated']['relative'])}"
              f" so far, {_short(parted['local']['relative'])} of its own")  # fmt: skip
    for row in near[:SHOWN]:
        print(f"near a limit: {_names(row['nodes'])}: {row['near_limit']}")
    rows = told["nodes"] if everything else [row for row in told["nodes"] if row["verdict"]][:SHOWN]
    if rows:
        print()
        tables.show(
            ["node", "own error", "so far", "cosine", "largest", "verdict"],
            [
                [
                    _names(row["nodes"]),
                    _short(row["local"]["relative"]),
                    _short(row["accumulated"]["relative"]),
                    f"{row['accumulated']['cosine']:.6f}",
                    f"{row['largest']:.4g}",
                    row["verdict"],
                ]
                for row in rows
            ],
        )


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.2g}"


def _names(nodes: Iterable[dict[str, Any]]) -> str:
    listed = list(nodes)
    words = [f"{n['op']} {_brief(n['name'])!r}" if n["name"] else f"{n['op']} #{n['index']}" for n in listed[:3]]
    more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
    return " + ".join(words) + more


def _brief(name: str) -> str:
    """The last part of a name that is too long for a table; the JSON form has all of it."""
    return name if len(name) <= WIDEST else f"…{name[-WIDEST:]}"
