"""What is known about each engine: names, limits, vocabulary, quirks, cost. Data files and one reader."""

from .chip import Chip, Readings, here, identify
from .reader import Cost, Limits, Quirk, Support, Target, quirk_table, resolve, words

__all__ = [
    "Chip",
    "Cost",
    "Limits",
    "Quirk",
    "Readings",
    "Support",
    "Target",
    "here",
    "identify",
    "quirk_table",
    "resolve",
    "words",
]
