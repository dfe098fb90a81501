"""Dimensions that are not fixed: one warning with the cure, and the two cures."""

import numpy as np
import pytest

import aneforge.provider
from tests.provider.graphs import NAME, close, floats, groups, model, node, placement, reference, session

WEIGHT = floats(4, 3, 3, 3) / 5


def dynamic() -> object:
    return model(
        [node("Conv", "x w", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "y")],
        {"x": ["batch", 3, "height", 8]},
        {"y": ["batch", 4, "height", 8]},
        {"w": WEIGHT},
    )


def test_one_warning_shows_the_option(capfd: pytest.CaptureFixture[str]) -> None:
    made = session(dynamic())  # type: ignore[arg-type]
    warnings = aneforge.provider.report(made).warnings
    assert len(warnings) == 1
    assert '"dims": "batch=1,height=1"' in warnings[0]
    assert "'x' [batch, 3, height, 8]" in warnings[0]
    assert NAME not in placement(made)
    assert {n.kind for n in aneforge.provider.report(made).nodes} == {"dynamic shape"}
    x = floats(2, 3, 5, 8)
    close(made.run(None, {"x": x})[0], reference(dynamic(), {"x": x})[0])  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["option", "override"])
def test_fixed(how: str) -> None:
    dims = {"batch": 2, "height": 5}
    text = ",".join(f"{k}={v}" for k, v in dims.items())
    made = session(dynamic(), {"dims": text}) if how == "option" else session(dynamic(), free_dims=dims)  # type: ignore[arg-type]
    assert groups(made) == 1
    assert not aneforge.provider.report(made).warnings
    x = floats(2, 3, 5, 8)
    close(made.run(None, {"x": x})[0], reference(dynamic(), {"x": x})[0])  # type: ignore[arg-type]
    with pytest.raises(Exception, match="x"):
        made.run(None, {"x": floats(1, 3, 5, 8)})
    close(made.run(None, {"x": x})[0], reference(dynamic(), {"x": x})[0])  # type: ignore[arg-type]


def test_a_slip_of_the_pen_in_dims() -> None:
    made = session(dynamic(), {"dims": "bacth=2,batch=2,height=5"})  # type: ignore[arg-type]
    assert any("'bacth'" in w for w in aneforge.provider.report(made).warnings)
    assert groups(made) == 1


def test_shapes_that_depend_on_data_need_no_advice() -> None:
    made_model = model(
        [node("NonZero", "x", "i"), node("Cast", "i", "f", to=1), node("Relu", "f", "y")],
        {"x": [2, 3]},
        {"y": [2, "n"]},
    )
    made = session(made_model)
    assert aneforge.provider.report(made).warnings == ()
    x = np.array([[1, 0, 2], [0, 0, 3]], np.float32)
    close(made.run(None, {"x": x})[0], reference(made_model, {"x": x})[0])
