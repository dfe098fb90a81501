"""Rewrites: `optimize` (same results, faster or safer) and `legalize` (only what the target's compiler takes)."""

from .attention import engine_form
from .headroom import Risk, halved, risks
from .legalize import LegalizeError, Violation, check_node, legalize, legalized, violations
from .optimize import RULES, optimize

__all__ = [
    "RULES",
    "LegalizeError",
    "Risk",
    "Violation",
    "check_node",
    "engine_form",
    "halved",
    "legalize",
    "legalized",
    "optimize",
    "risks",
    "violations",
]
