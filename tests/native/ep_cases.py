"""The provider library under hooks made in ep_hook.py: what ONNX Runtime and native/ep do with each other. Run by
test_ep_sessions.py, in a process of its own.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from ep_hook import EP, LIBRARY, branch, hook, info, make, mixed, native, number, placed, seen, session
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

X = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    native.install(hook)
    if EP not in ort.get_available_providers():
        ort.register_execution_provider_library(EP, LIBRARY)
    seen.clear()
    yield
    native.install(hook)


# ---------------------------------------------------------------- placement and results


def test_device_is_a_virtual_npu_and_no_default_policy_changes() -> None:
    (device,) = [d for d in ort.get_ep_devices() if d.ep_name == EP]
    assert device.ep_vendor == "ANEForge"
    assert device.device.type == ort.OrtHardwareDeviceType.NPU
    if sys.platform != "darwin":
        assert device.device.vendor == "ANEForge host emulation"
    so = ort.SessionOptions()
    so.set_provider_selection_policy(ort.OrtExecutionProviderDevicePolicy.DEFAULT)
    assert EP not in ort.InferenceSession(mixed(), so).get_providers()


@pytest.mark.parametrize("level", [0, 99])
def test_regions_run(level: int) -> None:
    s = session(mixed(), level=level)
    assert placed(s) == [(EP, ["Add", "Mul"]), (EP, ["Mul", "Relu"]), ("CPU", ["Sigmoid"])]
    a = X + X
    np.testing.assert_allclose(s.run(None, {"x": X})[0], np.maximum(a / (1 + np.exp(-a / 2)), 0), rtol=2e-3, atol=4e-3)


def test_cpu_first_asks_nothing() -> None:
    ort.InferenceSession(mixed(), providers=["CPUExecutionProvider", EP])
    assert not seen


def test_a_group_that_is_not_convex_stays_on_the_cpu() -> None:
    assert {ep for ep, _ in placed(session(mixed(), {"one_group": "1"}))} == {"CPU"}


def test_scalars_and_options() -> None:
    s = session(make([h.make_node("Relu", ["x"], ["y"])], [info("x", ())], [info("y", ())]), {"some": "Word"})
    assert s.run(None, {"x": np.array(3, np.float32)})[0] == 3
    assert seen[0]["options"] == {"some": "Word"} and seen[0]["path"] == ""


def test_path_of_the_model(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    file.write_bytes(mixed())
    so = ort.SessionOptions()
    ort.InferenceSession(str(file), so, providers=[EP])
    assert Path(seen[0]["path"]).samefile(file)


def test_wrong_shape_at_run_time_names_the_input() -> None:
    s = session(mixed(("N", 64)), {"extent": "4"})
    assert s.run(None, {"x": X})[0].shape == (4, 64)
    with pytest.raises(InvalidArgument, match=r"input 'x' is \[2, 64\] in this run, but was compiled for \[4, 64\]"):
        s.run(None, {"x": X[:2]})


# ---------------------------------------------------------------- the graph as it is handed over


@pytest.mark.parametrize("level", [0, 99])
def test_bodies_show_what_they_use_of_graphs_around(level: int) -> None:
    inner = branch([h.make_node("Add", ["ta", "big"], ["i0"]), h.make_node("Add", ["i0", "x"], ["i1"])], "i1")
    other = branch([h.make_node("Relu", ["x"], ["e1"])], "e1")
    outer = branch(
        [
            h.make_node("Add", ["x", "x"], ["ta"]),
            h.make_node("If", ["p"], ["to"], then_branch=inner, else_branch=other),
        ],
        "to",
    )
    third = branch([h.make_node("Mul", ["x", "c"], ["eo"])], "eo")
    model = make(
        [h.make_node("If", ["p"], ["z"], then_branch=outer, else_branch=third), h.make_node("Relu", ["z"], ["y"])],
        [info("x", (4, 600)), info("p", (), T.BOOL)],
        [info("y", (4, 600))],
        {"c": np.float32(0.5), "big": np.full((4, 600), 0.5, np.float32)},
    )
    s = session(model, level=level)
    x = np.ones((4, 600), np.float32)
    assert s.run(None, {"x": x, "p": np.array(True)})[0].max() == 3.5
    assert s.run(None, {"x": x, "p": np.array(False)})[0].max() == 0.5
    shown = {}
    for call in seen:
        g = call["raw"].graph
        inputs = {(i.name, i.doc_string) for i in g.input}
        shown[g.output[0].name] = (call["parent"], inputs, {(t.name, t.doc_string) for t in g.initializer})
    assert shown == {
        "i1": ("If", {("ta", "@outer"), ("x", "@outer")}, {("big", "@outer")}),
        "e1": ("If", {("x", "@outer")}, set()),
        "to": ("If", {("x", "@outer"), ("p", "@outer")}, {("big", "@outer")}),
        "eo": ("If", {("x", "@outer")}, {("c", "@outer")}),
        "y": ("", {("x", ""), ("p", "")}, {("big", ""), ("c", "")}),
    }
    assert [call["parent"] for call in seen][-1] == ""


def test_loop_and_scan_bodies() -> None:
    body = h.make_graph(
        [
            h.make_node("Add", ["v", "x"], ["v1"]),
            h.make_node("Relu", ["v1"], ["v2"]),
            h.make_node("Identity", ["k"], ["k1"]),
        ],
        "body",
        [info("i", (), T.INT64), info("k", (), T.BOOL), info("v", (2, 64))],
        [info("k1", (), T.BOOL), info("v2", (2, 64))],
    )
    loop = make(
        [h.make_node("Loop", ["n", "", "x"], ["y"], body=body)],
        [info("x", (2, 64)), info("n", (), T.INT64)],
        [info("y", (2, 64))],
    )
    s = session(loop)
    assert (EP, ["Add", "Relu"]) in placed(s)
    assert s.run(None, {"x": np.ones((2, 64), np.float32), "n": np.array(3)})[0].max() == 4
    assert [call["parent"] for call in seen] == ["Loop", ""]


def test_other_bodies_are_left_alone() -> None:
    body = h.make_graph([h.make_node("Relu", ["e"], ["e1"])], "b", [info("e", (2, 64))], [info("e1", (2, 64))])
    nodes = [
        h.make_node("SequenceConstruct", ["x", "x"], ["q"]),
        h.make_node("SequenceMap", ["q"], ["r"], body=body),
        h.make_node("SequenceAt", ["r", "k"], ["y"]),
    ]
    s = session(make(nodes, [info("x", (2, 64))], [info("y", (2, 64))], {"k": np.int64(0)}))
    assert s.run(None, {"x": np.ones((2, 64), np.float32)})[0].max() == 1
    assert "SequenceMap" not in {call["parent"] for call in seen}


def test_overridable_initializer_is_an_input_too() -> None:
    nodes = [h.make_node("Clip", ["x", "", "hi"], ["a"]), h.make_node("Mul", ["a", "v"], ["y"])]
    constants = {"hi": np.float32(0.5), "v": np.float32(2)}
    s = session(make(nodes, [info("x", (2, 64)), info("v", ())], [info("y", (2, 64))], constants))
    ones = np.ones((2, 64), np.float32)
    assert s.run(None, {"x": ones})[0].max() == 1
    assert s.run(None, {"x": ones, "v": np.array(5, np.float32)})[0].max() == 2.5
    g = seen[-1]["raw"].graph
    assert [i.name for i in g.input] == ["x", "v"] and {t.name for t in g.initializer} == {"hi", "v"}
    assert list(g.node[0].input) == ["x", "", "hi"]


def test_functions_are_looked_at_twice() -> None:
    nodes = [h.make_node("HardSwish", ["x"], ["a"]), h.make_node("Add", ["a", "a"], ["y"])]
    s = session(make(nodes, [info("x", (2, 64))], [info("y", (2, 64))], opset=20))
    assert (EP, ["Add"]) in placed(s)
    first, second = (call["raw"].graph for call in seen)
    assert [n.op_type for n in first.node] == ["HardSwish", "Add"]
    assert second.node[-1].doc_string == f"@ep:{EP}"  # what was claimed the first time


EVERY_KIND = [
    h.make_node("Conv", ["x", "w"], ["c"], pads=[2, 2, 2, 2]),
    h.make_node("LeakyRelu", ["c"], ["l"], alpha=0.25),
    h.make_node("Resize", ["l", "", "scales"], ["y"], mode="nearest"),
    h.make_node("LSTM", ["seq", "w1", "r1"], ["o", "", "oc"], hidden_size=4, activations=["Sigmoid", "Tanh", "Relu"]),
    h.make_node("ConstantOfShape", ["shp"], ["cs"], value=numpy_helper.from_array(np.array([7], np.float32))),
    h.make_node(
        "If",
        ["p"],
        ["i"],
        then_branch=branch([h.make_node("Add", ["cs", "k"], ["b1"])], "b1", None, {"k": np.float32([3])}),
        else_branch=branch([h.make_node("Mul", ["cs", "cs"], ["b2"])], "b2", None),
    ),
    h.make_node("SequenceConstruct", ["x", "x"], ["sq"]),
    h.make_node("SequenceLength", ["sq"], ["sl"]),
    h.make_node("Optional", ["x"], ["opt"]),
    h.make_node("OptionalGetElement", ["opt"], ["og"]),
    h.make_node("Optional", [], ["none"], type=h.make_tensor_type_proto(T.FLOAT, [2])),
    h.make_node("OptionalHasElement", ["none"], ["has"]),
    h.make_node("StringNormalizer", ["str"], ["sn"], stopwords=["a", "bb"], locale="C", case_change_action="UPPER"),
    h.make_node("Identity", ["words"], ["si"]),
    h.make_node("Constant", [], ["cf"], value_floats=[1.0, 2.5]),
    h.make_node("Identity", ["cf"], ["cf2"]),
]


@pytest.mark.parametrize("level", [0, 99])
def test_every_kind_of_attribute_and_tensor_survives(level: int) -> None:
    rng = np.random.default_rng(1)
    feeds = {
        "x": rng.standard_normal((2, 3, 8, 8)).astype(np.float32),
        "seq": rng.standard_normal((5, 2, 4)).astype(np.float32),
        "p": np.array(False),
        "shp": np.array([4]),
        "str": np.array(["a", "x", "bb"]),
    }
    inputs = [
        info("x", ("N", 3, 8, 8)),
        info("seq", (5, 2, 4)),
        info("p", (), T.BOOL),
        info("shp", (1,), T.INT64),
        info("str", (3,), T.STRING),
    ]
    outputs = [info(n, None) for n in ("y", "o", "oc", "i", "og", "cf2")] + [
        info("sl", (), T.INT64),
        info("has", (), T.BOOL),
        info("sn", None, T.STRING),
        info("si", None, T.STRING),
    ]
    constants = {
        "w": rng.standard_normal((8, 3, 5, 5)).astype(np.float32),
        "w1": np.ones((1, 16, 4), np.float32),
        "r1": np.full((1, 16, 4), 0.1, np.float32),
        "scales": np.float32([1, 1, 2, 2]),
        "words": np.array(["α", "", "zz"], object),
    }
    model = make(EVERY_KIND, inputs, outputs, constants, opset=18)
    expected = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
    session(model, {"nothing": "1"}, level)
    copy = seen[-1]["model"]
    for n in copy.graph.node:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.UNDEFINED:  # a type: onnxruntime does not show it
                assert (n.op_type, a.name) == ("Optional", "type")
                a.CopyFrom(h.make_attribute("type", h.make_tensor_type_proto(T.FLOAT, [2])))
    onnx.checker.check_model(copy, full_check=True)
    assert [(o.domain, o.version) for o in copy.opset_import] == [("", 18)]
    assert any(t.data_location == T.EXTERNAL for t in seen[-1]["raw"].graph.initializer)
    known = {v.name: v.type for v in copy.graph.value_info}
    assert known["sq"].WhichOneof("value") == "sequence_type" and known["opt"].WhichOneof("value") == "optional_type"
    assert [d.dim_param or d.dim_value for d in known["c"].tensor_type.shape.dim] == ["N", 8, 8, 8]
    got = ort.InferenceSession(copy.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------- errors, warnings, events


@pytest.mark.parametrize("nothing", [{}, {"nothing": "1"}], ids=["regions", "no regions"])
def test_compile_error_is_loud(nothing: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match="unknown option 'foo'"):
        session(mixed(), {"compile_error": "unknown option 'foo'", **nothing})


def _raise(*_: Any) -> None:
    raise ValueError("no such engine")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (_raise, "no such engine"),
        (lambda *_: 3, "not iterable"),
        (lambda *_: {"regions": [{}]}, "name"),
        (
            lambda *_: {"regions": [{"name": "r", "nodes": [0], "executable": None, "inputs": [], "outputs": ["y"]}]},
            "program",
        ),
        (
            lambda *_: {"regions": [{"name": "r", "nodes": [], "executable": None, "inputs": [], "outputs": ["y"]}]},
            "nodes",
        ),
    ],
)
def test_a_hook_that_fails_is_loud_and_leaves_nothing(answer: Callable[..., Any], text: str) -> None:
    before = native.counters()
    native.install(answer)
    with pytest.raises(InvalidArgument, match=text):
        session(mixed())
    assert native.counters() == before


def test_no_hook_claims_nothing() -> None:
    native.install(None)
    assert {ep for ep, _ in placed(session(mixed()))} == {"CPU"}


def test_ep_context_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="does not write EPContext models"):
        session(mixed(), ep__context_enable="1", ep__context_file_path=str(tmp_path / "ctx.onnx"))


def test_port_events() -> None:
    big = X.copy()
    big[0, 0], big[1, 1] = 60000, 1e6
    s = session(mixed())
    ep = number(s)
    s.run(None, {"x": X})
    s.run(None, {"x": big})
    first, second = native.ep_regions(ep)
    assert first == {"name": "region 0", "runs": 2, "saturated": 1, "nonfinite": 1}
    assert second == {"name": "region 1", "runs": 2, "saturated": 0, "nonfinite": 0}
    with pytest.raises(Fail, match=r"region 'region 0': output 'a'.* is infinite or NaN"):
        session(mixed(), {"on_overflow": "error"}).run(None, {"x": big})


def test_dynamic_options() -> None:
    s = session(mixed())
    assert number(s) in native.live_eps() and native.ep_of_token("another") == 0
    s.set_ep_dynamic_options({"ep.dynamic.workload_type": "Efficient"})
    with pytest.raises(RuntimeError, match=r"unknown dynamic option 'aneforge\.tokn'"):
        s.set_ep_dynamic_options({"aneforge.tokn": "1"})
    del s
    gc.collect()
    assert native.ep_of_token("token") == 0


# ---------------------------------------------------------------- threads, memory, the end


def together(work: Callable[[int], None], count: int = 8) -> None:
    errors: list[BaseException] = []

    def guarded(k: int) -> None:
        try:
            work(k)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not errors and not any(t.is_alive() for t in threads), errors


def test_eight_threads_each_with_sessions_of_their_own() -> None:
    want = session(mixed()).run(None, {"x": X})[0]

    def work(k: int) -> None:
        for i in range(5):
            s = session(mixed())
            assert np.array_equal(s.run(None, {"x": X})[0], want)
            assert [r["runs"] for r in native.ep_regions(number(s, f"{k}-{i}"))] == [1, 1]

    together(work)


def test_eight_threads_on_one_session() -> None:
    s = session(mixed())
    want = s.run(None, {"x": X})[0]

    def work(_: int) -> None:
        for _ in range(100):
            np.testing.assert_array_equal(s.run(None, {"x": X})[0], want)

    together(work)
    assert [r["runs"] for r in native.ep_regions(number(s))] == [801, 801]


def test_a_session_inside_the_hook() -> None:
    depth = []

    def nested(*args: Any) -> dict[str, Any]:
        depth.append(1)
        if len(depth) == 1:
            session(mixed()).run(None, {"x": X})
        return hook(*args)

    native.install(nested)
    session(mixed()).run(None, {"x": X})
    assert len(depth) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="the sanitizer keeps what was freed for a while")
def test_memory_stays_flat() -> None:
    def round_trip() -> None:
        session(mixed()).run(None, {"x": X})
        seen.clear()

    def resident_kib() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

    for _ in range(50):
        round_trip()
    before = resident_kib()
    for _ in range(200):
        round_trip()
    assert resident_kib() - before < 2048
    assert {k: v for k, v in native.counters().items() if k != "computes"} == {"executables": 0, "eps": 0, "kernels": 0}


ENDS = {
    "alive": "",
    "kept by builtins": "import builtins; builtins.keep = s",
    "in a cycle": "class A: pass\na = A(); a.me = a; a.s = s; del s",
    "unregistered": "del s; ort.unregister_execution_provider_library(EP)",
    "registered anew": "del s\nfor _ in range(3):\n    ort.unregister_execution_provider_library(EP)\n"
    "    ort.register_execution_provider_library(EP, LIBRARY); session(mixed())",
    "made at exit": "import atexit; atexit.register(lambda: session(mixed()))",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_process_ends_well(end: str) -> None:
    start = "from ep_hook import *\nimport numpy as np\nnative.install(hook)\n"
    start += "ort.register_execution_provider_library(EP, LIBRARY)\n"
    code = start + "s = session(mixed()); s.run(None, {'x': np.ones((4, 64), np.float32)})\n" + end
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([p or "." for p in sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
