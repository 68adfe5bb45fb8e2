"""How a job that sizes itself decides: from how busy its nodes are to how many it wants. Pure: the caller brings times.

A job holds ``n`` nodes, and a share ``e`` of their time goes into work: its efficiency. It wants the largest size whose
efficiency is the target ``t``. Nothing else of the program is known, neither how it scales nor how long it runs.

**Where the target is.** Let ``w = 1 / e - 1``: the seconds that are lost for each second of work. For the usual laws
it is a straight line or bends upwards in ``n``: ``f (n - 1)`` for a serial share ``f`` [Amdahl 1967]; proportional to
``n`` for a wait of fixed length in each step, as for a halo; ``max(0, n / P - 1)`` where there is work for ``P`` nodes.

- *Too many nodes.* ``n e`` nodes are busy; if fewer nodes do no more than that, ``n e / t`` is not below the size that
  is wanted. Where the efficiency at a larger size is known, the straight line through both is followed down to
  ``w = 1 / t - 1``; since ``w`` bends upwards, that is not below it either. The smaller one is taken, but none below
  that of the line through the origin, the flattest one that there can be, for which noise can make the other one pass.
  So the job comes down to its size from above, and noise apart does not have to go back.
- *Too few nodes.* If a larger size is known, the line between both is followed up to the target; for the same reason
  that does not go beyond it. Otherwise ``w`` is taken to be proportional to ``n``, which may go too far where there is
  work for few nodes only; so the size is doubled at most, and grows by half at most if it was made smaller before. No
  more are asked for than there is work for, where the source of the measurements knows that.
- *Dry nodes.* A node that had nothing to do in two windows in a row is given back, whatever the efficiency is, unless
  there is work that it could have; after one window, where it is known that there is none anywhere. To keep it for
  longer than it takes to get it back costs more than to give it back in vain. So nodes whose bags run dry near the end
  leave early, one after the other, without any knowledge of when the end is near.

**What keeps it calm.** All of these are numbers of ``Sizing`` or below:

- *Windows.* What is measured counts in windows of ``window_s``, and the first one is left out, also after each change
  of the size: newcomers still load, and work still spreads. A shrink by a quarter, or a grow by half, is wanted after
  two windows in a row, of which the more cautious one counts; a smaller change after eight, by their mean.
- *A dead band.* Above ``t (1 - band)`` the efficiency is not too low. It is high enough for more nodes only if a
  quarter more would still reach the target.
- *Payback.* A grow has to be worth its price: the run must be expected to go on for ``payback`` times what a grow
  takes. Where the rest is not known it is taken to be as long as the run was so far, and the whole run is to be worth
  it: a rest that is short after all costs no larger share of the run then.
- *Reversals.* A run changes its direction ``reversals`` times at most. The last time is kept for giving nodes back, so
  that the end of the run is not too wide, unless the source knows that there is work for more. After each the windows
  are twice as long.
- *Memory.* The efficiency at a size is remembered, so a size that was too large is not tried again. It is forgotten
  after 60 windows, and at once when the program is in another phase: when the efficiency at the present size has
  changed, or there is work for more nodes where there was none.
- *Refusals.* After one, the job waits for 4 windows before it asks again, and twice as long after each further one, up
  to 64. Nothing is decided while an answer or an order is awaited, for ``answer_s`` at most.

``tests/simulation/test_sizing_converges.py`` closes the loop with programs of several laws, phases and noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from apgas.errors import UsageError

_QUICK, _SLOW = 2, 8
"""Windows in a row that are looked at."""
_DRY: Final = 0.02
"""A node that was busy for no larger share of its time had nothing to do."""
_VAIN: Final = 0.9
"""Where a larger share of the attempts to steal failed, there is nothing to steal for newcomers, as far as is known."""
_GAIN: Final = 1.25
_QUICK_SHRINK, _QUICK_GROW = 0.25, 0.5
_FACTOR, _FACTOR_AGAIN = 2.0, 1.5
_MEMORY: Final = 60
_RETRY: Final = (4, 64)
_ROUNDING: Final = 1e-6
_APART: Final = 1.2
_FIRST_GROW_S: Final = 0.3
"""What a grow is taken to last before there was one."""


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """How a job sizes itself.

    Attributes:
        target: The efficiency that it holds: the share, from 0 to 1, of its nodes' time that goes into work.
        min_nodes: The fewest nodes that it wants.
        max_nodes: The most; None: as many as a scheduler grants; without one, as many as this machine has cores.
        window_s: Seconds of a measurement. A run should last for many.
        band: By what share of the target the efficiency may be below it before nodes are given back.
        reversals: How often a run may change from growing to shrinking, or back; at least 1.
        payback: How often longer than a grow the rest of the run has to be for the grow to be worth it.
        answer_s: How long an answer or the end of an order is awaited, in seconds.
        hosts: Without a scheduler: where newcomers are placed, in turn; empty: on this host.

    Raises:
        UsageError: A number is out of range.
    """

    target: float
    min_nodes: int = 1
    max_nodes: int | None = None
    window_s: float = 0.5
    band: float = 0.02
    reversals: int = 2
    payback: float = 10.0
    answer_s: float = 60.0
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise UsageError(f"the target of an efficiency is a share of 1, like 0.9, not {self.target!r}")
        if self.min_nodes < 1 or (self.max_nodes is not None and self.max_nodes < self.min_nodes):
            raise UsageError(f"1 <= min_nodes <= max_nodes is needed, not {self.min_nodes} and {self.max_nodes}")
        for name, least, most in (("window_s", 0.01, 3600.0), ("band", 0.0, 0.5), ("payback", 0.0, math.inf)):
            if not least <= (value := getattr(self, name)) <= most:
                raise UsageError(f"{name} must be from {least:g} to {most:g}, not {value!r}")
        if self.reversals < 1 or not 0 < self.answer_s < math.inf:
            raise UsageError(f"reversals >= 1 and answer_s > 0 are needed, not {self.reversals} and {self.answer_s}")

    @classmethod
    def of(cls, target: float | Sizing) -> Sizing:
        """The settings for a target, or those that were given.

        Raises:
            UsageError: The target is out of range.
        """
        return target if isinstance(target, Sizing) else cls(target=target)


class Measured(msgspec.Struct, frozen=True):
    """What was measured from one look to the next. Times in seconds, of any clock that does not go back.

    Attributes:
        at_s: When it ended.
        seconds: How long it was.
        busy: For each node of the job the share of its time, from 0 to 1, that went into work: not into waiting for
            work, for an answer, or for others' halos. Where several places or workers share a node, their mean.
        failed: The share of the attempts to steal that failed; 0 where nothing is stolen.
        spare: For how many more nodes there is work that they could begin at once; None: not known.
        remaining_s: How long the run still lasts at its present speed; None: not known.
        ready: Whether all nodes have begun: False while newcomers load.
    """

    at_s: float
    seconds: float
    busy: Sequence[float]
    failed: float = 0.0
    spare: int | None = None
    remaining_s: float | None = None
    ready: bool = True

    @property
    def nodes(self) -> int:
        """How many nodes the job had."""
        return len(self.busy)

    @property
    def efficiency(self) -> float:
        """The share of all nodes' time that went into work."""
        return min(1.0, max(0.0, sum(self.busy) / len(self.busy)))


class _Window(msgspec.Struct, frozen=True):
    efficiency: float
    dry: int
    failed: float
    spare: float

    @classmethod
    def of(cls, parts: Sequence[Measured]) -> _Window:
        seconds = sum(part.seconds for part in parts)

        def mean(values: Iterable[float]) -> float:
            return sum(value * part.seconds for value, part in zip(values, parts, strict=True)) / seconds

        by_node = [mean(shares) for shares in zip(*(part.busy for part in parts), strict=True)]
        dry = sum(share <= _DRY for share in by_node)
        spare = min(math.inf if part.spare is None else part.spare for part in parts)
        return cls(mean(part.efficiency for part in parts), dry, mean(part.failed for part in parts), spare)


class _Known(msgspec.Struct, frozen=True):
    """What is lost for each second of work at some size, and when that was measured."""

    lost: float
    at_s: float


class Controller:
    """Decides how many nodes a job wants. Give it every measurement, and every answer.

    Attributes:
        reversals: How often the direction has changed.
        why: The reason of the last decision, in words.
    """

    def __init__(self, sizing: Sizing) -> None:
        self.sizing = sizing
        self.reversals = 0
        self.why = ""
        self._direction = 0
        self._scale = 1
        self._parts: list[Measured] = []
        self._useless: list[Measured] = []  # the last parts, if nodes had nothing to do and there was no work for them
        self._windows: list[_Window] = []
        self._known: dict[int, _Known] = {}
        self._last: Measured | None = None
        self._full = False  # whether there was no work for more nodes
        self._began_s = 0.0
        self._settled_s = 0.0
        self._asked: tuple[float, int] | None = None  # when, and for which change
        self._granted: tuple[float, int] | None = None  # when it was asked for, and which change is under way
        self._grow_s = _FIRST_GROW_S
        self._retry_s = -math.inf
        self._refusals = 0

    # what arrives ---------------------------------------------------------------------------------------------------

    def answered(self, granted: int, now: float) -> None:
        """Take the answer to what was asked for, or the news that the order for it has failed.

        ``granted`` is the change of the number of nodes that is under way; 0: none is.
        """
        asked, self._asked, self._granted = self._asked or self._granted, None, None
        if asked is None:
            return
        if granted:
            self._granted = asked[0], granted
            self._refusals = 0
            return
        least, most = _RETRY
        self._retry_s = now + min(most, least << min(self._refusals, 8)) * self.sizing.window_s
        self._refusals += 1
        self._start_over(now)

    def measured(self, measured: Measured) -> int:
        """Take a measurement; return by how many nodes the job wants to change now: below 0 to give some back."""
        last, self._last = self._last, measured
        now = measured.at_s
        if last is None:
            self._began_s = now - measured.seconds
            self._settled_s = self._began_s + self.sizing.window_s
        elif measured.nodes != last.nodes:
            self._resized(measured.nodes - last.nodes, now)
        elif now - measured.seconds > last.at_s + self.sizing.window_s:
            self._start_over(now - measured.seconds, 0.0)  # something else was computed meanwhile, or nothing
        awaited = self._asked or self._granted
        if awaited is not None and now >= awaited[0] + self.sizing.answer_s:
            self.answered(0, now)
        if not measured.ready:
            self._start_over(now)
        if now - measured.seconds < self._settled_s - 1e-9 or self._asked or self._granted:
            return 0
        self._parts.append(measured)
        self._useless = [*self._useless, measured] if measured.spare == 0 and min(measured.busy) <= _DRY else []
        change = 0
        if self._fills_window(self._parts):
            self._windows = [*self._windows, _Window.of(self._parts)][-_SLOW:]
            self._parts = []
            change = self._decide(measured)
        if not change and self._fills_window(self._useless) and now >= self._retry_s:
            window, self._useless = _Window.of(self._useless), []
            change = max(self._fewer(measured, [window], window.efficiency), -window.dry)
            self.why = _why(measured.nodes, window.efficiency) if change else self.why
        if change:
            self._asked = now, change
        return change

    def _fills_window(self, parts: Sequence[Measured]) -> bool:
        return sum(part.seconds for part in parts) >= 0.9 * self._scale * self.sizing.window_s

    def _resized(self, change: int, now: float) -> None:
        """The size has changed, because the job wanted it so or not."""
        if self._granted is not None and (change > 0) == (self._granted[1] > 0):
            asked_s, granted = self._granted
            self._granted = None
            if change > 0:
                self._grow_s = now - asked_s
            if granted * self._direction < 0:
                self.reversals += 1
                self._scale *= 2
            self._direction = 1 if granted > 0 else -1
        self._start_over(now)

    def _start_over(self, now: float, windows: float = 1.0) -> None:
        self._parts, self._windows, self._useless = [], [], []
        self._settled_s = now + windows * self.sizing.window_s

    def next_s(self, now: float) -> float:
        """Return when a further measurement may matter, if all stays as it is: for those that foresee measurements.

        It is infinite if the size is settled until something changes.
        """
        if now < self._retry_s:
            return self._retry_s
        settled = len(self._windows) == _SLOW and self._asked is None and self._granted is None
        return math.inf if settled else now + self._scale * self.sizing.window_s

    # what it leads to -----------------------------------------------------------------------------------------------

    def _decide(self, measured: Measured) -> int:
        nodes, now = measured.nodes, measured.at_s
        spare = min(window.spare for window in self._windows)
        if self._full and spare:
            self._known.clear()
        self._full = not spare
        self._remember(nodes, now)
        if now < self._retry_s:
            return 0
        for count in (_QUICK, _SLOW):
            windows = self._windows[-count:]
            if len(windows) < count:
                break
            shares = [window.efficiency for window in windows]
            efficiency = sum(shares) / count
            best, worst = (max(shares), min(shares)) if count == _QUICK else (efficiency, efficiency)
            change = self._fewer(measured, windows, best) or self._more(measured, windows, worst)
            enough = count == _SLOW or change <= -_QUICK_SHRINK * nodes or change >= _QUICK_GROW * nodes
            if change and (enough or (change < 0 and _dry(windows))):
                self.why = _why(nodes, efficiency)
                return change
        return 0

    def _fewer(self, measured: Measured, windows: Sequence[_Window], efficiency: float) -> int:
        """By how many nodes, below 0, the size is to change because it is too large; 0: it is not."""
        sizing, nodes = self.sizing, measured.nodes
        wanted = nodes - _dry(windows)
        if efficiency < sizing.target * (1.0 - sizing.band):
            wanted = min(wanted, self._from_above(nodes, efficiency))
        wanted = max(wanted, sizing.min_nodes)
        over = measured.remaining_s is not None and measured.remaining_s < sizing.window_s
        return 0 if wanted >= nodes or over or not self._may_turn(-1) else wanted - nodes

    def _more(self, measured: Measured, windows: Sequence[_Window], efficiency: float) -> int:
        """By how many nodes the size is to change because it is too small; 0: it is not."""
        nodes, most = measured.nodes, self.sizing.max_nodes
        spare = min(window.spare for window in windows)
        kept = 1 if spare == math.inf else 0
        vain = spare == math.inf and max(window.failed for window in windows) > _VAIN
        if vain or max(window.dry for window in windows) or not self._may_turn(1, kept):
            return 0
        left_s = measured.remaining_s
        if (2 * (measured.at_s - self._began_s) if left_s is None else left_s) < self.sizing.payback * self._grow_s:
            return 0
        wanted = math.floor(min(self._from_below(nodes, efficiency), nodes + spare, math.inf if most is None else most))
        return 0 if wanted <= nodes or (wanted < nodes * _GAIN and wanted != most) else wanted - nodes

    def _may_turn(self, direction: int, kept: int = 0) -> bool:
        """Whether the run may go on in this direction, if ``kept`` reversals are left for later."""
        return direction * self._direction >= 0 or self.reversals + kept < self.sizing.reversals

    def _remember(self, nodes: int, now: float) -> None:
        lost = _lost(sum(window.efficiency for window in self._windows) / len(self._windows))
        before = self._known.get(nodes)
        if before is not None and abs(1 / (1 + lost) - 1 / (1 + before.lost)) > 2 * self.sizing.band:
            self._known.clear()  # another phase of the program
        forget_s = now - _MEMORY * self._scale * self.sizing.window_s
        self._known = {size: known for size, known in self._known.items() if known.at_s >= forget_s}
        self._known[nodes] = _Known(lost, now)

    def _from_above(self, nodes: int, efficiency: float) -> int:
        """The size with the target, which is smaller."""
        lost, aim = _lost(efficiency), _lost(self.sizing.target)
        wanted = nodes * efficiency / self.sizing.target
        if (rise := self._rise(nodes, lost)) > 0:
            wanted = min(wanted, max(nodes - (lost - aim) / rise, nodes * aim / lost))
        return min(nodes - 1, math.floor(wanted + _ROUNDING))

    def _from_below(self, nodes: int, efficiency: float) -> float:
        """The size with the target, which is larger."""
        lost, aim = _lost(efficiency), _lost(self.sizing.target)
        wanted = nodes * (_FACTOR if self._direction >= 0 or nodes == 1 else _FACTOR_AGAIN)
        if lost > 0:
            wanted = min(wanted, nodes * aim / lost)
        if (rise := self._rise(nodes, lost)) > 0:
            wanted = min(wanted, nodes + (aim - lost) / rise)
        too_large = (size for size, known in self._known.items() if size > nodes and known.lost > aim)
        return min(wanted + _ROUNDING, min(too_large, default=math.inf) - 1)

    def _rise(self, nodes: int, lost: float) -> float:
        """How much more is lost with each further node, as far as a larger size is known; 0: it is not."""
        larger = max((size for size in self._known if size >= nodes * _APART), default=0)
        return (self._known[larger].lost - lost) / (larger - nodes) if larger else 0.0


def _dry(windows: Sequence[_Window]) -> int:
    work = any(0 < window.spare < math.inf for window in windows)
    return 0 if work else min(window.dry for window in windows)


def _why(nodes: int, efficiency: float) -> str:
    return f"{efficiency:.0%} busy on {nodes} {'node' if nodes == 1 else 'nodes'}"


def _lost(efficiency: float) -> float:
    return 1.0 / max(efficiency, 1e-3) - 1.0
