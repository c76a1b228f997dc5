"""A cluster of two processes on the loopback interface, started once, and only if a test asks for it."""

import pytest


@pytest.fixture(scope="session")
def client():
    pytest.importorskip("distributed")
    from paloma.distributed import connected

    with connected(workers=2) as client:
        yield client
