"""The one table of options. The same words serve `af.load_onnx(..., **options)`, the provider's options (strings, keys
`ep.aneforgeprovider.<option>`), and the command line's `--option key=value`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from .errors import OptionError


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if (text := str(value).strip().lower()) in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off", ""):
        return False
    raise OptionError(f"option {name!r} takes 0 or 1, not {value!r}")


def _count(name: str, value: object) -> int:
    try:
        count = int(str(value))
    except ValueError:
        count = -1
    if count < 0:
        raise OptionError(f"option {name!r} takes a whole number from 0 up, not {value!r}")
    return count


def _number(name: str, value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise OptionError(f"option {name!r} takes a number, not {value!r}") from None


def _tolerance(name: str, value: object) -> float:
    number = _number(name, value)
    if not 0 <= number < 1:
        raise OptionError(f"option {name!r} takes a number from 0 up to 1, not {value!r}")
    return number


def _block(name: str, value: object) -> int:
    count = _count(name, value)
    if count < 1:
        raise OptionError(f"option {name!r} takes a whole number from 1 up, not {value!r}")
    return count


def _text(name: str, value: object) -> str:
    return str(value)


def _one_of(*words: str) -> Callable[[str, object], str]:
    def parse(name: str, value: object) -> str:
        word = str(value).strip().lower()
        if word not in words:
            raise OptionError(f"option {name!r} takes one of {', '.join(words)}; not {value!r}")
        return word

    return parse


def _target(name: str, value: object) -> str:
    from .targets import resolve  # noqa: PLC0415 - data files are read only when a target is named

    word = str(value).strip().lower()
    resolve(word)
    return word


def _dims(name: str, value: object) -> tuple[tuple[str, int], ...]:
    """{"batch": 1} or "batch=1,seq=128"."""
    if isinstance(value, Mapping):
        items = [(str(k), v) for k, v in value.items()]
    else:
        parts = [part for part in str(value).replace(";", ",").split(",") if part.strip()]
        items = [(k.strip(), v) for k, _, v in (part.partition("=") for part in parts)]
    out = []
    for key, extent in items:
        try:
            fixed = int(str(extent))
        except ValueError:
            fixed = 0
        if fixed < 1 or not key:
            raise OptionError(f"option {name!r} takes name=extent pairs such as batch=1; not {value!r}")
        out.append((key, fixed))
    return tuple(sorted(out))


def _shapes(name: str, value: object) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """{"x": (1, 3, 224, 224)} or "x=1x3x224x224;y=2x5"."""
    if isinstance(value, Mapping):
        items = [(str(k), [str(d) for d in v]) for k, v in value.items()]
    else:
        parts = [part.strip() for part in str(value).split(";") if part.strip()]
        items = [(k.strip(), v.lower().split("x")) for k, _, v in (part.rpartition("=") for part in parts)]
    out = []
    for key, extents in items:
        if not key or not all(e.strip().isdecimal() and int(e) > 0 for e in extents):
            raise OptionError(f"option {name!r} takes input=extents such as x=1x3x224x224;y=2x5; not {value!r}")
        out.append((key, tuple(map(int, extents))))
    return tuple(sorted(out))


def _compress(name: str, value: object) -> str:
    word = "none" if value in (None, False, "") else str(value).strip().lower()
    if word not in ("none", "int8", "int4", "sparse", "blockwise", "auto"):
        raise OptionError(f"option {name!r} takes none, int8, int4, sparse, blockwise or auto; not {value!r}")
    return word


def _opt(name: str, value: object) -> str:
    word = "routes" if value is None else str(value).strip().lower()
    if word in ("routes", "max", "0", "1", "2") or all(
        part.startswith("-") and len(part) > 1 for part in word.split(",")
    ):
        return word
    raise OptionError(
        f"option {name!r} takes routes, max, 0, 1, 2, or rules to switch off such as '-gelu'; not {value!r}"
    )


@dataclass(frozen=True)
class Option:
    """One row: how a value is read, what it is when absent, what it means."""

    parse: Callable[[str, object], Any]
    default: Any
    help: str


TABLE: dict[str, Option] = {
    "target": Option(
        _target, "auto", "engine to compile for: auto, m1 … m5, or one of the compiler's strings (h13 … h18)"
    ),
    "backend": Option(_one_of("auto", "e5rt", "coreml", "host"), "auto", "who runs the program"),
    "numerics": Option(
        _one_of("engine", "fp16", "fp32"), "engine", "host arithmetic: as the engine, plain fp16, or fp32"
    ),
    "opt": Option(_opt, "routes", "rewrites: routes (default), 0 none, or names to switch off ('-gelu,-silu')"),
    "compress": Option(_compress, "none", "encoding of weights: int8, int4, sparse, blockwise, or auto (smallest)"),
    "compress_atol": Option(_tolerance, 0.05, "a weight with a larger relative L2 error stays fp16"),
    "block_size": Option(_block, 32, "weights that share a scale, for compress=blockwise"),
    "partition": Option(_one_of("auto", "all"), "auto", "all: also claim regions that are not worth a dispatch"),
    "min_nodes": Option(_count, 1, "smallest region, in nodes, that is claimed"),
    "dims": Option(_dims, (), "extents for symbolic dimensions: batch=1,seq=128"),
    "input_shapes": Option(_shapes, (), "fixed shapes of inputs: x=1x3x224x224;y=2x5"),
    "approx_resize": Option(_flag, False, "use the engine's own bilinear where ONNX asks for another sampling"),
    "fuse_attention": Option(_flag, False, "emit the engine's attention where the target has it"),
    "strict": Option(_flag, False, "creation fails unless every node runs on the engine"),
    "cache_dir": Option(
        _text,
        "",
        "folder for what the engine's compilers read and write; empty: the user's cache (the host keeps nothing)",
    ),
    "report": Option(_text, "", "write the session's report to this JSON file"),
    "compile_guard": Option(
        _one_of("auto", "on", "off"), "auto", "compile unknown programs in a child process (engine only)"
    ),
    "on_overflow": Option(_one_of("warn", "error", "ignore"), "warn", "finite inputs gave inf or NaN at a port"),
}


@dataclass(frozen=True)
class Options:
    """Parsed options; one field for each row of TABLE."""

    target: str = "auto"
    backend: str = "auto"
    numerics: str = "engine"
    opt: str = "routes"
    compress: str = "none"
    compress_atol: float = 0.05
    block_size: int = 32
    partition: str = "auto"
    min_nodes: int = 1
    dims: tuple[tuple[str, int], ...] = ()
    input_shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    approx_resize: bool = False
    fuse_attention: bool = False
    strict: bool = False
    cache_dir: str = ""
    report: str = ""
    compile_guard: str = "auto"
    on_overflow: str = "warn"

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Options:
        """Reads options given as strings or as Python values.

        Raises:
            OptionError: an unknown name (the near ones are listed) or a value that the option does not take.
            NotImplementedError: an option that is known but not yet effective; never ignored in silence.
        """
        for name in given:
            if name not in TABLE:
                near = difflib.get_close_matches(name, TABLE, n=3, cutoff=0.5)
                hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(TABLE)}"
                raise OptionError(f"unknown option {name!r}; {hint}")
        return cls(**{name: TABLE[name].parse(name, value) for name, value in given.items()})


assert [f.name for f in fields(Options)] == list(TABLE), "Options and TABLE must list the same names"
