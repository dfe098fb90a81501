"""Every program that is written for a suite of models and each target, read by those who did not write it. Counts.

    python tests/suites/programs.py [SUITE … | FOLDER …] [--targets m1 m2 m3 m4 m5] [--every N] [--compress HOW …]
                                    [--option KEY=VALUE …] [--jobs N]

SUITE is one of the conformance suite's (default: all of them), FOLDER one as for models.py. A model is loaded strictly, strictly
with its parameters as constants where the suite has them as inputs, and in a session with the provider; every program that
is handed to a backend on the way is taken down, and:

* text: the independent reader finds the program's operations, operands, constants and types in the text and the blob;
* package: the Core ML package of it says the same, and coremltools' milproto loader infers the types that it declares;
* blob: the weights are byte for byte what libmilstoragepython writes;
* check: `aneforge.check` lists no violation on the target that it was lowered for;
* families: the stand-in's own list of what an engine's compiler refuses has nothing against the text.

Nothing runs. A program that several targets or roads have in common is read once. Exit status 1 when anything disagrees, or
there was no program.
"""

from __future__ import annotations

import argparse
import atexit
import functools
import hashlib
import os
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for `tests`
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `oracle` and `suites`

import onnxruntime as ort
from standin import families
from suites import readings
from suites.models import loader, shape_options

import aneforge as af
import aneforge.provider
from aneforge import mil
from aneforge.errors import AneforgeError, DynamicShapeError, ModelError, UnsupportedModelError
from aneforge.ir import Program
from aneforge.mil import MilFile
from aneforge.targets import resolve
from tests.conformance.cases import SUITES, baked, cases

TARGETS = ("m1", "m2", "m3", "m4", "m5")
ENCODINGS = ("none", "int8", "int4", "sparse", "blockwise", "auto")
COMPRESSED = ("ultraface_rfb_320", "efficientnet_lite0", "minilm_l3", "gtcrn_stream_simple", "dnsmos_p808")
"""Models whose programs are read with packed weights, too."""
ROUGH = "0.5"  # tolerance of a packed weight: nothing runs, and every encoding is to be seen
CHUNK = 6  # models that a process takes at a time: neighbours have programs in common

Row = tuple[str, str]  # road, target


@dataclass
class Found:
    """What became of some models.

    Attributes:
        counts: of (road, target): models, programs, agree, without a program ("none"), and "refused: kind".
        bad: what disagrees, one line each.
        packages: every different program (of text, blob and names of ports) -> "read", or why it has no package.
    """

    counts: dict[Row, Counter[str]] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)
    packages: dict[bytes, str] = field(default_factory=dict)

    def add(self, other: Found) -> None:
        for row, counts in other.counts.items():
            self.counts.setdefault(row, Counter()).update(counts)
        self.bad += other.bad
        self.packages |= other.packages

    def total(self, what: str) -> int:
        return sum(counts[what] for counts in self.counts.values())


# ---------------------------------------------------------------- where programs come from


@contextmanager
def each_written(see: Callable[[Program, MilFile], None]) -> Iterator[None]:
    """`see` is shown every program that is written meanwhile, at once: a session's large weights live only so long."""
    real = mil.write

    def write(program: Program, *args: Any) -> MilFile:
        written = real(program, *args)
        see(program, written)
        return written

    mil.write = write
    try:
        yield
    finally:
        mil.write = real


def load(model: Any, shapes: dict[str, tuple[int, ...]], **options: str) -> str:
    """By the strict road. Empty, or "refused: " and the kind."""
    try:
        af.load_onnx(model, input_shapes=shapes, **options).release()
    except UnsupportedModelError as error:
        return f"refused: {error.nodes[0].reason.kind}"
    except DynamicShapeError:
        return "refused: dynamic shape"
    except ModelError:
        return "refused: not valid"
    return ""


def session(model: str | bytes, options: dict[str, str]) -> str:
    """By the provider. Empty, or "refused: …" where ONNX Runtime itself makes no session of the model."""
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    providers = [("ANEForgeProvider", options), "CPUExecutionProvider"]
    try:
        ort.InferenceSession(model, settings, providers=providers, enable_fallback=False)
    except Exception as error:
        if "ANEForge" in str(error):
            raise
        return "refused: ONNX Runtime makes no session"
    return ""


@functools.cache
def models(folder: str) -> dict[str, Any]:
    return {model.name: model for model in loader(Path(folder)).models(available=True)}


def names(source: str) -> list[str]:
    """The models of a suite or a folder."""
    return [case.name for case in cases(source)] if source in SUITES else list(models(source))


def roads(
    source: str, name: str, encodings: Sequence[str], options: Mapping[str, str]
) -> Iterator[tuple[str, Callable[[str], str]]]:
    """(road, function of the target) for one model; `options` go to every load and session."""
    if source in SUITES:
        case = next(case for case in cases(source) if case.name == name)
        fixed, content = baked(case), case.model.SerializeToString()
        yield "strict", lambda target: load(case.model, {}, target=target, **options)
        if fixed is not case:
            yield "baked", lambda target: load(fixed.model, {}, target=target, **options)
        yield "provider", lambda target: session(content, {"target": target, **options})
        return
    model = models(source)[name]
    feeds = model.feeds()
    shapes = {k: array.shape for k, array in feeds.items()}
    fixing = shape_options(model.path, feeds)
    for how in encodings:
        if how != "none" and name not in COMPRESSED:
            continue
        word, more = "", dict(options)
        if how == "none":
            yield "strict", lambda target: load(str(model.path), shapes, target=target, **options)
        else:
            word, more = f" {how}", {**options, "compress": how, "compress_atol": ROUGH}
        given = {**fixing, **more}
        yield f"provider{word}", lambda target, given=given: session(str(model.path), {**given, "target": target})


# ---------------------------------------------------------------- and what they are read as

_read: dict[bytes, tuple[str, str]] = {}
"""Program -> what disagrees in package or blob; "read", or why there is no package."""


@functools.cache
def _work() -> Path:
    """A folder of this process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def judged(program: Program, written: MilFile, target: str) -> tuple[str, bytes]:
    """What disagrees, and the program's key in `_read`."""
    if violations := af.check(program, target):
        return f"check: {violations[0]}", b""
    if wrong := readings.text(program, written):
        return f"text: {wrong}", b""
    if wrong := families.refusal(readings.parsed(written), resolve(target).family):
        return f"families: {wrong}", b""
    ports = [port.name for port in (*written.inputs, *written.outputs)]
    key = hashlib.sha256(f"{written.text}{ports}".encode() + hashlib.sha256(written.blob).digest()).digest()
    if key not in _read:
        wrong, word = "", "read"
        try:
            if wrong := readings.package(program, written, _work()):
                wrong = f"package: {wrong}"
        except readings.NoPackage as why:
            word = str(why)
        if not wrong and (wrong := readings.blob(bytes(written.blob), _work())):
            wrong = f"blob: {wrong}"
        _read[key] = wrong, word
    return _read[key][0], key


def some(
    source: str, chosen: Sequence[str], targets: Sequence[str], encodings: Sequence[str], options: Mapping[str, str]
) -> Found:
    """Reads the programs of some models; in a process of its own."""
    warnings.simplefilter("ignore")
    found = Found()
    for name in chosen:
        for road, make in roads(source, name, encodings, options):
            for target in targets:
                one(found, name, road, target, make)
    return found


def one(found: Found, name: str, road: str, target: str, make: Callable[[str], str]) -> None:
    """The programs of one model on one road for one target."""
    counts = found.counts.setdefault((road, target), Counter())
    before = counts["programs"]

    def see(program: Program, written: MilFile) -> None:
        try:
            wrong, key = judged(program, written, target)
        except Exception as error:  # a session would take it for a compiler's, and go on without the region
            wrong, key = f"not read: {type(error).__name__}: {error}", b""
        counts["programs"] += 1
        counts["agree"] += not wrong
        if wrong:
            found.bad.append(f"{name} {road} {target}: {wrong}")
        if key:
            found.packages[key] = _read[key][1]

    try:
        with each_written(see):
            refused = make(target)
    except AneforgeError as error:
        refused = "bug"
        found.bad.append(f"{name} {road} {target}: {type(error).__name__}: {error}")
    counts["models"] += 1
    counts[refused or ("with" if counts["programs"] > before else "none")] += 1


def gather(
    source: str,
    targets: Sequence[str] = TARGETS,
    every: int = 1,
    jobs: int = 1,
    encodings: Sequence[str] = ("none",),
    options: Mapping[str, str] | None = None,
) -> Found:
    """Every `every`-th model of a suite or folder, over so many processes."""
    chosen = names(source)[::every]
    found = Found()
    with ProcessPoolExecutor(jobs) as pool:
        chunks = [chosen[k : k + CHUNK] for k in range(0, len(chosen), CHUNK)]
        for part in [pool.submit(some, source, chunk, targets, encodings, options or {}) for chunk in chunks]:
            found.add(part.result())
    return found


def table(source: str, found: Found) -> list[str]:
    """The figures, with one line for the targets that have the same."""
    alike: dict[tuple[str, tuple[tuple[str, int], ...]], list[str]] = {}
    for (road, target), counts in found.counts.items():
        alike.setdefault((road, tuple(sorted(counts.items()))), []).append(target)
    lines = [f"{source}:"]
    for (road, figures), targets in alike.items():
        n = Counter(dict(figures))
        refused = Counter({k.partition(": ")[2]: v for k, v in n.items() if k.startswith("refused: ")})
        why = ", ".join(f"{kind} {v}" for kind, v in refused.most_common())
        lines.append(
            f"  {road:19} {' '.join(targets):15}{n['models']:4} models, {n['programs']:4} programs: {n['agree']:4} agree, "
            f"{n['programs'] - n['agree']} do not; {n['none']} without one; {refused.total()} refused{why and f': {why}'}"
        )
    without = Counter(word for word in found.packages.values() if word != "read")
    told = "".join(f", {n} have none ({word})" for word, n in without.most_common())
    lines.append(f"  {len(found.packages)} different programs: {len(found.packages) - without.total()} packages{told}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="Every program, read by those who did not write it.")
    parser.add_argument("source", nargs="*", default=list(SUITES), help=f"{', '.join(SUITES)}, or a folder of models")
    parser.add_argument("--targets", nargs="+", default=list(TARGETS))
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th model")
    parser.add_argument("--compress", nargs="+", choices=ENCODINGS, default=list(ENCODINGS), dest="encodings",
                        help=f"encodings for {', '.join(COMPRESSED)}")  # fmt: skip
    parser.add_argument(
        "--option", nargs="+", default=[], metavar="KEY=VALUE", help="options of every load and session"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    options = dict(each.split("=", 1) for each in args.option)
    whole = Found()
    for source in args.source:
        found = gather(source, args.targets, args.every, args.jobs, args.encodings, options)
        print("\n".join([*table(source, found), *(f"  DISAGREES {line}" for line in found.bad)]), flush=True)
        whole.add(found)
    programs, agree = whole.total("programs"), whole.total("agree")
    print(f"{programs} programs: {agree} agree, {programs - agree} do not; {len(whole.packages)} different ones")
    return 1 if whole.bad or not agree else 0


if __name__ == "__main__":
    sys.exit(main())
