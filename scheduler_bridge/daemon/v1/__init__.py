"""Protocol v1's lines for administrators: job scripts by name, further nodes, the end. Off unless asked for."""

from scheduler_bridge.daemon.v1.admin import AdminConfig, AdminServer
from scheduler_bridge.daemon.v1.scripts import ScriptError, read_script

__all__ = ["AdminConfig", "AdminServer", "ScriptError", "read_script"]
