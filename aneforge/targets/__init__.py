"""What is known about each engine: names, limits, vocabulary, quirks, cost. Data files and one reader."""

from .reader import Cost, Limits, Quirk, Support, Target, quirk_table, resolve, words

__all__ = ["Cost", "Limits", "Quirk", "Support", "Target", "quirk_table", "resolve", "words"]
