"""Methods and operators of tensors: what `Tensor` offers beyond its own data.

Joined to the class by one module, since ops need tensors and tensors need ops.
"""
