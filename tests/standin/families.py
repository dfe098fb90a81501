"""What the engine's compiler refuses, by family of the chip: the published limits, read for the stand-in alone."""

from __future__ import annotations

import numpy as np
from oracle.mil_text import Literal, Program, Statement, Type

FAMILIES = ("A13", "A14", "A15", "A16")
SINCE = {
    "sin": "A15",
    "cos": "A15",
    "topk": "A16",  # seen there; claimed for A14
    "slice_by_index": "A16",  # seen there; nothing is known of older ones
    "affine": "A14",
    "resample": "A14",
    **dict.fromkeys(
        ("resize_bilinear", "resize_nearest_neighbor", "upsample_bilinear", "upsample_nearest_neighbor"), "A14"
    ),
}
NEVER = {
    "acos", "asin", "atanh", "band_part", "cosh", "cumsum", "logical_and", "logical_or", "logical_xor", "mod", "reduce_prod",
    "sinh", "tan",
}  # fmt: skip
"""What the evaluator knows as operations of MIL and no engine compiles."""
RANK_4 = {
    "avg_pool",
    "max_pool",
    "l2_pool",
    "instance_norm",
    "local_response_norm",
    "conv",
    "conv_transpose",
    "depth_to_space",
    "space_to_depth",
}
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

    if s.kind in NEVER or FAMILIES.index(SINCE.get(s.kind, "A13")) > FAMILIES.index(family):
        return f'"Not implemented": Some ops are not supported on any of the specified backends: {s.kind}'
    x = types.get(s.arguments["x"]) if isinstance(s.arguments.get("x"), str) else None
    if x and s.kind in RANK_4 and len(x.shape) != 4:
        return f"{s.kind} of rank {len(x.shape)}: {FAIL}"
    if x and s.kind in ("matmul", "linear") and len(x.shape) > 4:
        return f"{s.kind} of rank {len(x.shape)}: {FAIL}"
    if x and s.kind == "cast" and (x.dtype != "uint8" or s.arguments["x"] in made_by or known("dtype") != "fp16"):
        return f"cast of {x.dtype} to {known('dtype')}: {FAIL}"
    if s.kind == "einsum" and known("equation") != "nchw,nwhu->nchu":
        return f"einsum {known('equation')}: {FAIL}"
    if s.kind == "pad":
        if known("mode") not in (None, "constant") and family == "A13":
            return f"pad of mode {known('mode')}: {FAIL}"
        if np.any(np.asarray(known("pad")).reshape(-1)[:-4]):
            return f"pad of an axis that is neither height nor width: {FAIL}"
    if s.kind in ("avg_pool", "max_pool") and "ceil_mode" in s.arguments and np.any(known("ceil_mode")):
        ends = np.asarray(known("pad") if "pad" in s.arguments else 0).reshape(-1)
        if np.any(ends[::2] != ends[1::2]):
            return f"{s.kind} with ceil_mode and uneven padding: {FAIL}"
    if s.kind == "topk" and int(np.asarray(known("k")).item()) in (3, 4):
        return f"topk: {FAIL}"
    if s.kind == "conv_transpose" and isinstance(s.arguments["weight"], str):
        width = types[s.arguments["weight"]].shape[-1]
        if width > KERNEL_WIDTH[family]:
            return f"conv_transpose of width {width}: {FAIL}"
    if s.kind == "conv" and isinstance(s.arguments["weight"], str) and x:
        weight = types[s.arguments["weight"]]
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
