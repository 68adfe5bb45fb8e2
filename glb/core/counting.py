"""What a place counts of bags and questions that come and go: the statistics, and the ledger's side of them."""

from __future__ import annotations

from typing import Literal, TypeVar

from glb.bag import Bag, Result
from glb.core.effects import Give, Message, Request
from glb.statistics import Statistics, tasks_in

R = TypeVar("R", bound=Result)


def given(
    statistics: Statistics, to: int, bag: Bag[R], nonce: int | None, why: Literal["random", "lifeline", "evacuation"]
) -> Give[R]:
    """Count a bag that place ``to`` gets, and return the effect that sends it."""
    tasks = tasks_in(bag)
    statistics.sent += 1
    statistics.tasks_sent += tasks
    statistics.steals_suffered += why == "random"
    statistics.lifeline_deals += why == "lifeline"
    statistics.evacuation_deals += why == "evacuation"
    return Give(to, bag, nonce, why, tasks)


def taken_back(statistics: Statistics, give: Give[R]) -> None:
    """Uncount a bag that could not be sent."""
    statistics.sent -= 1
    statistics.tasks_sent -= give.tasks


def taken(statistics: Statistics, bag: Bag[R], *, stolen: bool) -> None:
    """Count a bag that has come; ``stolen``: as the answer to a random steal."""
    statistics.received += 1
    statistics.tasks_received += tasks_in(bag)
    statistics.steals_won += stolen


def asked(statistics: Statistics, requests: list[Request]) -> list[Message]:
    """Count questions for work, and return them."""
    random = sum(request.nonce is not None for request in requests)
    statistics.steals_tried += random
    statistics.lifeline_requests += len(requests) - random
    return list(requests)
