"""A live page and metrics of a daemon, over HTTP: read only, on loopback unless asked, and off unless asked.

Beside a daemon of one's own::

    async with Daemon(config) as daemon, WebServer(daemon, WebConfig(port=8080)) as web:
        print(web.url)                                         # the page; web.url + "metrics" is for Prometheus

``malleable serve --web 8080`` does the same.
"""

from scheduler_bridge.web.http import WebConfig
from scheduler_bridge.web.server import WebServer

__all__ = ["WebConfig", "WebServer"]
