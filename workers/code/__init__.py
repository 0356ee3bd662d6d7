"""Analysis and shipping of user code: captured state, guards, fingerprints and effects; pickling, warnings, exceptions.

One walk (`visitor`) serves all observers. `pickling` and `shipping` turn code into bytes and back, with the observers'
help; the recorder ships code, and workers open it.
"""
