"""The service: a server that runs the sessions of many clients on its workers, behind one port.

`rg.Session("ws://...")` connects to it; see docs/service.md. Needs the extra `service`."""

from __future__ import annotations

from .client import admin as admin
from .server.options import ServerOptions as ServerOptions
from .server.server import Server as Server, serve as serve
