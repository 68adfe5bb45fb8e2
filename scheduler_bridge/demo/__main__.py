"""Start the main job: ``python -m scheduler_bridge.demo``."""

from __future__ import annotations

from scheduler_bridge.demo.app import main

if __name__ == "__main__":
    main()
