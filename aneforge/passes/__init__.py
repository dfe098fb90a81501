"""Rewrites: `optimize` (same results, faster or safer) and `legalize` (only what the target's compiler takes)."""

from .attention import engine_form
from .compress import Weight, compress, stored_bytes
from .headroom import Risk, leave_headroom
from .legalize import LegalizeError, Violation, check_node, legalize, legalized, rules_of, violations
from .optimize import RULES, optimize

__all__ = [
    "RULES",
    "LegalizeError",
    "Risk",
    "Violation",
    "Weight",
    "check_node",
    "compress",
    "engine_form",
    "leave_headroom",
    "legalize",
    "legalized",
    "optimize",
    "rules_of",
    "stored_bytes",
    "violations",
]
