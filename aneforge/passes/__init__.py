"""Rewrites: `optimize` (same results, faster or safer) and `legalize` (only what the target's compiler takes)."""

from .legalize import LegalizeError, Violation, check_node, legalize, legalized, violations
from .optimize import RULES, optimize

__all__ = ["RULES", "LegalizeError", "Violation", "check_node", "legalize", "legalized", "optimize", "violations"]
