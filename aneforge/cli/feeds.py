"""Inputs of a model for one run: from files, or seeded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import UsageError

SEED = 0
HELP = (
    "inputs by name: IN.npz, NAME=file.npy, NAME=file.npz (with one array or one of that name) or NAME=picture.png "
    "(resized; 0 to 1 for a float input); without it, seeded random ones"
)
Input = tuple[str, str, list[Any]]
"""Name, type as onnxruntime writes it ("tensor(float)"), shape."""

# onnxruntime's names of element types, and numpy's as they stand in a Model
_DTYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "float32": "float32", "float64": "float64",
    "bool": "bool", **{f"{s}int{b}": f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)},
}  # fmt: skip
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")


def named(given: Sequence[str]) -> str:
    """What a report calls the inputs."""
    return ", ".join(given) if given else f"seeded ({SEED})"


def feeds(given: Sequence[str], inputs: Sequence[Input]) -> dict[str, Any]:
    """The arrays: those given, each of which must be an input, or seeded ones for all.

    Raises:
        UsageError: a file that cannot be read, a name that is no input, one that is missing, a shape that is not fixed.
    """
    if not given:
        return seeded(inputs)
    found: dict[str, Any] = {}
    for text in given:
        name, sign, path = text.partition("=")
        if not sign:
            found |= _archive(text)
        elif path.lower().endswith(_PICTURES):
            found[name] = _picture(name, path, inputs)
        else:
            found[name] = _array(name, path)
    _complete(inputs, found)
    return found


def seeded(inputs: Sequence[Input]) -> dict[str, Any]:
    """Uniform floats in [0, 1), whole numbers below 8, coin tosses for bools: the same in every run."""
    import numpy as np

    draw = np.random.default_rng(SEED)
    made: dict[str, Any] = {}
    for name, kind, shape in inputs:
        loose = [d for d in shape if not isinstance(d, int)]
        if loose:
            how = " ".join(f"--dim {d}=1" if d else f"--input-shape {name}=…" for d in dict.fromkeys(loose))
            raise UsageError(f"input {name!r} has the shape {shape}, which is not fixed; give it, for example: {how}")
        dtype = _dtype(name, kind)
        if dtype.kind == "f":
            made[name] = draw.random(shape).astype(dtype)
        elif dtype.kind == "b":
            made[name] = draw.random(shape) < 0.5
        else:
            made[name] = draw.integers(0, 8, shape).astype(dtype)
    return made


def _dtype(name: str, kind: str) -> Any:
    import numpy as np

    word = kind.removeprefix("tensor(").removesuffix(")")
    if word not in _DTYPES:
        raise UsageError(f"input {name!r} is {kind}: there is no seeded input for it; give one with --input")
    return np.dtype(_DTYPES[word])


def _archive(path: str) -> dict[str, Any]:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f"--input {path}: not an .npz file of arrays: {error}") from error


def _array(name: str, path: str) -> Any:
    import numpy as np

    try:
        if path.lower().endswith(".npz"):
            held = _archive(path)
            if name not in held and len(held) != 1:
                raise UsageError(f"--input {name}={path}: it holds {', '.join(held)}, and no {name!r}")
            return held[name] if name in held else next(iter(held.values()))
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"--input {name}={path}: not an .npy file: {error}") from error
    return array


def _picture(name: str, path: str, inputs: Sequence[Input]) -> Any:
    """A picture for an input [1, 3 or 1, H, W] or [1, H, W, 3 or 1]."""
    import numpy as np

    found = next((entry for entry in inputs if entry[0] == name), None)
    if found is None:
        raise UsageError(f"no input {name!r}; the model's inputs are {', '.join(repr(n) for n, _, _ in inputs)}")
    _, kind, shape = found
    if len(shape) != 4 or not all(isinstance(d, int) for d in shape) or not {shape[1], shape[3]} & {1, 3}:
        raise UsageError(f"--input {name}={path}: an input of the shape {shape} takes no picture")
    try:
        from PIL import Image

        first = shape[1] in (1, 3)
        channels, height, width = (shape[1], shape[2], shape[3]) if first else (shape[3], shape[1], shape[2])
        image = Image.open(path).convert("RGB" if channels == 3 else "L").resize((width, height))
    except ImportError as error:
        raise UsageError(f"--input {name}={path}: reading pictures needs Pillow (pip install pillow)") from error
    except OSError as error:
        raise UsageError(f"--input {name}={path}: {error}") from error
    dtype = _dtype(name, kind)
    pixels = np.asarray(image).reshape(height, width, channels)
    pixels = (pixels / 255).astype(dtype) if dtype.kind == "f" else pixels.astype(dtype)
    pixels = pixels.transpose(2, 0, 1) if first else pixels
    return np.ascontiguousarray(np.broadcast_to(pixels, shape))


def _complete(inputs: Sequence[Input], found: Mapping[str, Any]) -> None:
    names = [name for name, _, _ in inputs]
    unknown, missing = [n for n in found if n not in names], [n for n in names if n not in found]
    if unknown or missing:
        what = [f"no input {n!r}" for n in unknown] + [f"input {n!r} is missing" for n in missing]
        raise UsageError(f"{'; '.join(what)}; the model's inputs are {', '.join(map(repr, names))}")


def finite(value: Any) -> bool:
    """Whether an array holds no infinity and no NaN."""
    import numpy as np

    return value.dtype.kind != "f" or bool(np.isfinite(value).all())
