"""A bag of tasks of fixed size in an array: the program brings a kernel, and everything else is here.

NumPy is loaded by the program that makes the arrays, not by this module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from glb.errors import BagError

if TYPE_CHECKING:
    from numpy.typing import NDArray


Folding = Literal["add", "maximum", "minimum"]
_FOLDINGS: Final = ("add", "maximum", "minimum")


class ArrayResult:
    """What the bags of a computation found: their ``total``, folded by addition, or to the maximum or the minimum.

    Attributes:
        values: The numbers, of the shape that the bag's ``total`` has; None as long as no bag has brought any.
        folding: How they are folded, as the bag says.
    """

    def __init__(self) -> None:
        self.values: NDArray[Any] | None = None
        self.folding: Folding = "add"

    def merge(self, other: ArrayResult) -> None:
        """Fold ``other`` into this."""
        if other.values is not None:
            self.fold(other.values, other.folding)

    def fold(self, values: NDArray[Any], folding: Folding) -> None:
        """Fold numbers into this."""
        self.folding = folding
        self.values = values.copy() if self.values is None else _folded(folding, self.values, values)


class ArrayBag(ABC):
    """Tasks of fixed size, the rows of an array: a stack, where a kernel takes tasks from the top and puts new ones.

    The oldest tasks lie at the bottom. Of a tree that is searched in depth they have the most below them, and they are
    given away first. A subclass has the kernel, and what all tasks share in attributes of its own, which must not
    change: bags that were split refer to the same objects, and arrays among them may be read-only at another place.

    Args:
        tasks: The first tasks, of shape (n,) with a structured type or (n, fields); copied.
        total: The partial result before any task is done, an array of any shape; copied.

    Attributes:
        room: Rows that are free above the tasks, at least, when the kernel is called; 1 or more.
        folding: How partial results are folded. "add": a bag that is split off begins with zeros. "maximum",
            "minimum": it begins with what this one has found, so ``total`` may be a bound.
        work: Tasks that this instance has processed.
        total: The partial result, which the kernel changes in place.

    Raises:
        BagError: ``tasks`` or ``total`` is no array of that kind, or ``room`` or ``folding`` is out of range.
    """

    room: ClassVar[int] = 1024
    folding: ClassVar[Folding] = "add"

    def __init__(self, tasks: NDArray[Any], total: NDArray[Any]) -> None:
        for name, array, least in (("tasks", tasks, 1), ("total", total, 0)):
            if getattr(array, "ndim", -1) < least or array.dtype.hasobject:
                raise BagError(
                    f"{name} is {array!r:.60}, but must be an array of numbers with {least} dimensions or more"
                )
        if self.room < 1 or self.folding not in _FOLDINGS:
            raise BagError(
                f"{type(self).__name__} has room {self.room} and folding {self.folding!r}, but needs a room of 1 or "
                f"more and one of {', '.join(_FOLDINGS)}"
            )
        self.work = 0
        self.total = total.copy()
        self._stack = tasks.copy()
        self._count = len(tasks)

    @abstractmethod
    def kernel(self, stack: NDArray[Any], count: int, n: int) -> tuple[int, int]:
        """Do about ``n`` tasks and put those on the stack that they bring forth; the GIL should be released.

        It may stop early when the free rows become few, and is called again with more of them; but it must do
        something. A task may be done in part if what is left of it stays in its row.

        Args:
            stack: The rows; those above the tasks are free, at least ``room`` of them, with anything in them.
            count: The tasks, ``stack[:count]``; 1 or more.
            n: How many to do; a few more are no harm.

        Returns:
            How many tasks are on the stack now, and how many were done, 1 or more.
        """

    @property
    def tasks(self) -> NDArray[Any]:
        """The tasks, the oldest first; a view."""
        return self._stack[: self._count]

    def process(self, n: int) -> bool:
        """Do about ``n`` tasks; return whether tasks remain.

        Raises:
            BagError: The kernel returned impossible numbers.
        """
        while n > 0 and self._count:
            if len(self._stack) < self._count + self.room:
                self._stack = self._with_room()
            count, done = self.kernel(self._stack, self._count, n)
            if not 0 <= count <= len(self._stack) or done < 1:
                raise BagError(
                    f"the kernel of {type(self).__name__} says that it did {done} tasks and left {count} in "
                    f"{len(self._stack)} rows"
                )
            self._count = int(count)
            self.work += int(done)
            n -= done
        return self._count > 0

    def _with_room(self) -> NDArray[Any]:
        import numpy as np

        stack = np.empty((2 * self._count + self.room, *self._stack.shape[1:]), self._stack.dtype)
        stack[: self._count] = self.tasks
        return stack

    def split(self, all: bool) -> Self | None:
        """Give the older half of the tasks away, or everything; the partial result stays here."""
        count = self._count if all else self._count // 2
        if not count:
            return None
        given = object.__new__(type(self))
        given.__dict__.update(self.__dict__)
        given.work = 0
        given.total = self.total.copy()
        given._clear()
        given._hold(self._stack[:count].copy())
        self._hold(self._stack[count : self._count].copy())
        return given

    def _hold(self, tasks: NDArray[Any]) -> None:
        self._stack, self._count = tasks, len(tasks)

    def _clear(self) -> None:
        """Forget a partial result that must not be counted twice."""
        if self.folding == "add":
            self.total[...] = 0

    def merge(self, other: Self) -> None:
        """Take over the tasks of ``other``, below those that are here, and its partial result."""
        import numpy as np

        if other._count:
            self._hold(np.concatenate([other.tasks, self.tasks]))
            other._count = 0
        self.total = _folded(self.folding, self.total, other.total)
        other._clear()

    def submit(self, result: ArrayResult) -> None:
        """Fold the partial result into ``result``."""
        result.fold(self.total, self.folding)
        self._clear()

    def is_empty(self) -> bool:
        """Return whether no task is left."""
        return not self._count

    def is_splittable(self) -> bool:
        """Return whether there are two tasks."""
        return self._count > 1

    def __len__(self) -> int:
        """Return the number of tasks."""
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes that the tasks take on the way."""
        return int(self.tasks.nbytes)

    def __getstate__(self) -> dict[str, Any]:
        # copies, for large arrays are sent as they lie there, perhaps after the next call of the kernel
        return {**self.__dict__, "work": 0, "_stack": self.tasks.copy(), "total": self.total.copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.total = self.total.copy()  # what has travelled may be read-only; the stack is copied when room is made


def _folded(folding: Folding, left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    # an array also where the numbers have no dimension
    folded: NDArray[Any] = np.asarray(getattr(np, folding)(left, right))
    return folded
