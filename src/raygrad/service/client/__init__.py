"""The client's side of a service: opening a session, the workers of a session at a server, and administration.

A session hands its graphs to `remote.RemoteWorkers` as it would to workers of its own."""
