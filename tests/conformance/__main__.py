"""Runs ONNX's backend suite and prints the table.

    python -m tests.conformance [--suite node …] [--road strict …] [--numerics fp32 …] [--only TEXT] [--target m1]
                                [--standin] [--update] [--jobs N]

Every case's outcome stands in `outcomes.tsv`, which is reviewed: a difference is printed, and makes the exit status 1;
`--update` writes the file anew instead. The list is of the target "auto"; what another one does otherwise is printed, and is
no failure. Wrong results and bugs make the exit status 1 always.

With `--standin` every program goes the engine's road, over the stand-in of its runtime: an independent reader and NumPy give
the values. They have none of the engine's quirks, so what the list calls lossy for one of those is right there.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `oracle`

import onnx
from standin.road import take

from aneforge.onnx.registry import handlers
from aneforge.targets import resolve

from . import record
from .cases import SUITES, cases
from .judge import NUMERICS, ROADS, Outcome, outcomes

Found = dict[tuple[str, str], Outcome]


def one(suite: str, k: int, roads: tuple[str, ...], numerics: tuple[str, ...], target: str) -> Found:
    """The outcomes of the case at place `k`; in a process of its own."""
    warnings.simplefilter("ignore")
    return outcomes(cases(suite)[k], roads, numerics, target)


def over_the_standin(args: argparse.Namespace, folder: Path) -> None:
    """Of a process of the pool: this one stays as it is."""
    if args.standin:
        own = folder / str(os.getpid())
        own.mkdir()
        take(own, resolve(args.target).family, guarded=False)


def gather(args: argparse.Namespace) -> dict[str, dict[str, Found]]:
    """suite -> case -> outcomes."""
    found: dict[str, dict[str, Found]] = {}
    how = "spawn" if args.standin else None  # an engine's runtime does not survive a fork
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(args.jobs, get_context(how), over_the_standin, (args, Path(folder))) as pool,
    ):
        for suite in args.suite:
            places = [k for k, case in enumerate(cases(suite)) if args.only in case.name]
            work = [pool.submit(one, suite, k, tuple(args.road), tuple(args.numerics), args.target) for k in places]
            found[suite] = {cases(suite)[k].name: w.result() for k, w in zip(places, work, strict=True)}
    return found


def table(name: str, found: dict[str, Found], roads: list[str], numerics: list[str]) -> list[str]:
    """The figures of one suite, and the commonest refusals."""
    lines = [f"{name}: {len(found)} cases"]
    for road in roads:
        for n in numerics:
            all_of = [f[road, n] for f in found.values()]
            counts = Counter(o.verdict for o in all_of)
            shown = ", ".join(
                f"{counts[v]} {v}" for v in ("right", "lossy", "cpu", "refused", "invalid", "wrong", "bug")
            )
            lines.append(f"  {road:9}{n:7}{shown}")
    for road in roads:
        reasons = Counter(
            record.kind(f[road, numerics[0]].why) for f in found.values() if f[road, numerics[0]].verdict == "refused"
        )
        if reasons:
            lines.append(f"  {road}: refused for " + ", ".join(f"{kind} {n}" for kind, n in reasons.most_common()))
    if "provider" in roads:
        lines.append(
            f"  provider: {sum(f['provider', numerics[0]].nodes > 0 for f in found.values())} cases with nodes on the engine"
        )
    return lines


def operators(found: dict[str, Found], road: str) -> str:
    """How many operators of ai.onnx are right in a node case that is theirs alone."""
    single = {c.name: c.model.graph.node[0] for c in cases("node") if len(c.model.graph.node) == 1}
    right = {
        single[name].op_type
        for name, f in found.items()
        if name in single and single[name].domain in ("", "ai.onnx") and f[road, "fp32"].verdict == "right"
    }
    every = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    handled = {op for domain, op in handlers() if domain == ""} & every
    return (
        f"  operators of ai.onnx: {len(every)} in onnx {onnx.__version__}; {len(handled)} have a handler; "
        f"{len(right)} are right in a node case of their own ({road}, fp32)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--suite", nargs="+", choices=SUITES, default=list(SUITES))
    parser.add_argument("--road", nargs="+", choices=ROADS, default=list(ROADS))
    parser.add_argument("--numerics", nargs="+", choices=NUMERICS, default=list(NUMERICS))
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--target", default="auto", help="engine to compile for, m1 … m5")
    parser.add_argument("--standin", action="store_true", help="the engine's road, over the stand-in of its runtime")
    parser.add_argument("--update", action="store_true", help="write outcomes.tsv anew")
    parser.add_argument("--refusals", type=int, default=0, metavar="N", help="print the N commonest refusals in full")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    own = args.target == "auto" and not args.standin
    if args.update and not own:
        parser.error("the list is of the target auto, on the host backend")
    found = gather(args)
    bad = False
    for suite, each in found.items():
        print("\n".join(table(suite, each, args.road, args.numerics)))
        if suite == "node" and "baked" in args.road and "fp32" in args.numerics and not args.only:
            print(operators(each, "baked"))
        for case, f in each.items():
            for (road, n), o in f.items():
                if o.verdict in ("wrong", "bug"):
                    bad = True
                    print(f"  {o.verdict.upper()} {case} {road} {n}: {o.why[:300]}")
        for road in args.road if args.refusals else ():
            shown = Counter(
                record.short(f[road, args.numerics[0]].why)
                for f in each.values()
                if f[road, args.numerics[0]].verdict == "refused"
            )
            for text, count in shown.most_common(args.refusals):
                print(f"  {road}: {count:4} {text}")
    if args.update:
        record.write(found)
    else:
        changes = record.changes(found)
        bad = bad or (bool(changes) and own)
        print("\n".join(changes) if changes else "as the list says")
    return int(bad)


if __name__ == "__main__":
    raise SystemExit(main())
