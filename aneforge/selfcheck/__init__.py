"""What a machine's backends really do, measured, written down without personal data, and taken over into the target data."""

from .apply import apply
from .report import differences, read
from .suite import backends_here, examine

__all__ = ["apply", "backends_here", "differences", "examine", "read"]
