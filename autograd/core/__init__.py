"""What everything else in autograd stands on: dtypes, layouts of arrays, a thread's modes, the recorder's interface.

Nothing here knows tensors, nodes or ops.
"""
