"""Fixtures of several test modules; each imports what it needs only if a test asks for it."""

import signal

import pytest


@pytest.fixture(scope="session")
def client():
    """A cluster of two processes on the loopback interface, started once."""
    pytest.importorskip("distributed")
    from paloma.distributed import connected

    with connected(workers=2) as client:
        yield client


@pytest.fixture
def files(tmp_path):
    """Two tables for the command line, and the path of a model."""
    from helpers.cli import write_tables

    return write_tables(tmp_path)


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt; processes in the background, and those that run tests in parallel, ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
