"""A client for a scheduler that runs elsewhere, or for a local cluster that no one else can reach."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import _validation as check
from .._optional import optional

# Dask's own settings give memory back to the system after each array, and let each new one fault its pages in again;
# with these two, which leave a worker at most 128 MB more, a round of learning is a sixth faster (measured).
SETTINGS = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 27,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
}


@contextmanager
def connected(
    scheduler: str | None = None,
    *,
    workers: int | None = None,
    memory: str = "auto",
    dashboard: bool = False,
    tls_ca: str | Path | None = None,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    timeout: float = 10.0,
) -> Iterator[Any]:
    """A client while the block runs: of the scheduler at an address, or of a local cluster of processes.

    Parameters
    ----------
    scheduler : address, e.g. ``"tcp://10.0.0.5:8786"`` or ``"tls://..."``
    workers : int
        Without a scheduler: number of local processes to start, one thread each, bound to the loopback interface.
    memory : str
        Memory limit of each such process, e.g. ``"1GB"``.
    dashboard : bool
        Whether the local cluster serves Dask's dashboard, on the loopback interface as well.
    tls_ca, tls_cert, tls_key : paths
        Certificates for a ``tls://`` scheduler, as Dask's ``Security`` takes them.
    timeout : float
        Seconds to wait for the scheduler.

    Examples
    --------
    >>> from paloma.distributed import connected
    >>> with connected("tcp://127.0.0.1:9", timeout=0.5) as client:
    ...     pass
    Traceback (most recent call last):
        ...
    ConnectionError: No Dask scheduler answers at tcp://127.0.0.1:9 within 0.5 s...
    """
    if (scheduler is None) == (workers is None):
        raise ValueError("Pass the address of a scheduler, or the number of workers to start on this machine.")
    distributed = optional("distributed", "dask")
    if scheduler is not None:
        security = _security(distributed, tls_ca, tls_cert, tls_key)
        try:
            client = distributed.Client(scheduler, timeout=timeout, security=security, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ConnectionError(
                f"No Dask scheduler answers at {scheduler} within {timeout:g} s ({type(error).__name__}). Start one "
                "with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads 1`."
            ) from error
        with client:
            yield client
        return
    check.check_count("workers", workers)
    loopback = "127.0.0.1:0"
    with optional("dask", "dask").config.set(SETTINGS | {"distributed.worker.profile.enabled": dashboard}):
        cluster = distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1", memory_limit=memory,
            dashboard_address=loopback, worker_dashboard_address=loopback, scheduler_kwargs={"dashboard": dashboard},
        )  # fmt: skip
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


def _security(distributed: Any, ca: Any, cert: Any, key: Any) -> Any:
    """TLS settings, or None to take Dask's own configuration."""
    if ca is None and cert is None and key is None:
        return None
    paths = {"tls_ca_file": ca, "tls_client_cert": cert, "tls_client_key": key}
    given = {name: str(path) for name, path in paths.items() if path is not None}
    missing = [path for path in given.values() if not Path(path).is_file()]
    if missing:
        raise ValueError(f"No such file: {', '.join(missing)}.")
    return distributed.Security(**given, require_encryption=True)
