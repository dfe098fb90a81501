"""One process, one provider, one model: answers commands on standard input with a line of JSON each, so that two runtimes can
be measured in turn without sharing thread pools. Started by benchmarks/__main__.py only.

    run SECONDS   latencies in milliseconds of as many runs as fit in that time, at least 3
    quit
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort


def peak_bytes() -> int:
    """Largest resident size so far. Linux keeps ru_maxrss of the parent across exec, so /proc is read there."""
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    path, provider, threads, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
    if provider != "CPUExecutionProvider":
        import aneforge.provider
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    data = Path(path).read_bytes()
    start = time.perf_counter()
    session = ort.InferenceSession(data, settings, providers=[(provider, options)], enable_fallback=False)
    created = time.perf_counter() - start
    feeds = {
        i.name: np.random.default_rng(0)
        .standard_normal([d if isinstance(d, int) else 1 for d in i.shape])
        .astype(np.float32)
        for i in session.get_inputs()
    }
    placed = [(a.ep_name, len(a.get_nodes())) for a in session.get_provider_graph_assignment_info()]
    output = session.run(None, feeds)[0]
    word = "CPU"
    if provider != "CPUExecutionProvider":
        word = aneforge.provider.report(session).backend
    print(
        json.dumps(
            {
                "created_ms": created * 1e3,
                "on_provider": sum(n for ep, n in placed if ep == provider),
                "nodes": sum(n for _, n in placed),
                "regions": sum(ep == provider for ep, _ in placed),
                "backend": word,
                "output": output.ravel()[:1000].tolist(),
            }
        ),
        flush=True,
    )
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "quit":
            break
        end, times = time.perf_counter() + float(rest[0]), []
        while time.perf_counter() < end or len(times) < 3:
            start = time.perf_counter()
            session.run(None, feeds)
            times.append((time.perf_counter() - start) * 1e3)
        print(json.dumps({"times_ms": times, "peak_bytes": peak_bytes()}), flush=True)


if __name__ == "__main__":
    main()
