"""docs/migrating.md says of every name of ANEForge 0.4.0 what became of it, and each behaves so."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peer_names import ATTRIBUTES, FUNCTIONS, METHODS, MODEL, OTHERS

import aneforge as af
from aneforge import pipeline
from tests.provider.graphs import close, cnn, floats, model, node, reference

PAGE = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([\w.]+)` \| (\w+) \|", PAGE, re.MULTILINE))
EVERY = {
    *FUNCTIONS, *OTHERS, *(f"Tensor.{m}" for m in METHODS), *(f"Tensor.{a}" for a in ATTRIBUTES),
    *(f"Model.{m}" for m in MODEL),
}  # fmt: skip


class TestPage:
    def test_every_name_stands_in_it_once(self) -> None:
        assert set(ROWS) == EVERY
        assert len(re.findall(r"^\| `[\w.]+` \|", PAGE, re.MULTILINE)) == len(EVERY)
        assert set(ROWS.values()) == {"kept", "changed", "refused"}

    def test_what_is_changed_is_explained(self) -> None:
        assert not re.findall(r"^\| `([\w.]+)` \| changed \| *\|", PAGE, re.MULTILINE)

    @pytest.mark.parametrize("name", sorted(ROWS))
    def test_it_behaves_so(self, name: str) -> None:
        home, _, member = name.rpartition(".")
        if home:
            owner = {"Tensor": af.input((2, 2)), "Model": af.compile(af.input((2,)).relu())}[home]
            assert hasattr(owner, member) == (ROWS[name] != "refused")
        elif ROWS[name] == "refused":
            with pytest.raises(AttributeError, match=rf"aneforge\.{name} is of the distribution 'aneforge' .*: \w"):
                getattr(af, name)
            assert name not in af.__all__
        else:
            assert getattr(af, name) is not None
            assert name in af.__all__

    def test_what_is_refused_is_not_offered(self) -> None:
        assert not set(af.__all__) & {name for name, word in ROWS.items() if word == "refused"}


def _same(ours: Callable[..., Any], theirs: str, skip: int) -> None:
    """Their parameters are the first of ours, in order, with their defaults; ours beyond them have defaults."""
    wanted = list(inspect.signature(eval(f"lambda {theirs}: 0")).parameters.values())
    got = list(inspect.signature(ours).parameters.values())[skip:]
    for w, g in zip(wanted, got, strict=False):
        assert w.name == g.name
        assert w.kind == g.kind or w.kind is w.POSITIONAL_OR_KEYWORD
        assert w.default == g.default or (w.default is w.empty and g.default is not g.empty), w.name
    assert len(got) >= len(wanted)
    assert all(g.default is not g.empty or g.kind in (g.VAR_KEYWORD, g.VAR_POSITIONAL) for g in got[len(wanted) :])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_what_they_took(name: str) -> None:
    _same(getattr(af, name), FUNCTIONS[name], 0)


@pytest.mark.parametrize("name", METHODS)
def test_methods_take_what_they_took(name: str) -> None:
    _same(getattr(af.Tensor, name), METHODS[name], 1)


@pytest.mark.parametrize("name", [n for n, p in MODEL.items() if p is not None])
def test_models_take_what_they_took(name: str) -> None:
    _same(getattr(af.Model, name), MODEL[name] or "", 1)


# ---------------------------------------------------------------- meanings that a name alone does not tell


def run(out: af.Tensor, *arrays: np.ndarray) -> np.ndarray:
    got = af.compile(out, numerics="fp32")(*arrays)
    assert isinstance(got, np.ndarray)
    return got


class TestMeanings:
    def test_l2_norm(self) -> None:
        x = floats(3, 8)
        x[1] = 0
        for eps in (1e-12, 0.5):
            close(run(af.input((3, 8)).l2_norm(eps=eps), x), x / np.sqrt((x**2).sum(-1, keepdims=True) + eps))

    def test_image_input_by_channel(self) -> None:
        pixels = np.random.default_rng(0).integers(0, 255, (1, 3, 4, 4)).astype(np.uint8)
        scale, bias = np.array([0.1, 0.2, 0.3]), [1.0, 2.0, 3.0]
        got = run(af.image_input((1, 3, 4, 4), scale, bias), pixels)
        close(got, np.float32(pixels * scale.reshape(1, 3, 1, 1) + np.reshape(bias, (1, 3, 1, 1))))
        with pytest.raises(ValueError, match="channels"):
            af.image_input((1, 3, 4, 4), [1.0, 2.0])

    def test_upsample_bilinear_reads_at_half_pixels(self) -> None:
        x = np.float32([[[[0, 4]]]])
        close(run(af.upsample_bilinear(af.input((1, 1, 1, 2))), x)[0, 0, 0], np.float32([0, 1, 3, 4]))

    @pytest.mark.parametrize(
        ("equation", "shapes"),
        [("ij,jk->ik", [(2, 3), (3, 4)]), ("bij->bj", [(2, 3, 4)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
         ("...ij,...kj->...ik", [(2, 3, 4), (2, 5, 4)]), ("ij->ji", [(2, 3)])],
    )  # fmt: skip
    def test_einsum(self, equation: str, shapes: list[tuple[int, ...]]) -> None:
        arrays = [floats(*shape, seed=i) for i, shape in enumerate(shapes)]
        close(run(af.einsum(equation, *(af.input(shape) for shape in shapes)), *arrays), np.einsum(equation, *arrays))

    def test_einsum_of_a_diagonal(self) -> None:
        x = floats(3, 3)
        close(run(af.einsum("ii->i", af.input((3, 3))), x), np.diag(x).copy())
        with pytest.raises(af.Refused):
            af.einsum("i->ii", af.input((3,)))
        with pytest.raises(TypeError):
            af.einsum("ij->ji", floats(2, 2))  # type: ignore[arg-type]

    def test_topk_and_sort(self) -> None:
        x = np.random.default_rng(0).permutation(24).reshape(3, 8).astype(np.float32)
        x[0, 2] = x[0, 5]  # equal ones come by place
        close(run(af.topk(af.input((3, 8)), 3), x), -np.sort(-x, axis=-1)[:, :3])
        close(run(af.topk(af.input((3, 8)), 4, largest=False), x), np.sort(x, axis=-1)[:, :4])
        close(run(af.sort(af.input((3, 8))), x), np.sort(x, axis=-1))
        close(run(af.sort(af.input((3, 8)), descending=True), x), -np.sort(-x, axis=-1))
        places = run(af.sort(af.input((3, 8)), return_indices=True), x)
        assert np.array_equal(places, np.argsort(x, axis=-1, kind="stable"))
        for wrong in (0, 9):
            with pytest.raises(ValueError, match="topk"):
                af.topk(af.input((3, 8)), wrong)
        with pytest.raises(af.Refused):
            af.sort(af.input((64, 2000)))

    def test_split_gives_a_list(self) -> None:
        parts = af.split(af.input((6, 2)), 3)
        assert isinstance(parts, list)
        assert [p.shape for p in parts] == [(2, 2)] * 3

    def test_geglu(self) -> None:
        x, W, b = floats(3, 4), floats(10, 4, seed=1), floats(10, seed=2)
        value, gate = np.split(x @ W.T + b, 2, axis=-1)
        want = (
            reference(model([node("Gelu", "g", "y")], {"g": [3, 5]}, {"y": [3, 5]}, opset=20), {"g": gate})[0] * value
        )
        close(run(af.geglu(af.input((3, 4)), W, b), x), want)

    def test_cross_attention(self) -> None:
        x, context = floats(3, 4), floats(5, 6, seed=1)
        Wq, Wk, Wv, Wo = floats(4, 4, seed=2), floats(4, 6, seed=3), floats(4, 6, seed=4), floats(4, 4, seed=5)
        bq, bo = floats(4, seed=6), floats(4, seed=7)
        got = run(af.cross_attention(af.input((3, 4)), af.input((5, 6)), Wq, Wk, Wv, Wo, 2, bq=bq, bo=bo), x, context)
        q, k, v = ((t @ W.T).reshape(-1, 2, 2).transpose(1, 0, 2) for t, W in ((x, Wq), (context, Wk), (context, Wv)))
        q = q + bq.reshape(1, 2, 2).transpose(1, 0, 2)
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(2)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        close(got, np.float32((weights @ v).transpose(1, 0, 2).reshape(3, 4) @ Wo.T + bo))

    def test_any_batch(self) -> None:
        x = floats(7, 3, 8, 8)
        w = floats(4, 3, 3, 3, seed=2) / 5
        conv = model([node("Conv", "x w", "y", pads=[1, 1, 1, 1])], {"x": [7, 3, 8, 8]}, {"y": [7, 4, 8, 8]}, {"w": w})
        close(run(af.conv(af.input((7, 3, 8, 8)), w, pad=1), x), reference(conv, {"x": x})[0])

    def test_pow_of_two_tensors(self) -> None:
        a, b = np.float32([1, 2, 3]), np.float32([2, 0.5, 1])
        close(run(af.input((3,)).pow(af.input((3,))), a, b), a**b)

    def test_errors(self) -> None:
        with pytest.raises(TypeError):
            af.input((2, 2)).linear(np.ones((2, 2), np.int32))
        with pytest.raises(ValueError, match="rank"):
            af.input((1, 1, 1, 1, 1)).expand_dims(0)


class TestViews:
    def test_nothing_is_copied(self) -> None:
        net = af.compile(af.input((2, 3), name="x") * 2.0)
        given, made = net.input_view(), net.output_view()
        assert (given.dtype, made.dtype) == (np.float16, np.float16)
        for number in (1, 5):
            given[:] = number
            net.execute()
            assert (made == 2 * number).all()
        assert net.input_view("x") is given
        assert net.output_view("y0") is made
        assert net(np.ones((2, 3), np.float32)).tolist() == [[2] * 3] * 2  # calls leave the views alone
        assert (made == 10).all()

    def test_several(self) -> None:
        a, b = af.input((2,), name="a"), af.input((2,), "uint8", name="b")
        net = af.compile([a + 1.0, a * 3.0])
        assert len(net.inputs) == 1
        with pytest.raises(ValueError, match="there are 2 outputs: name one; the outputs are 'y0', 'y1'"):
            net.output_view()
        with pytest.raises(ValueError, match="no input 'c'"):
            net.input_view("c")
        net.input_view()[:] = 4
        net.execute()
        assert [net.output_view(n).tolist() for n in ("y0", "y1")] == [[5, 5], [12, 12]]
        assert b.dtype == "uint8"

    def test_bytes(self) -> None:
        net = af.compile(af.image_input((1, 1, 2, 2), scale=0.5))
        assert net.input_view().dtype == np.uint8
        net.input_view()[:] = 7
        net.execute()
        assert (net.output_view() == 3.5).all()

    def test_a_model_with_outputs_of_every_kind(self) -> None:
        """Computed, a repeated input, known at import; a scalar among them."""
        made = model(
            [node("Identity", "x", "same"), node("ReduceMax", "x", "top", keepdims=0), node("Identity", "k", "known")],
            {"x": [3]}, {"same": [3], "top": [], "known": [2]}, {"k": np.float32([1, 2])},
        )  # fmt: skip
        net = af.load_onnx(made)
        net.input_view()[:] = [1, 9, 4]
        net.execute()
        assert net.output_view("same").tolist() == [1, 9, 4]
        assert net.output_view("top").shape == ()
        assert float(net.output_view("top")) == 9
        assert net.output_view("known").tolist() == [1, 2]

    def test_fp32(self) -> None:
        net = af.compile(af.input((2,)).exp(), numerics="fp32")
        assert net.input_view().dtype == np.float32

    def test_as_a_call(self) -> None:
        net = af.load_onnx(cnn())
        x = floats(1, 3, 8, 8)
        np.copyto(net.input_view(), x, casting="same_kind")
        net.execute()
        assert np.array_equal(net.output_view().astype(np.float32), net(x))

    def test_after_release(self) -> None:
        net = af.compile(af.input((2,)).relu())
        made = net.output_view()
        net.release()
        for wrong in (net.execute, net.input_view, net.output_view):
            with pytest.raises(ValueError, match="released"):
                wrong()
        assert made.shape == (2,)

    def test_a_warning_points_at_the_caller(self) -> None:
        x = af.input((2,))
        for call in (lambda net: net.execute(), lambda net: net(np.float32([300, 300]))):
            net = af.compile(x * x)
            net.input_view()[:] = 300
            with pytest.warns(RuntimeWarning, match="infinities") as seen:
                call(net)
            assert Path(seen[0].filename).name == Path(__file__).name

    def test_overflow(self) -> None:
        x = af.input((2,))
        net = af.compile(x * x, on_overflow="error")
        net.input_view()[:] = 300
        with pytest.raises(FloatingPointError):
            net.execute()


class TestWarnings:
    def risky(self) -> af.Tensor:
        return af.input((2, 48)).sigmoid() @ np.full((48, 3), 5000, np.float32)

    def test_precision(self) -> None:
        with pytest.warns(af.PrecisionWarning, match="its sums may reach 2"):
            af.compile(self.risky())
        with pytest.raises(ValueError, match="its sums may reach 2"):
            af.compile(self.risky(), validate=True)

    def test_a_promised_bound_counts(self) -> None:
        with pytest.warns(af.PrecisionWarning, match="may reach"):
            af.compile(af.input((2, 4), max_abs=1000.0) * 100.0)

    def test_models_name_the_node(self) -> None:
        made = model([node("Sigmoid", "x", "c"), node("MatMul", "c w", "y")], {"x": [2, 48]}, {"y": [2, 3]},
                     {"w": np.full((48, 3), 5000, np.float32)})  # fmt: skip
        with pytest.warns(af.PrecisionWarning, match="MatMul 'n_y'"):
            af.load_onnx(made)
        with pytest.raises(ValueError, match="MatMul 'n_y'"):
            af.load_onnx(made, validate=True)

    def test_silence(self, recwarn: pytest.WarningsRecorder) -> None:
        af.compile(af.input((2, 48)) @ np.ones((48, 3), np.float32), validate=True)
        af.load_onnx(cnn(), validate=True)
        assert not recwarn.list

    def test_the_dispatch_floor_is_the_engines(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Told of what the engine runs: here a backend that calls itself so."""
        from aneforge import backends  # noqa: PLC0415

        finish = pipeline.finish

        def on_the_engine(*given: Any) -> Any:
            compiled = finish(*given)
            monkeypatch.setattr(compiled.executable, "word", backends.ANE)
            return compiled

        monkeypatch.setattr(pipeline, "finish", on_the_engine)
        with pytest.warns(af.DispatchFloorWarning, match="fixed cost"):
            af.compile(af.input((2,)).relu())
