"""Where importers are known to go wrong (engine_ops §H2, §H3): right against ONNX Runtime's CPU provider or plain numpy, or
refused with a listed kind; never anything else."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import raw_rows
import wrong_rows
from onnx import TensorProto, helper, numpy_helper
from trap_kit import Trap, answer, check, truth

from aneforge.onnx.importer import import_graph
from aneforge.onnx.view import from_model
from aneforge.options import Options

WRONG, RAW = list(wrong_rows.rows()), list(raw_rows.rows())


@pytest.mark.parametrize("trap", WRONG, ids=str)
def test_silently_wrong_elsewhere(trap: Trap) -> None:
    check(trap)


@pytest.mark.parametrize("trap", RAW, ids=str)
def test_a_raw_exception_elsewhere(trap: Trap) -> None:
    check(trap)


@pytest.mark.parametrize("trap", [t for t in WRONG if "ttention" in t.name], ids=str)
def test_fused_attention_drops_no_bias(trap: Trap) -> None:
    check(trap, Options(fuse_attention=True))


def test_names_are_unique() -> None:
    names = [t.name for t in (*WRONG, *RAW)]
    assert len(set(names)) == len(names)


def test_the_judge_can_say_wrong() -> None:
    """A row with another truth fails, and so does one that expects the other answer."""
    x = np.float32([[1, -2]])
    with pytest.raises(AssertionError, match="y in fp32"):
        check(Trap("t", [("Relu", "x", "y")], {"x": x}, want=[x]))
    with pytest.raises(AssertionError, match="right"):
        check(Trap("t", [("Relu", "x", "y")], {"x": x}, expect="refused"))
    with pytest.raises(AssertionError, match="refused"):
        check(Trap("t", [("Det", "x", "y")], {"x": np.eye(2, dtype=np.float32)}))


def test_the_callers_model_is_left_alone() -> None:
    """The fold of a batch norm must not be seen in the ModelProto that was given."""
    trap = next(t for t in WRONG if t.name.startswith("a weight that two Convs share"))
    model = trap.model()
    before = model.SerializeToString(deterministic=True)
    import_graph(from_model(model)).program()
    assert model.SerializeToString(deterministic=True) == before


def test_a_loop_of_no_trips() -> None:
    """A scan output without a single slice is empty: refused, never an exception of numpy's."""
    float_, bool_, int_ = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Add", ["v", "v"], ["w"]),
         helper.make_node("Identity", ["w"], ["s"])],
        "body",
        [info("i", int_, []), info("c", bool_, []), info("v", float_, [2])],
        [info("d", bool_, []), info("w", float_, [2]), info("s", float_, [2])],
    )  # fmt: skip
    for trips in (0, 3):
        node = helper.make_node("Loop", ["n", "t", "x"], ["y", "z"], body=body)
        held = [numpy_helper.from_array(np.array(trips, np.int64), "n"), numpy_helper.from_array(np.array(True), "t")]
        graph = helper.make_graph(
            [node], "g", [info("x", float_, [2])], [info("y", float_, [2]), info("z", float_, None)], held
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

        class Given(Trap):
            def model(self, made: onnx.ModelProto = made) -> onnx.ModelProto:
                return made

        trap = Given(f"loop {trips}", [], {"x": np.float32([1, -2])}, outputs="y z", expect="either")
        assert check(trap) in ("right", "refused")


def test_a_name_of_the_outer_graph_inside_a_body() -> None:
    """A body that reads what a fold has moved: the If's branches use the Conv's result below its batch norm."""
    float_, info = TensorProto.FLOAT, helper.make_tensor_value_info
    branches = {
        f"{which}_branch": helper.make_graph(
            [helper.make_node(op, ["a"], [f"{which}_y"])], which, [], [info(f"{which}_y", float_, [1, 3, 4, 4])]
        )
        for which, op in (("then", "Relu"), ("else", "Neg"))
    }
    held = {"w": wrong_rows.f(3, 2, 3, 3), "g": np.ones(3, np.float32) * 2, "b": wrong_rows.f(3), "m": wrong_rows.f(3),
            "v": np.ones(3, np.float32), "k": np.array(True)}  # fmt: skip
    nodes = [
        ("Conv", "x w", "a"),
        ("BatchNormalization", "a g b m v", "c"),
        ("If", "k", "d", branches),
        ("Add", "c d", "y"),
    ]
    trap = Trap("names in bodies", nodes, {"x": wrong_rows.f(1, 2, 6, 6)}, held, "either")
    check(trap)


def test_what_is_refused_is_told_with_its_node() -> None:
    trap = next(t for t in RAW if t.name == "Reshape to a computed shape")
    assert answer(trap, "fp32") == ["computed parameter"]
    assert truth(trap)[0].shape == (4, 3)
