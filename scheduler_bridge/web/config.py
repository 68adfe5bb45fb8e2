"""How the page is served; every number has its unit in its name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebConfig:
    """Settings of one web server.

    Attributes:
        port: Where to listen; 0: a free port.
        host: Address to listen on. Nobody is asked for a password, so whoever reaches it may read.
        window_s: How far back the page looks.
        interval_s: Time between two updates, at least; more where a picture of the cluster takes long to make.
        heartbeat_s: Time after which a watcher hears something even if nothing happens.
        request_s: Time for a request to arrive, and for a reader to take what it is sent.
        idle_s: Time that a connection may stay open between two requests.
        connections: How many at a time.
        watchers: How many of them may follow the events.
    """

    port: int
    host: str = "127.0.0.1"
    window_s: float = 900.0
    interval_s: float = 1.0
    heartbeat_s: float = 3.0
    request_s: float = 5.0
    idle_s: float = 30.0
    connections: int = 128
    watchers: int = 32
