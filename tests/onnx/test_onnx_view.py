"""Both doors of the graph view: what comes in, and what is refused with which words."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aneforge.errors import ModelError, OptionError
from aneforge.onnx.view import GraphView, from_bytes, from_model

W = np.arange(12, dtype=np.float32).reshape(3, 4)


def model(
    nodes=None,
    inputs=(("x", ["batch", 3]),),
    outputs=("y",),
    constants=(("w", W),),
    opset=17,
    ir=8,
    functions=(),
    also=(),
) -> onnx.ModelProto:
    nodes = nodes if nodes is not None else [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs]
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    held = [a if isinstance(a, TensorProto) else numpy_helper.from_array(a, n) for n, a in constants]
    graph = helper.make_graph(nodes, "g", infos, outs, held)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, v) for d, v in also)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir, functions=list(functions))


def external(location: str, offset: int = 0, length: int | None = None, name: str = "w") -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=W.shape, data_location=TensorProto.EXTERNAL)
    given = {"location": location, "offset": str(offset), **({"length": str(length)} if length is not None else {})}
    for key, value in given.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def saved(folder: Path, proto: onnx.ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


# ---------------------------------------------------------------- what comes in


def test_three_forms_give_one_view(tmp_path: Path) -> None:
    proto = model()
    before = proto.SerializeToString(deterministic=True)
    for source in (saved(tmp_path, proto), str(tmp_path / "model.onnx"), proto.SerializeToString(), proto):
        view = from_model(source)
        assert [(n.op, n.name, n.domain, n.version, n.inputs) for n in view.nodes] == [
            ("MatMul", "mm", "", 17, ("x", "w"))
        ]
        assert view.inputs == ("x",) and view.outputs == ("y",)
        assert np.array_equal(view.values["w"].data, W)
        assert view.values["x"].shape == ("batch", 3) and view.values["y"].shape == ("batch", 4)
        assert view.values["y"].dtype == np.float32
    assert proto.SerializeToString(deterministic=True) == before


def test_dims_and_input_shapes_reach_what_follows() -> None:
    assert from_model(model(), dims={"batch": 5}).values["y"].shape == (5, 4)
    assert from_model(model(), input_shapes={"x": (7, 3)}).values["y"].shape == (7, 4)
    two = model([helper.make_node("Add", ["x", "z"], ["y"])], (("x", ["n", 3]), ("z", ["n", 3])), constants=())
    assert from_model(two, input_shapes={"x": (2, 3)}).values["z"].shape == (2, 3)


def test_unnamed_dims_are_not_one_symbol() -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], (("x", ["?", "?"]),), constants=())
    assert from_model(proto).values["x"].shape == (None, None)
    assert from_model(proto, input_shapes={"x": (2, 3)}).values["y"].shape == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"dims": {"bath": 1}}, "batch"),
        ({"input_shapes": {"data": (1, 3)}}, "x"),
        ({"input_shapes": {"x": (1, 4)}}, "does not fit"),
        ({"input_shapes": {"x": (1, 3, 1)}}, "rank 2"),
        ({"input_shapes": {"x": (-1, 3)}}, "negative"),
        ({"input_shapes": {"x": (2, 3)}, "dims": {"batch": 1}}, "batch"),
    ],
)
def test_wrong_dims_are_named(arguments: dict, word: str) -> None:
    with pytest.raises(OptionError, match=word):
        from_model(model(), **arguments)


def test_old_files_list_constants_as_inputs() -> None:
    proto = model(inputs=(("x", [1, 3]), ("w", [3, 4])), ir=3, opset=8)
    view = from_model(proto)
    assert view.inputs == ("x",) and view.values["w"].data is not None


def test_replaceable_constants_stay_open_in_a_session() -> None:
    proto = model(inputs=(("x", [1, 3]), ("w", [3, 4])))
    assert from_model(proto).inputs == ("x",)
    view = from_bytes(proto.SerializeToString())
    assert view.inputs == ("x", "w") and view.values["w"].data is None


def test_bodies_and_what_they_read() -> None:
    then = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["a"])], "then", [], [helper.make_empty_tensor_value_info("a")]
    )
    held = numpy_helper.from_array(W[:1], "w")  # hides the outer one
    other = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["b"])], "else", [], [helper.make_empty_tensor_value_info("b")], [held]
    )
    branch = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)
    constants = [("w", W), ("c", np.array(True))]
    proto = model([branch], (("x", [3, 4]),), constants=constants)
    view = from_model(proto) if False else from_bytes(proto.SerializeToString())
    node = view.nodes[0]
    assert set(node.implicit) == {"x", "w"}
    body = node.attributes["then_branch"]
    assert isinstance(body, GraphView) and body.values["w"].outer and body.values["w"].data is None
    assert np.array_equal(node.attributes["else_branch"].values["w"].data, W[:1])
    assert {"x", "w"} <= view.read


def test_functions_are_expanded() -> None:
    one = helper.make_node("Constant", [], ["one"], value_float=1.0)
    function = helper.make_function(
        "local",
        "Relu",
        ["a"],
        ["b"],
        [one, helper.make_node("Add", ["a", "one"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    nodes = [helper.make_node("Relu", ["x"], ["t"], domain="local"), helper.make_node("Relu", ["t"], ["y"])]
    proto = model(nodes, (("x", [3]),), constants=(), functions=[function], also=[("local", 1)], ir=9)
    view = from_model(proto)
    assert [(n.domain, n.op) for n in view.nodes] == [("", "Constant"), ("", "Add"), ("", "Relu")]


def test_attributes_of_every_kind() -> None:
    attributes = {
        "i": 3,
        "f": 0.5,
        "s": "word",
        "ii": [1, 2],
        "ff": [0.5, 2.0],
        "ss": ["a", "b"],
        "t": numpy_helper.from_array(W),
    }
    node = helper.make_node("Odd", ["x"], ["y"], domain="org.example", **attributes)
    view = from_bytes(model([node], (("x", [3]),), constants=(), also=[("org.example", 2)]).SerializeToString())
    got = dict(view.nodes[0].attributes)
    assert np.array_equal(got.pop("t"), W) and view.nodes[0].version == 2
    assert got == {"i": 3, "f": 0.5, "s": "word", "ii": (1, 2), "ff": (0.5, 2.0), "ss": ("a", "b")}


# ---------------------------------------------------------------- external data


def test_external_data_is_mapped(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "größe 1.bin").write_bytes(b"\xff" * 3 + W.tobytes())
    proto = model(constants=[("w", external("data/größe 1.bin", 3))])
    view = from_model(saved(tmp_path, proto))
    assert np.array_equal(view.values["w"].data, W)


def test_external_empty_tensor(tmp_path: Path) -> None:
    (tmp_path / "empty.bin").write_bytes(b"")
    tensor = external("empty.bin", 0, 0)
    del tensor.dims[:]
    tensor.dims.extend([0, 4])
    proto = model([helper.make_node("Concat", ["w", "x"], ["y"], axis=0)], (("x", [2, 4]),), constants=[("w", tensor)])
    assert from_model(saved(tmp_path, proto)).values["w"].data.shape == (0, 4)


@pytest.mark.parametrize(
    ("tensor", "word"),
    [
        (external("gone.bin"), "gone.bin"),
        (external("../outside.bin"), "leaves the model's folder"),
        (external("/etc/hostname"), "not relative"),
        (external("short.bin"), "only 5"),
        (external("zero.bin"), "only 0"),
        (external("link.bin"), "leaves the model's folder"),
        (external("short.bin", 0, 4), "needs 48 bytes"),
        (external(""), "not relative"),
        (external("."), "not a file"),
    ],
)
def test_bad_external_data_is_named(tmp_path: Path, tensor: TensorProto, word: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "outside.bin").write_bytes(W.tobytes())
    (inner / "short.bin").write_bytes(b"12345")
    (inner / "zero.bin").write_bytes(b"")
    (inner / "link.bin").symlink_to(tmp_path / "outside.bin")
    with pytest.raises(ModelError, match=word):
        from_model(saved(inner, model(constants=[("w", tensor)])))


def test_external_data_without_a_folder() -> None:
    with pytest.raises(ModelError, match="pass its path"):
        from_model(model(constants=[("w", external("w.bin"))]))
    with pytest.raises(ModelError):  # memory is for the native provider's door alone
        from_model(model(constants=[("w", external("@mem", W.ctypes.data, W.nbytes))]))


def test_weights_by_address_are_not_copied() -> None:
    held = np.ascontiguousarray(W + 1)
    proto = model(constants=[("w", external("@mem", held.ctypes.data, held.nbytes))])
    data = from_bytes(proto.SerializeToString()).values["w"].data
    assert data.ctypes.data == held.ctypes.data and np.array_equal(data, held)
    held[0, 0] = 42
    assert data[0, 0] == 42
    assert ctypes.sizeof(ctypes.c_float) == data.itemsize


# ---------------------------------------------------------------- what is not a model


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.onnx"):
        from_model(tmp_path / "nowhere.onnx")
    with pytest.raises(ModelError, match="cannot read"):
        from_model(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"hello, this is no model", b"\x00" * 64, b"\x7fELF" + bytes(range(200)), b"{}"]
)
def test_bytes_that_are_no_model(content: bytes) -> None:
    with pytest.raises(ModelError, match="not ONNX, or is damaged"):
        from_model(content)


def test_damaged_models_raise_one_error() -> None:
    whole = model().SerializeToString()
    for cut in range(1, len(whole), 7):
        try:
            from_model(whole[:cut])
        except ModelError:
            continue
    for place in range(0, len(whole), 5):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        try:
            from_model(bytes(broken))
        except ModelError:
            continue


@pytest.mark.parametrize(
    ("proto", "word"),
    [
        (model(opset=99), "opset 99"),
        (model(ir=99), "IR version 99"),
        (model([helper.make_node("MatMul", ["x", "nothing"], ["y"])]), "nothing"),
        (model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["x"], ["y"])]), "y"),
        (model([helper.make_node("NoSuchOperator", ["x"], ["y"])]), "NoSuchOperator"),
        (model([helper.make_node("Relu", ["x"], ["y"], slope=1.0)]), "slope"),
        (model([helper.make_node("Relu", ["x", "x"], ["y"])]), "Relu"),
        (model(constants=[("w", TensorProto(name="w", data_type=1, dims=[3, 4], raw_data=b"123"))]), "48 bytes"),
        (model(constants=[("w", TensorProto(name="w", data_type=1, dims=[3, -4], raw_data=b""))]), "-4"),
        (model(constants=[("w", TensorProto(name="w", data_type=1, dims=[3, 4], float_data=[1.0]))]), "'w'"),
    ],
)
def test_invalid_models_are_named(proto: onnx.ModelProto, word: str) -> None:
    with pytest.raises(ModelError, match=word):
        from_model(proto.SerializeToString())


def test_something_else_entirely() -> None:
    with pytest.raises(TypeError, match="path, bytes or"):
        from_model(42)  # type: ignore[arg-type]
