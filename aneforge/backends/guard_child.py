"""Run as a script, in a process of its own: compiles one program with a backend, and runs it if it is given inputs.

It may crash or hang, which is what it is there for. Argument: one JSON object (see `guard.attempt`). Prints one JSON object:
{"compiled": true, "outputs": numbers of each output} or {"error": text}.
"""

from __future__ import annotations

import json
import mmap
import sys
from importlib import util
from pathlib import Path
from typing import Any


def main(given: dict[str, Any]) -> dict[str, Any]:
    sys.path[:] = given["path"]
    # Not by `import aneforge`: nothing of the package is needed but this one file.
    spec = util.spec_from_file_location("aneforge._native", given["module"])
    assert spec is not None and spec.loader is not None
    native = util.module_from_spec(spec)
    spec.loader.exec_module(native)
    native.open(given["library"])
    with open(given["blob"], "rb") as file:
        empty = not Path(given["blob"]).stat().st_size
        blob = memoryview(b"") if empty else memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    outputs: list[list[float]] = []
    try:
        program = native.compile(given["backend"], Path(given["text"]).read_text("utf-8"), blob, given["options"])
        if given["feeds"]:
            import numpy as np  # noqa: PLC0415 - who only compiles does not need it

            feeds = [np.array(values, np.float32).reshape(shape) for shape, values in given["feeds"]]
            got, _ = program.run(feeds, [np.float32] * given["results"], 1)
            outputs = [array.ravel().tolist() for array in got]
        program.release()
    except (ValueError, NotImplementedError, RuntimeError) as error:
        return {"error": str(error)}
    return {"compiled": True, "outputs": outputs}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
