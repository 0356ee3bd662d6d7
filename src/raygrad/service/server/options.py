"""What a service is started with, checked before anything is."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

LEAST_MESSAGE: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How a service listens, whom it lets in, and what its sessions get.

    Raises:
        ValueError: no token on an address that other machines reach, or a figure that is none.
    """

    host: str = "127.0.0.1"
    port: int = 8786
    """0: any that is free; `Server.port` says which."""
    token: str | None = None
    """What clients have to show; needed unless `host` is of the loopback. Several, one a line, are those of several
    parties, which see only their own sessions."""
    tls_cert: str | None = None
    """The file of the certificate and its chain (PEM); with it the service speaks TLS only."""
    tls_key: str | None = None
    """The file of its key; None if it is in `tls_cert`."""
    allow_pickle: bool = False
    """Take user code and objects by value from clients that ask for it: whoever has the token can run any code here."""
    allow: tuple[str, ...] = ()
    """Modules whose Functions, hooks and other code clients may name: what each defines, not what it imports."""
    address: str = "local"
    """Where workers run: "local" (in a process for each session), "ray" or "ray:HOST:PORT"."""
    workers: int | None = None
    """The most workers of a session, and how many one gets that does not say; None: as many as the address offers."""
    max_sessions: int = 16
    max_sessions_per_token: int | None = None
    """The most sessions at a time of those who show one token; None for no limit beside `max_sessions`."""
    max_nodes: int | None = None
    """The most nodes of one submission; None for what the protocol takes."""
    max_rate: float | None = None
    """The most messages per second of one session; None for any number."""
    max_held: int | None = None
    """The most bytes that are held for one session: kept values, and inputs of what runs; None for any number."""
    max_run_seconds: float | None = None
    """The most seconds that one run may take from its submission on; None for no limit."""
    drain_seconds: float = 30.0
    """How long `serve` waits for runs to end when it is stopped."""
    idle_timeout: float = 60.0
    """Seconds after which a client that answers nothing counts as gone."""
    grace: float = 30.0
    """Seconds for which a session outlives a broken connection, so that its client can go on over another; no more than
    `idle_timeout`."""
    max_message: int = 1 << 30
    """The most bytes of one message, so of one array."""
    log_json: bool = False
    """Write each line of the log as a JSON object."""

    def __post_init__(self) -> None:
        if not 0 <= self.port < 65_536:
            raise ValueError(f"ServerOptions(port=...) takes a port from 0 to 65535, got {self.port}")
        if self.token is not None and not self.token.strip():
            raise ValueError("ServerOptions(token=...) is empty: give a secret, or None on the loopback")
        if self.token is None and not is_loopback(self.host):
            raise ValueError(
                f"a service on {self.host!r} can be reached by other machines and needs a token: "
                "ServerOptions(token=...), or host='127.0.0.1'"
            )
        for module in self.allow:
            if module == "__main__" or not all([part.isidentifier() for part in module.split(".")]):
                raise ValueError(
                    f"ServerOptions(allow=...) takes names of modules that can be imported here, got {module!r}"
                )
        if self.tls_key is not None and self.tls_cert is None:
            raise ValueError("ServerOptions(tls_key=...) needs tls_cert, the certificate that the key belongs to")
        if not self.idle_timeout > 0:
            raise ValueError(f"ServerOptions(idle_timeout=...) takes seconds, more than 0, got {self.idle_timeout}")
        if not 0 <= self.grace <= 86_400:
            raise ValueError(f"ServerOptions(grace=...) takes seconds, from 0 to a day, got {self.grace}")
        if self.max_sessions < 1 or (self.workers is not None and self.workers < 1):
            raise ValueError("ServerOptions(max_sessions=..., workers=...) take numbers of at least 1")
        self._check_quotas()
        if self.max_message < LEAST_MESSAGE:
            raise ValueError(
                f"ServerOptions(max_message=...) takes at least {LEAST_MESSAGE:,}, got {self.max_message:,}"
            )
        if self.address != "local" and self.address != "ray" and not self.address.startswith("ray:"):
            raise ValueError(
                f"ServerOptions(address=...) takes 'local', 'ray' or 'ray:HOST:PORT', got {self.address!r}"
            )

    def _check_quotas(self) -> None:
        for name, least in (("max_sessions_per_token", 1), ("max_nodes", 1), ("max_held", 0)):
            given: int | None = getattr(self, name)
            if given is not None and given < least:
                raise ValueError(f"ServerOptions({name}=...) takes a number of at least {least}, or None, got {given}")
        for name in ("max_rate", "max_run_seconds"):
            limit: float | None = getattr(self, name)
            if limit is not None and not 0 < limit < float("inf"):
                raise ValueError(f"ServerOptions({name}=...) takes a number of more than 0, or None, got {limit}")
        if not 0 <= self.drain_seconds <= 86_400:
            raise ValueError(f"ServerOptions(drain_seconds=...) takes seconds, 0 to a day, got {self.drain_seconds}")

    @property
    def session_grace(self) -> float:
        """Seconds for which a session outlives a broken connection."""
        return min(self.grace, self.idle_timeout)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens, one for each party."""
        return tuple([line.strip() for line in (self.token or "").splitlines() if line.strip()])


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches what listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
