"""The one table of options: what each takes, and that a wrong word is a clear error."""

from __future__ import annotations

from dataclasses import fields

import pytest

from aneforge.errors import OptionError
from aneforge.options import TABLE, Options


def test_table_and_dataclass_agree() -> None:
    assert [f.name for f in fields(Options)] == list(TABLE)
    defaults = Options()
    for name, option in TABLE.items():
        assert getattr(defaults, name) == option.default, name
        assert option.help


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"strict": "1"}, "strict", True),
        ({"strict": False}, "strict", False),
        ({"min_nodes": "3"}, "min_nodes", 3),
        ({"dims": "batch=1,seq=128"}, "dims", (("batch", 1), ("seq", 128))),
        ({"dims": {"N": 2}}, "dims", (("N", 2),)),
        ({"opt": 0}, "opt", "0"),
        ({"opt": "-gelu,-composite"}, "opt", "-gelu,-composite"),
        ({"numerics": "FP32"}, "numerics", "fp32"),
        ({"compress": None}, "compress", "none"),
        ({"compress": "INT4"}, "compress", "int4"),
        ({"compress_atol": "0"}, "compress_atol", 0.0),
        ({"block_size": "16"}, "block_size", 16),
        ({"target": "m4"}, "target", "m4"),
    ],
)
def test_read(given: dict[str, object], field: str, value: object) -> None:
    assert getattr(Options.parse(given), field) == value


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"numeric": "fp16"}, "did you mean numerics"),
        ({"zzz": "1"}, "there are: target"),
        ({"strict": "maybe"}, "takes 0 or 1"),
        ({"min_nodes": "-1"}, "whole number"),
        ({"dims": "batch"}, "batch=1"),
        ({"dims": "batch=0"}, "batch=1"),
        ({"backend": "gpu"}, "auto, e5rt, coreml, host"),
        ({"opt": "fast"}, "rules to switch off"),
        ({"compress": "zip"}, "int8, int4, sparse, blockwise or auto"),
        ({"compress_atol": "-0.1"}, "from 0 up to 1"),
        ({"compress_atol": "nan"}, "from 0 up to 1"),
        ({"block_size": 0}, "from 1 up"),
        ({"target": "m9000"}, "m9000"),
    ],
)
def test_wrong_word_is_one_clear_error(given: dict[str, object], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        Options.parse(given)
