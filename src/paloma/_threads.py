"""How many threads matrix products take: one if they are too small to share, else as many as this process may use.

BLAS splits even small products, and its threads wait for each other in a loop: if other processes keep the cores busy,
a stretch of small products takes many times as long as on one thread. What may be shared depends on sizes alone, never
on the load, so that the same seed gives the same bits on the same machine.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from math import prod
from typing import Any, TypeVar

# A product of at least so many multiplications is shared: 512 pairs in 512 dimensions, a tile of a search in 128.
LARGE = 1 << 27
_jobs: ContextVar[int | None] = ContextVar("jobs", default=None)
Part = TypeVar("Part")
Result = TypeVar("Result")


@cache
def n_cpus() -> int:
    """CPUs that this process may use: its affinity and the quota of its container count."""
    from joblib import cpu_count

    return int(cpu_count())


@contextmanager
def jobs(n_jobs: int | None) -> Iterator[None]:
    """Let products inside the block take at most this many threads, -1: as many as there are CPUs; None: as before."""
    if n_jobs is None:
        yield
        return
    token = _jobs.set(n_cpus() if n_jobs == -1 else n_jobs)
    try:
        yield
    finally:
        _jobs.reset(token)


def sharing(*extents: int) -> AbstractContextManager[None]:
    """Products inside the block have these extents, n x k times k x m: have them take the threads they are worth."""
    return _pool.taking((_jobs.get() or n_cpus()) if prod(extents) >= LARGE else 1)


@contextmanager
def single() -> Iterator[None]:
    """Products take one thread, whatever their extents: so no other thread changes the bits of those in the block.

    As long as it lasts those of all other threads do, too: for a process whose own threads keep the cores busy.
    """
    with jobs(1), sharing(1):
        yield


def in_turn(work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """The same as `in_threads`, by this thread."""
    return [work(part) for part in parts]


def in_threads(work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """What `work`, most of which releases Python's lock, makes of each part, by as many threads as may be taken.

    How the work is cut into parts must not depend on the threads; then the bits do not.
    """
    number = min(_jobs.get() or n_cpus(), len(parts))
    if number <= 1:
        return in_turn(work, parts)
    with sharing(1), ThreadPoolExecutor(number) as pool:  # the parts share the threads, not their products
        return list(pool.map(work, parts))


class _Pool:
    """The number of threads of BLAS, which is one for the process: the smallest that a running block asks for.

    Of blocks inside each other the inner one counts. More threads than BLAS had outside of all blocks are never taken.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[int, list[int]] = {}
        self._libraries: list[tuple[Any, int]] = []
        self._now: int | None = None

    @contextmanager
    def taking(self, number: int) -> Iterator[None]:
        """A block of this thread that takes so many."""
        me = threading.get_ident()
        with self._lock:
            if not self._asked:
                self._libraries = [(library, library.num_threads) for library in _blas()]
            self._asked.setdefault(me, []).append(number)
            self._apply()
        try:
            yield
        finally:
            with self._lock:
                self._asked[me].pop()
                if not self._asked[me]:
                    del self._asked[me]
                self._apply()

    def _apply(self) -> None:
        number = min((stack[-1] for stack in self._asked.values()), default=None)
        if number != self._now:
            for library, before in self._libraries:
                # threadpoolctl 3.8 obeys the first thread that ever asks alone; here all of them have settled it.
                limit = getattr(library, "_real_set_num_threads", library.set_num_threads)
                limit(before if number is None else min(number, before))
            self._now = number


_pool = _Pool()


@cache
def _blas() -> list[Any]:
    """The BLAS libraries of NumPy and SciPy; looking for them takes milliseconds."""
    import scipy.linalg  # noqa: F401  # brings its own
    from threadpoolctl import ThreadpoolController

    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
