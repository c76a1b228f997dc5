"""Where tasks run: on a Dask cluster, or here, one after the other, which gives the same bits."""

import warnings
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from .._optional import optional
from .._threads import single

# Partial results that one mixing task takes in: few enough for a worker's memory, enough that the tree stays low.
FAN_IN = 8


def later(function: Callable[..., Any], *arguments: Any, nout: int | None = None) -> Any:
    """A task: the function of a module, and arguments that may be tasks and results themselves, also in lists."""
    call = optional("dask", "dask").delayed(_with_one_thread, pure=False, nout=nout)
    return call(function, *arguments, dask_key_name=f"{function.__name__.strip('_')}-{uuid4().hex}")


def _with_one_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Bits depend on the number of BLAS threads; workers are the parallelism."""
    with single():
        return function(*arguments)


def _given(value: Any) -> Any:
    return value


class Here:
    """Every task in this process, in order."""

    def run(self, tasks: list[Any]) -> list[Any]:
        """Results that later tasks may take as arguments."""
        return list(optional("dask", "dask").compute(*tasks, scheduler="synchronous"))

    def fetch(self, results: Any) -> Any:
        return results

    def place(self, value: Any) -> Any:
        return value

    def kept(self, shards: list[Any], n_bytes: int) -> list[Any]:
        """Shards are read again each time: this process holds one."""
        return shards


class There:
    """Tasks on the workers of a client; results stay there until they are fetched."""

    def __init__(self, client: Any) -> None:
        self.client = client
        if not client.ncores():
            warnings.warn(
                "The scheduler has no workers: tasks wait until some arrive. Start them with `dask worker ADDRESS "
                "--nthreads 1`.",
                UserWarning,
            )

    def run(self, tasks: list[Any]) -> list[Any]:
        return self.client.compute(tasks) if tasks else []

    def fetch(self, results: Any) -> Any:
        return self.client.gather(results)

    def kept(self, shards: list[Any], n_bytes: int) -> list[Any]:
        """Shards stay on the workers if a quarter of their memory is enough.

        They are there before anything that takes them is asked for: reading that is queued behind long tasks holds up
        one worker while another has nothing to do.
        """
        if n_bytes > self._memory() / 4:
            return shards
        results = self.run(shards)
        with self.client.as_current():
            optional("distributed", "dask").wait(results)
        return results

    def place(self, value: Any) -> Any:
        """A value of the client's as the result of a task: unlike scattered data it survives its worker."""
        silent = {"distributed.admin.large-graph-warning-threshold": "1TB"}
        with optional("dask", "dask").config.set(silent):
            return self.run([later(_given, value)])[0]

    def _memory(self) -> float:
        limits = self.client.run(_memory_limit)
        return float("inf") if None in limits.values() else float(sum(limits.values()))


def _memory_limit(dask_worker: Any) -> int | None:
    return dask_worker.memory_manager.memory_limit or None


def runner(client: Any) -> Here | There:
    """The client given; else the one that is current; else this process."""
    if client is None:
        try:
            client = optional("distributed", "dask").get_client()
        except ValueError:
            return Here()
    if not hasattr(client, "gather"):
        raise TypeError(f"client must be a dask.distributed.Client, got {type(client).__name__}.")
    return There(client)


def reduced(combine: Callable[..., Any], parts: list[Any]) -> Any:
    """One task that combines all parts, by a tree whose shape depends on their number alone."""
    while len(parts) > 1:
        parts = [combine(parts[a : a + FAN_IN]) for a in range(0, len(parts), FAN_IN)]
    return parts[0]
