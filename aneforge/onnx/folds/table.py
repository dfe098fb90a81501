"""The table itself, and what a function in it is told."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..tensors import Array


class Unfoldable(Exception):
    """This node is not computed at import."""


Fold = Callable[..., Any]
TABLE: dict[str, Fold] = {}


class Call:
    """What a table function is told about the node, beside inputs and attributes. `version` is that of the opset."""

    def __init__(self, version: int, limit: int, n_outputs: int) -> None:
        self.version, self.limit, self.n_outputs = version, limit, n_outputs

    def affords(self, shape: Sequence[int], dtype: np.dtype[Any]) -> tuple[int, ...]:
        """`shape`, if an array of it stays within the budget."""
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > self.limit:
            raise Unfoldable
        return tuple(shape)

    def only_before(self, version: int, *given: Any) -> None:
        """An attribute that the operator lost with an opset."""
        if self.version >= version and any(value is not None for value in given):
            raise Unfoldable


def folds(*names: str) -> Callable[[Fold], Fold]:
    """Registers the function below it."""

    def register(function: Fold) -> Fold:
        for name in names:
            if name in TABLE:
                raise ValueError(f"{name} is folded twice")
            TABLE[name] = function
        return function

    return register


def axes_from(attribute: Sequence[int] | None, given: Array | None) -> list[int] | None:
    """Axes (or other whole numbers) that are an attribute in old versions and an input in new ones."""
    if given is not None:
        return [int(a) for a in given.reshape(-1)]
    return None if attribute is None else list(attribute)


def scalar(given: Array) -> Any:
    """The one element of an input."""
    if given.size != 1:
        raise Unfoldable
    return given.reshape(-1)[0]
