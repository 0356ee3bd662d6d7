"""The codec of nodes: tuples of fields as the wire has them, and back.

Graphs and programs are written and read with it; `node_writer` describes the tuples.
"""

from __future__ import annotations

from .node_reader import MAX_NODES as MAX_NODES
from .node_reader import MAX_VALUES as MAX_VALUES
from .node_reader import nodes_of as nodes_of
from .node_writer import node_fields as node_fields
