"""What the engine's compiler refuses, by family of the chip: the published limits, read for the stand-in alone."""

from __future__ import annotations

import numpy as np
from oracle.mil_text import Literal, Program, Statement, Type

FAMILIES = ("A13", "A14", "A15", "A16")
SINCE = {"sin": "A15", "cos": "A15", "topk": "A14", "affine": "A14", "resample": "A14"}
EXTENT = {"A13": 16384, "A14": 16384, "A15": 16384, "A16": 65536}
CHANNELS = 65536
KERNEL_WIDTH = {"A13": 13, "A14": 16, "A15": 16, "A16": 16}
FAIL = "_ANECompiler : ANECCompile() FAILED (11)"


def refusal(program: Program, family: str) -> str:
    """The compiler's message for a program that it does not take; empty when it takes it."""
    types: dict[str, Type] = dict(program.inputs)
    values: dict[str, np.ndarray | str] = {}
    made_by: dict[str, Statement] = {}
    for statement in program.statements:
        types |= dict(statement.results)
        made_by |= {name: statement for name, _ in statement.results}
        if statement.kind == "const":
            values[statement.results[0][0]] = statement.attributes["val"].value
    if not program.operations:
        return "unordered_map::at: key not found"
    for statement in program.operations:
        for why in (_operation(statement, family, types, values, made_by), *map(_extents(family), statement.results)):
            if why:
                return why
    return ""


def _extents(family: str):
    def check(result: tuple[str, Type]) -> str:
        name, kind = result
        shape = (1,) * (4 - len(kind.shape)) + kind.shape
        if max(shape[-2:]) > EXTENT[family] or max(shape[:-2]) > CHANNELS:
            return f"Invalid layer: Tensor dimensions {list(shape)} of {name} are not within supported range"
        return ""

    return check


def _operation(
    s: Statement, family: str, types: dict[str, Type], values: dict[str, object], made_by: dict[str, Statement]
) -> str:
    def known(name: str) -> object:
        given = s.arguments.get(name)
        return given.value if isinstance(given, Literal) else values.get(given) if isinstance(given, str) else None

    if FAMILIES.index(SINCE.get(s.kind, "A13")) > FAMILIES.index(family):
        return f'"Not implemented": Some ops are not supported on any of the specified backends: {s.kind}'
    if s.kind == "topk" and int(np.asarray(known("k")).item()) in (3, 4):
        return f"topk: {FAIL}"
    if s.kind == "conv" and isinstance(s.arguments["weight"], str) and isinstance(s.arguments["x"], str):
        x, weight = types[s.arguments["x"]], types[s.arguments["weight"]]
        groups = int(np.asarray(known("groups") if "groups" in s.arguments else 1).item())
        if weight.shape[-1] > KERNEL_WIDTH[family]:
            return f"conv of width {weight.shape[-1]}: {FAIL}"
        if weight.shape[0] % groups or x.shape[1] != weight.shape[1] * groups:
            return f"KernelChannels ({weight.shape[1]}) != InputChannels ({x.shape[1]}) / Group ({groups})"
        by = made_by.get(s.arguments["weight"])
        dynamic = by is None or (by.kind != "const" and not by.kind.startswith("constexpr"))
        if dynamic and x.shape[0] > 1:
            return f"conv with a computed weight in a batch: {FAIL}"
        if len(weight.shape) != 4:
            return f"conv of rank {len(weight.shape)}: {FAIL}"
    if s.kind == "mul":
        for a, b in (("x", "y"), ("y", "x")):
            by = made_by.get(s.arguments[a]) if isinstance(s.arguments[a], str) else None
            factor = known(b)
            if by is not None and by.kind.startswith("reduce_") and factor is not None and not np.any(factor):
                return f"a reduction times 0: {FAIL}"
    return ""
