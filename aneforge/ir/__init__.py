"""The one intermediate form: an immutable graph of MIL operations. See `core` (Type, Tensor, Op), `program`,
`rewrite`.
"""

from .core import DTYPES, Op, Origin, Tensor, Type, const, input, only_origin, origin
from .notes import Near, Notes, miss, recognize
from .program import Program, replace, substitute, topological
from .rewrite import Fired, Replacement, Rule, RuleSet, Uses, rewrite, rule
from .verify import register_type_rule, verify

__all__ = [
    "DTYPES",
    "Fired",
    "Near",
    "Notes",
    "Op",
    "Origin",
    "Program",
    "Replacement",
    "Rule",
    "RuleSet",
    "Tensor",
    "Type",
    "Uses",
    "const",
    "input",
    "miss",
    "only_origin",
    "origin",
    "recognize",
    "register_type_rule",
    "replace",
    "rewrite",
    "rule",
    "substitute",
    "topological",
    "verify",
]
