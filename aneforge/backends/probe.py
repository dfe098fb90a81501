"""Whether the engine of this machine is to be trusted: one tiny program, compiled and run in a child process, its values compared
with plain arithmetic. A virtual machine has the library and no engine, and a later macOS may have another library.
"""

from __future__ import annotations

import json
import os
from functools import cache as once
from pathlib import Path

import numpy as np

from .. import cache
from ..errors import CompileError
from ..targets import here
from . import guard

KIND = "probe"
_N, _C, _H, _W = 1, 4, 6, 5
_WEIGHT = (np.arange(_C * _C).reshape(_C, _C) * 7 % 5 - 2).astype(np.float32)
_X = ((np.arange(_C * _H * _W) * 11 % 17) - 8).astype(np.float32).reshape(_N, _C, _H, _W)
_SHAPE = f"tensor<fp16, [{_N}, {_C}, {_H}, {_W}]>"
_TEXT = f"""program(1.3)
[buildInfo = dict<string, string>({{{{"coremlc-component-MIL", "3520.4.1"}}, {{"coremlc-version", "3520.5.1"}}}})]
{{
    func main<ios18>({_SHAPE} x) {{
        tensor<fp16, [{_C}, {_C}, 1, 1]> w = const()[name = string("w"), val = tensor<fp16, [{_C}, {_C}, 1, 1]>(
            {[[[[float(k)]] for k in row] for row in _WEIGHT]})];
        string pt = const()[name = string("pt"), val = string("custom")];
        tensor<int32, [2]> one = const()[name = string("one"), val = tensor<int32, [2]>([1, 1])];
        tensor<int32, [4]> pd = const()[name = string("pd"), val = tensor<int32, [4]>([0, 0, 0, 0])];
        int32 g = const()[name = string("g"), val = int32(1)];
        {_SHAPE} c = conv(dilations = one, groups = g, pad = pd, pad_type = pt, strides = one, weight = w, x = x)[name = string("c")];
        {_SHAPE} y = relu(x = c)[name = string("y")];
    }} -> (y);
}}
"""


def trouble(house: cache.Cache) -> str:
    """Why the engine is not to be trusted; empty when the program came out right, now or, on this build of the system, at an
    earlier time. A failure is tried anew by the next process."""
    return _trouble(house.root, os.environ.get("ANEFORGE_E5RT_LIBRARY", ""))


@once
def _trouble(root: Path, library: str) -> str:
    house = cache.Cache(root)
    if not guard.interpreter():
        return ""  # nothing to try it with; the first program will show
    try:
        house.entry(KIND, cache.key(KIND, here().name, library, _TEXT), lambda folder: _right(house, folder)).close()
    except (CompileError, OSError) as error:
        return str(error)
    return ""


def _right(house: cache.Cache, folder: Path) -> None:
    outcome = guard.attempt(_TEXT, b"", house, [_X], 1)
    if outcome.what != guard.COMPILED:
        raise CompileError(f"a tiny program does not run on this machine's engine: {outcome.text}")
    expected = np.maximum(np.einsum("oc,nchw->nohw", _WEIGHT, _X), 0)  # whole numbers: exact in fp16
    if not np.array_equal(outcome.outputs[0], expected.ravel()):
        raise CompileError("a tiny program gives wrong values on this machine's engine")
    (folder / "outcome.json").write_text(json.dumps({"what": outcome.what}), "utf-8")
