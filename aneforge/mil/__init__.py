"""Programs written down: MIL text with its weight blob, which every backend reads, and Core ML packages.

mil = write(program, numerics="engine")     # mil.text, mil.blob, mil.inputs, mil.outputs
save_package(program, "net.mlpackage")
save_text(mil, "net")                        # net/model.mil, net/weights.bin
"""

from .file import MilFile, Port, write
from .folder import save_text
from .package import port_names, save_package

__all__ = ["MilFile", "Port", "port_names", "save_package", "save_text", "write"]
