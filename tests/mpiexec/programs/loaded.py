"""Prints, as JSON, the modules that place 0 has loaded when ``main`` begins, and when the program is over."""

import sys

import apgas


def main() -> None:
    show(sorted(sys.modules))


def show(loaded: list[str]) -> None:
    import json

    print(json.dumps(loaded))


if __name__ == "__main__":
    apgas.run(main)
    show(sorted(sys.modules))
