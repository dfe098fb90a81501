"""Fixing dimensions: symbols by name (`dims`), inputs by shape (`input_shapes`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from ..errors import OptionError

Dim = int | str | None


def read_shape(shape: onnx.TensorShapeProto) -> tuple[Dim, ...]:
    """Extents, symbols, or None. A negative extent is what old exporters write for an unknown one, and a "?" on every
    axis that they know nothing about; neither says that two axes are equal."""
    return tuple(_dim(d) for d in shape.dim)


def _dim(d: onnx.TensorShapeProto.Dimension) -> Dim:
    if d.HasField("dim_value"):
        return int(d.dim_value) if d.dim_value >= 0 else None
    return d.dim_param if any(c.isalnum() for c in d.dim_param) else None


@dataclass(frozen=True)
class Binding:
    """What has been fixed: symbol -> extent, input -> full shape."""

    symbols: Mapping[str, int]
    inputs: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(
        cls,
        inputs: Sequence[onnx.ValueInfoProto],
        dims: Mapping[str, int],
        shapes: Mapping[str, Sequence[int]],
        strict: bool = True,
    ) -> Binding:
        """Checks what the caller fixes against what the model declares.

        Raises:
            OptionError: a name that the model does not have (only when strict), or a contradiction.
        """
        declared = {
            i.name: read_shape(i.type.tensor_type.shape) if i.type.tensor_type.HasField("shape") else None
            for i in inputs
        }
        symbols = dict(dims)
        known = sorted({d for s in declared.values() if s for d in s if isinstance(d, str)})
        if strict:
            for name in dims:
                if name not in known:
                    have = f"it has {', '.join(known)}" if known else "it has none"
                    raise OptionError(f"dims: the model has no dimension {name!r} among its inputs; {have}")
            for name in shapes:
                if name not in declared:
                    raise OptionError(f"input_shapes: the model has no input {name!r}; it has {', '.join(declared)}")
        fixed: dict[str, tuple[int, ...]] = {}
        for name, given in shapes.items():
            if name not in declared:
                continue
            fixed[name] = _fit(name, tuple(int(d) for d in given), declared[name], symbols)
        return cls(symbols, fixed)

    def shape(self, name: str, shape: onnx.TensorShapeProto) -> tuple[Dim, ...]:
        """The shape of a value with everything fixed that is fixed."""
        if name in self.inputs:
            return self.inputs[name]
        return tuple(self.symbols.get(d, d) if isinstance(d, str) else d for d in read_shape(shape))


def _fit(
    name: str, given: tuple[int, ...], declared: tuple[Dim, ...] | None, symbols: dict[str, int]
) -> tuple[int, ...]:
    """Checks a given shape against the declared one and learns the symbols that it meets."""
    if any(d < 0 for d in given):
        raise OptionError(f"input_shapes: input {name!r} is given the shape {given}, with a negative extent")
    if declared is None:
        return given
    if len(declared) != len(given):
        raise OptionError(
            f"input_shapes: input {name!r} has the shape {list(declared)}, rank {len(declared)}; given {given}"
        )
    for want, have in zip(declared, given, strict=True):
        if isinstance(want, str):
            if symbols.setdefault(want, have) != have:
                raise OptionError(f"input_shapes: {name!r} gives {want} = {have}, but it is also {symbols[want]}")
        elif want is not None and want != have:
            raise OptionError(
                f"input_shapes: input {name!r} has the shape {list(declared)}, which {given} does not fit"
            )
    return given
