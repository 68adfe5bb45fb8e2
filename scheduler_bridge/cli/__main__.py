"""``python -m scheduler_bridge.cli``."""

from scheduler_bridge.cli import main

main()
