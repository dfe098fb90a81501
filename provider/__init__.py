"""The ONNX Runtime execution provider. Importing this module registers it, once for the process:

    import onnxruntime as ort, aneforge.provider
    session = ort.InferenceSession("model.onnx", providers=["ANEForgeProvider"])
    print(aneforge.provider.report(session))          # which node ran where, and why

Options go with the name, `providers=[("ANEForgeProvider", {"target": "m4", "strict": "1"})]`; see `aneforge.options`.
An ImportError says what is in the way: an onnxruntime that is too old, or the other distribution named `aneforge`.
"""

import aneforge as _aneforge
from aneforge import _collision

_collision.check_package(_aneforge)

from .registration import (  # noqa: E402 - after the check: what follows is of use only in the right package
    NAME,
    get_ep_name,
    get_ep_names,
    get_library_path,
    register,
    unregister,
    version,
)
from .reports import report  # noqa: E402

__all__ = [
    "NAME",
    "get_ep_name",
    "get_ep_names",
    "get_library_path",
    "register",
    "report",
    "unregister",
    "version",
]

register()
