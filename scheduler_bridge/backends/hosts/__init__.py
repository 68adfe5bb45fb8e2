"""Hosts that a file names: an own cluster, or some machines, reached by ssh or by a launcher of the site's.

``read_hosts`` reads the file, ``launcher_of`` the launcher; ``on_hosts`` lets a scheduler drive the hosts. ``Reach`` is
what launchers reach them with. ``Watch`` looks at them again and again; what follows from a look is pure. ``examine``
says what each host has, for ``malleable doctor``.
"""

from scheduler_bridge.backends.hosts.backend import HostsBackend, HostsConfig, on_hosts
from scheduler_bridge.backends.hosts.examine import Finding, examine
from scheduler_bridge.backends.hosts.hosts import Host, Launcher, launcher_of, read_hosts
from scheduler_bridge.backends.hosts.watch import Rules

__all__ = [
    "Finding",
    "Host",
    "HostsBackend",
    "HostsConfig",
    "Launcher",
    "Rules",
    "examine",
    "launcher_of",
    "on_hosts",
    "read_hosts",
]
