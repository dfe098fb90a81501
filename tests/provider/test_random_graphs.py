"""Random graphs through onnxruntime: whatever the division into regions, the numbers are those of the CPU, exactly.

The operators neither round nor grow, so small whole numbers stay exact in fp16; a cast to double and back is what stays
on the CPU. Some results are graph outputs, some are read by both sides, some by nobody.
"""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aneforge.provider
from tests.provider.graphs import NAME, groups, model, node, placement, reference, rng, session

UNARY, BINARY = ("Relu", "Neg", "Abs"), ("Min", "Max")


@st.composite
def graphs(draw: st.DrawFn) -> onnx.ModelProto:
    values = ["x", "z"]
    nodes = []
    for i in range(draw(st.integers(2, 14))):
        op = draw(st.sampled_from([*UNARY, *BINARY, "Cast", "Shape"]))
        first, second = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        if op == "Cast":
            nodes += [node("Cast", first, f"d{i}", to=11), node("Cast", f"d{i}", f"v{i}", to=1)]
        elif op == "Shape":
            nodes += [node("Shape", first, f"s{i}"), node("Reshape", f"{second} s{i}", f"v{i}")]
        elif op in UNARY:
            nodes.append(node(op, first, f"v{i}"))
        else:
            nodes.append(node(op, f"{first} {second}", f"v{i}"))
        values.append(f"v{i}")
    outputs = draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=3, unique=True))
    return model(nodes, {"x": [2, 3], "z": [2, 3]}, {name: [2, 3] for name in outputs})


@pytest.mark.parametrize("optimize", [False, True])
@settings(max_examples=80, deadline=None)
@given(graphs())
def test_equal_to_the_cpu(optimize: bool, made: onnx.ModelProto) -> None:
    draw = rng(0)
    feeds = {name: draw.integers(-9, 10, (2, 3)).astype(np.float32) for name in ("x", "z")}
    run = session(made, optimize=optimize, threads=1)
    for got, expected in zip(run.run(None, feeds), reference(made, feeds), strict=True):
        assert np.array_equal(got, expected)
    report = aneforge.provider.report(run)
    assert len(report.regions) == groups(run)
    assert sum(n.region is not None for n in report.nodes) == len(placement(run).get(NAME, []))
    assert not [n for n in report.nodes if n.kind == "bug"]
