"""What must not pass in silence: a wrong option, and strict."""

import onnx
import pytest

import aneforge.provider  # noqa: F401 - registers the provider
from tests.provider.graphs import cnn, interrupted, model, node, session


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"strct": "1"}, "unknown option 'strct'; did you mean strict"),
        ({"target": "m99"}, "unknown target 'm99'"),
        ({"numerics": "double"}, "takes one of engine, fp16, fp32"),
        ({"min_nodes": "many"}, "takes a whole number"),
        ({"opt": "-no-such-rule"}, "no rewrite 'no-such-rule'"),
        ({"opt": "max"}, "'opt'.*not effective"),
        ({"compress": "int5"}, "'compress' takes none, int8"),
        ({"compress_atol": "2"}, "'compress_atol' takes a number from 0 up to 1"),
        ({"backend": "e5rt"}, "e5rt"),
    ],
)
@pytest.mark.parametrize("source", [cnn, interrupted])
def test_a_wrong_option_fails_the_session(source: object, options: dict[str, str], says: str) -> None:
    with pytest.raises(Exception, match=says):
        session(source(), options)  # type: ignore[operator]


def test_a_wrong_option_with_nothing_to_claim() -> None:
    only = model([node("Det", "x", "y")], {"x": [2, 2]}, {"y": []})
    assert session(only).run(None, {"x": __import__("numpy").eye(2, dtype="float32")})[0] == 1
    with pytest.raises(Exception, match="unknown option 'nonsense'"):
        session(only, {"nonsense": "1"})


def test_strict_passes_what_runs_whole() -> None:
    session(cnn(), {"strict": "1"})
    session(cnn(), {"strict": "1"}, optimize=False)


def test_strict_lists_every_node() -> None:
    nodes = [node("Det", "x", "d"), node("Relu", "d", "r"), node("Acosh", "x", "a"), node("Relu", "a", "s")]
    both = model(nodes, {"x": [1, 2, 2]}, {"r": [1], "s": [1, 2, 2]})
    with pytest.raises(Exception, match="strict=1") as caught:
        session(both, {"strict": "1"})
    text = str(caught.value)
    assert "'Det'" in text
    assert "n_d" in text
    assert "Relu" not in text


def test_strict_with_control_flow() -> None:
    then, other = (
        onnx.helper.make_graph([node("Relu", "x", name)], name, [], [onnx.helper.make_tensor_value_info(name, 1, [2])])
        for name in ("t", "e")
    )
    made = model(
        [node("If", "c", "y", then_branch=then, else_branch=other)], {"x": [2], "c": []}, {"y": [2]}, types={"c": 9}
    )
    with pytest.raises(Exception, match="ONNX op 'If' not supported"):
        session(made, {"strict": "1"})
