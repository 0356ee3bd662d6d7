"""What nodes save for backward: slots, saved-tensor hooks and the saved tensors that users see.

Stands between nodes and whoever makes one.
"""
