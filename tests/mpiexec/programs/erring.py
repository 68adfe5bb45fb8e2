"""Programs that end with errors: ``erring.py here|there|caught``."""

import sys

import apgas


class MyError(Exception):
    def __init__(self, code: int, name: str) -> None:
        super().__init__(f"{name}: {code}")
        self.code = code


def fails() -> None:
    raise MyError(7, "on purpose")


def caught() -> None:
    try:
        apgas.at(1, fails)
    except MyError as error:
        print("caught", type(error) is MyError, error.code, error.args)


def main(what: str) -> None:
    match what:
        case "here":
            with apgas.finish():
                apgas.async_(fails)
        case "there":
            apgas.at(1, fails)
        case _:
            caught()


if __name__ == "__main__":
    apgas.run(main, sys.argv[1])
