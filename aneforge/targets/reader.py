"""Reads the data files beside it. Nothing is read before the first question, and each file only once.

The facts and their sources are in the files; here is only their shape. Where a source is silent or two sources differ,
the files hold the smaller claim, so that what this module allows is right on every engine of the family.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal

from ..errors import OptionError
from . import chip

LEAVES = frozenset({"const", "input"})  # not operations of the engine: every program has them


@dataclass(frozen=True)
class Limits:
    """Limits of one engine; extents in elements. Sources: limits.json."""

    max_rank: int
    matmul_rank: int
    linear_rank: int
    max_width: int
    max_height: int
    max_depth: int
    max_channels: int
    max_batch: int
    max_transpose: int
    kernel_width: int
    kernel_height: int
    pool_window: int
    arg_axis: int
    topk_refused_k: tuple[int, ...]
    dilation: int
    matmul_saturation: float
    slice_saturation: float
    reduce_transpose: int
    working_set_bytes: int
    program_weight_bytes: int
    live_programs: int

    def extents(self, rank: int) -> tuple[int, ...]:
        """Largest extent of each axis of a tensor of this rank (0 … max_rank).

        The compiler sees N, C, H, W, and D at rank 5; a tensor of lower rank is read from its end (a [1, K] has width
        K). No source says whether the two axes after the batch at rank 5, and the first at rank 3, count as channels or
        as depth: the smaller of the two limits holds.

        Raises:
            ValueError: the rank is outside 0 … max_rank.
        """
        either = min(self.max_depth, self.max_channels)
        by_rank = (
            (),
            (self.max_width,),
            (self.max_height, self.max_width),
            (either, self.max_height, self.max_width),
            (self.max_batch, self.max_channels, self.max_height, self.max_width),
            (self.max_batch, either, either, self.max_height, self.max_width),
        )
        if not 0 <= rank <= self.max_rank:
            raise ValueError(f"rank {rank} is outside 0 … {self.max_rank}")
        return by_rank[rank]


@dataclass(frozen=True)
class Quirk:
    """One row of quirks.json: when it happens, what the engine then does, what a lowering does about it."""

    id: str
    kind: Literal["numeric", "compile", "process"]
    families: tuple[str, ...]
    trigger: str
    effect: str
    workaround: str
    simulated: bool
    simulation: str
    source: str
    measured: bool
    poisoned: bool = False
    note: str = ""
    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)  # family -> what was seen there


@dataclass(frozen=True)
class Support:
    """One row of vocabulary.json for one family."""

    compiles: bool
    known: bool  # False: no source says, which counts as no
    restrictions: tuple[str, ...]
    source: tuple[str, ...]


@dataclass(frozen=True)
class Cost:
    """Constants of the estimate: floor + sum of max(bytes / bytes_per_us, flops / flops_per_us). Source: cost.json."""

    floor_us: float
    bytes_per_us: float
    flops_per_us: float
    cut_us: float


@dataclass(frozen=True)
class Target:
    """One engine to compile for. `name` is the compiler's string, `family` one of A13 … A16."""

    name: str
    family: str
    chips: str
    limits: Limits
    cost: Cost
    streams: tuple[str, ...] = ()
    """Encodings of weights that the engine reads as they are; it unpacks the others to fp16 first."""

    @cached_property
    def vocabulary(self) -> Mapping[str, Support]:
        """MIL op -> what the engine's compiler does with it."""
        rows = _load("vocabulary")["ops"]
        return MappingProxyType({kind: _support(row, self.family) for kind, row in rows.items()})

    @cached_property
    def quirks(self) -> Mapping[str, Quirk]:
        """The rows of the quirk table that apply to this family, by id."""
        return MappingProxyType({q.id: q for q in quirk_table().values() if self.family in q.families})

    def supports(self, kind: str) -> str | None:
        """None when the engine's compiler takes MIL op `kind`; else a sentence that says why not."""
        if kind in LEAVES:
            return None
        row = self.vocabulary.get(kind)
        if row is None:
            return f"nothing is known of MIL op {kind!r} on the engine"
        if row.compiles:
            return None
        if not row.known:
            return f"MIL op {kind!r} is not known to compile on {self.chips} (family {self.family})"
        return f"the engine of {self.chips} (family {self.family}) has no MIL op {kind!r}"

    def has_quirk(self, quirk: str) -> bool:
        """Whether row `quirk` ("Q08") applies to this family.

        Raises:
            KeyError: there is no such row.
        """
        return self.family in quirk_table()[quirk].families

    @property
    def simulated_quirks(self) -> tuple[str, ...]:
        """Ids of the rows that the host backend imitates for this family, in order."""
        return tuple(q.id for q in self.quirks.values() if q.simulated)

    @property
    def poisoned_quirks(self) -> tuple[str, ...]:
        """Ids of the rows where the host backend can give NaN instead of values that the engine gets wrong."""
        return tuple(q.id for q in self.quirks.values() if q.poisoned)


@cache
def quirk_table() -> Mapping[str, Quirk]:
    """All rows of the quirk table, by id."""
    rows = (Quirk(**{**row, "families": tuple(row["families"])}) for row in _load("quirks")["quirks"])
    return MappingProxyType({row.id: row for row in rows})


def words() -> tuple[str, ...]:
    """Every word that `resolve` takes, the refused compiler strings excluded."""
    data = _load("targets")
    return ("auto", *data["aliases"], *(name for name, row in data["targets"].items() if "refused" not in row))


@cache
def resolve(word: str = "auto") -> Target:
    """The target that a word names: auto, m1 … m5, a compiler string, a family (a13 … a16) or its number (2 … 5).

    "auto" is the engine of this machine; where there is none, or none that is known, the floor, H13: a program legal
    for it runs on every engine.

    Raises:
        OptionError: an unknown word (near ones are listed), or an engine that no MIL program can be compiled for.
    """
    data = _load("targets")
    asked = word.strip().lower()
    auto = chip.here().target or data["floor"]
    name = auto if asked == "auto" else data["aliases"].get(asked, asked)
    row = data["targets"].get(name)
    if row is None:
        near = difflib.get_close_matches(asked, words(), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(words())}"
        raise OptionError(f"unknown target {word!r}; {hint}")
    if "refused" in row:
        raise OptionError(f"target {word!r} cannot be compiled for: {row['refused']}; the oldest is {data['floor']}")
    family = row["family"]
    own = _load("families")["families"][family]
    limits = _limits(family, row.get("extents_of", family))
    return Target(name, family, own["chips"], limits, _cost(name), tuple(own["streams"]))


def _limits(family: str, extents_of: str) -> Limits:
    data = _load("limits")
    rows = data["families"]
    values = {**data["common"], **rows[family], **{key: rows[extents_of][key] for key in data["extents"]}}
    values["topk_refused_k"] = tuple(values["topk_refused_k"])
    return Limits(**_only(values, (f.name for f in fields(Limits))))


def _cost(name: str) -> Cost:
    data = _load("cost")
    anchor = data["anchor_of"].get(name) or name[:3]  # no source measured the suffixes (numbers of cores) one by one
    return Cost(**data["anchors"][anchor], cut_us=data["cut_us"])


def _support(row: Mapping[str, Any], family: str) -> Support:
    compiles = row["compiles"]
    return Support(
        compiles=compiles if isinstance(compiles, bool) else family in compiles,
        known=family not in row.get("unknown", ()),
        restrictions=tuple(row.get("restrictions", ())),
        source=tuple(row["source"]),
    )


def _only(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    wanted = list(names)
    if set(values) != set(wanted):
        raise ValueError(f"limits.json and Limits differ in {sorted(set(values) ^ set(wanted))}")
    return dict(values)


@cache
def _load(name: str) -> dict[str, Any]:
    text = resources.files(__package__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data
