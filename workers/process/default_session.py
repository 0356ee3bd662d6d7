"""Environment variables that say where sessions run which name no address, and how they identify themselves.

The client reads them. A worker process removes them at its start: a session that user code opens inside a node runs in
that process, and must neither ask the cluster for the CPUs that its own workers hold, nor know the client's token.
"""

from __future__ import annotations

import os
from typing import Final

ADDRESS_VARIABLE: Final = "RAYGRAD_ADDRESS"
"""The address of `Session()` without one; "local" if unset."""

WORKERS_VARIABLE: Final = "RAYGRAD_WORKERS"
"""The number of workers of a session that names neither an address nor a number of workers."""

TOKEN_VARIABLE: Final = "RAYGRAD_TOKEN"
"""What a session shows to a server."""

CA_VARIABLE: Final = "RAYGRAD_CA"
"""The authority that a session of no other address trusts for the certificate of its server: a file (PEM)."""

PICKLE_VARIABLE: Final = "RAYGRAD_ALLOW_PICKLE"
"""Whether a session of no other address exchanges pickles with its server: "1" if so."""


def remove_from_environment() -> None:
    """Remove the variables from this process's environment."""
    for name in (ADDRESS_VARIABLE, WORKERS_VARIABLE, TOKEN_VARIABLE, CA_VARIABLE, PICKLE_VARIABLE):
        os.environ.pop(name, None)
