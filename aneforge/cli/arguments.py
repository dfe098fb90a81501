"""Arguments that several commands share, and what they mean for a session and for strict loading."""

from __future__ import annotations

import argparse
from typing import Any

from .errors import UsageError

# onnxruntime's own lines (one for every mixed session) would drown ours; errors are raised anyway.
_ORT_ERRORS_ONLY = 3


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an ONNX file")
    parser.add_argument("--strict", action="store_true", help="all on the engine, or say which nodes are not")
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="an option, such as target=m4"
    )
    parser.add_argument(
        "--no-fuse", action="store_true", help="leave the blocks of networks alone (option opt=-composite)"
    )
    parser.add_argument(
        "--input-shape", action="append", default=[], metavar="NAME=1x3x224x224", help="the fixed shape of an input"
    )
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=EXTENT", help="the extent of a dimension")


def options(given: argparse.Namespace, *, compiles: bool = True) -> dict[str, str]:
    """The options, checked; `compiles`: also that the backend is here.

    Raises:
        UsageError: no KEY=VALUE.
        OptionError, NotImplementedError: an unknown key, a value that it does not take, or one without effect yet.
        BackendUnavailableError: the backend that they ask for is not here.
    """
    from ..backends import choose
    from ..options import Options
    from ..pipeline import check_effective

    chosen = dict(_pair(text, "--option", "target=m4") for text in given.option)
    if given.no_fuse:
        off = [part for part in chosen.get("opt", "").split(",") if part.strip().startswith("-")]
        if chosen.get("opt", "").strip() != "0":  # which leaves them alone anyway
            chosen["opt"] = ",".join([*off, "-composite"])
    parsed = Options.parse(chosen)
    check_effective(parsed)
    if compiles:
        choose(parsed)
    return chosen


def dims(given: argparse.Namespace) -> dict[str, int]:
    """Extents by symbol. Raises UsageError."""
    found = {}
    for text in given.dim:
        name, extent = _pair(text, "--dim", "batch=1")
        if not extent.isdecimal() or int(extent) < 1:
            raise UsageError(f"--dim takes NAME=EXTENT with a whole number from 1 up, such as batch=1; not {text!r}")
        found[name] = int(extent)
    return found


def shapes(given: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """Shapes by input. Raises UsageError."""
    found = {}
    for text in given.input_shape:
        name, shape = _pair(text, "--input-shape", "x=1x3x224x224")
        parts = shape.lower().replace(",", "x").split("x")
        if not all(part.isdecimal() and int(part) > 0 for part in parts):
            raise UsageError(f"--input-shape takes NAME=extents, such as x=1x3x224x224; not {text!r}")
        found[name] = tuple(map(int, parts))
    return found


def session(given: argparse.Namespace) -> Any:
    """An InferenceSession of the model with the provider.

    Raises:
        UsageError: what --dim and --input-shape give is no extent or shape.
    """
    import onnxruntime

    import aneforge.provider

    chosen = options(given)
    fixed, shaped = _extents(given)
    if shaped:
        told = [f"{name}={'x'.join(map(str, shape))}" for name, shape in shaped.items()]
        chosen["input_shapes"] = ";".join([*filter(None, [chosen.get("input_shapes", "")]), *told])
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = _ORT_ERRORS_ONLY
    for name, extent in fixed.items():
        settings.add_free_dimension_override_by_name(name, extent)
    providers = [(aneforge.provider.NAME, chosen)]
    return onnxruntime.InferenceSession(given.model, settings, providers=providers, enable_fallback=False)


def load(given: argparse.Namespace) -> Any:
    """The model, loaded strictly."""
    import aneforge

    apart = ("fuse_attention", "approx_resize", "dims", "input_shapes")
    chosen: dict[str, Any] = {key: value for key, value in options(given).items() if key not in apart}
    from ..options import Options

    parsed = Options.parse(options(given))
    return aneforge.load_onnx(
        given.model,
        fuse_attention=parsed.fuse_attention,
        approx_resize=parsed.approx_resize,
        input_shapes={**dict(parsed.input_shapes), **shapes(given)} or None,
        dims={**dict(parsed.dims), **dims(given)} or None,
        **chosen,
    )


def _pair(text: str, flag: str, example: str) -> tuple[str, str]:
    name, sign, value = text.rpartition("=") if flag != "--option" else text.partition("=")
    if not sign or not name:
        raise UsageError(f"{flag} takes NAME=VALUE, such as {example}; not {text!r}")
    return name, value


def _extents(given: argparse.Namespace) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Extents by symbol, from --dim and from the symbols that the shapes of --input-shape meet: what onnxruntime can
    be told; and the shapes of inputs with axes that have no name, which only the provider can. Names, ranks and
    contradictions are checked against the model."""
    named, shaped = dims(given), shapes(given)
    if not named and not shaped:
        return {}, {}
    from ..onnx.view import from_model

    after, before = from_model(given.model, named, shaped), from_model(given.model)
    found, nameless = dict(named), {}
    for name, shape in shaped.items():
        declared, fixed = before.values[name].shape, after.values[name].shape
        if declared is None or fixed is None or None in declared:
            nameless[name] = shape
            continue
        found |= {
            old: new for old, new in zip(declared, fixed, strict=True) if isinstance(old, str) and isinstance(new, int)
        }
    return found, nameless
