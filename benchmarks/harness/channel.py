"""A contender's side of the conversation: commands in, answers out."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Command: TypeAlias = dict[str, Any]
Answer: TypeAlias = Mapping[str, object]
Handlers: TypeAlias = Mapping[str, Callable[[Command], Answer]]


class Channel:
    """Standard input and output, kept for the conversation: what else the process prints goes to standard error."""

    def __init__(self) -> None:
        self._commands = os.fdopen(os.dup(0), encoding="utf-8")
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)

    def serve(self, handlers: Handlers) -> None:
        """Say that we are ready, then answer commands until there are no more."""
        self._answer({"ready": True})
        for line in self._commands:
            command = json.loads(line)
            try:
                answer = handlers[command["measure"]](command)
            except Exception as error:  # noqa: BLE001 - whatever failed, the parent is told
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}"}
            self._answer(answer)

    def _answer(self, answer: Answer) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()
