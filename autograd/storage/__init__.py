"""Memory shared by tensors: version counters, views and their geometry, strides.

Stands below the tensor; changes in place are in `mutation`.
"""
