"""The graph IR: what is known of values before they exist, and one class for each kind of node.

Frozen data only, under names: which place a field has on the wire is known to `raygrad.proto.codec` alone.
"""
