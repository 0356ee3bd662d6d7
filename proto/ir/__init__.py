"""The graph IR: one class for each kind of node and spec, graphs, observed signatures, programs, calls and records.

Frozen data only, under names: `raygrad.proto.codec` alone knows the places of fields on the wire.
"""
