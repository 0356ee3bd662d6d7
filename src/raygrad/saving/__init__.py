"""Saving and loading: nested values as safetensors files, written atomically and read without unpickling.

- `save.py`: the public functions `raygrad.save` and `raygrad.load`.
- `named_state.py`: the state of named tensors, optimisers, schedules and modules, and its restoring in place.
- `structure.py`: nested values as JSON text and a list of arrays, and back.
- `array_file.py`: that text and those arrays as a safetensors file.
- `atomic_file.py`: files that appear whole or not at all.
"""
