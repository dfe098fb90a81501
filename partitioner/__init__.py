"""Regions over a plain DAG: which nodes are fused, and handed to the engine together.

Knows neither ONNX nor any runtime: nodes have names of values as inputs and outputs, and one of three classes. The
answer is a set of regions, each convex, connected and maximal, that never depend on one another in a cycle; and a
reason for every engine node that is in none of them.
"""

from .graph import Node
from .regions import Partition, Region, partition, split

__all__ = ["Node", "Partition", "Region", "partition", "split"]
