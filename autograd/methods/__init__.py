"""Methods and operators of tensors, built on ops.

`assembly` adds them to `Tensor`, since ops need tensors and tensors need ops.
"""
