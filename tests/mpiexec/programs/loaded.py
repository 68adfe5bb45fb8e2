"""Prints, as JSON, the modules that place 0 has loaded when ``main`` begins."""

import sys

import apgas


def main() -> None:
    loaded = sorted(sys.modules)
    import json

    print(json.dumps(loaded))


if __name__ == "__main__":
    apgas.run(main)
