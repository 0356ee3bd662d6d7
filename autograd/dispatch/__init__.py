"""Dispatch: from the call of a built-in op to promotion, a kernel or a recorded node, and a node of the backward graph.

Every op goes through it, eager or recorded. Factories of tensors, autocast and argument checks are here, too.
"""
