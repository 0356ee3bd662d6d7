"""Memory shared by tensors: storages, views and their geometry, strides, version counters.

Stands below the tensor; changes in place are in `mutation`.
"""
