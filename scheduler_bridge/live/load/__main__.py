"""The process that is measured; ``malleable load`` starts it."""

from scheduler_bridge.live.load.stand_in import main

if __name__ == "__main__":
    main()
