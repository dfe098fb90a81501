"""Programs written down: MIL text with its weight blob, which every backend reads, and Core ML packages.

mil = write(program, numerics="engine")     # mil.text, mil.blob, mil.inputs, mil.outputs
save_package(program, "net.mlpackage")
"""

from .file import MilFile, Port, write
from .package import save_package

__all__ = ["MilFile", "Port", "save_package", "write"]
