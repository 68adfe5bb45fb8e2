"""Start the main job: ``python -m scheduler_bridge.demo``."""

from __future__ import annotations

from apgas.errors import extras_named

with extras_named():
    from scheduler_bridge.demo.app import main

if __name__ == "__main__":
    main()
