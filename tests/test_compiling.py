"""What goes on while loops are compiled."""

import gc

import numba
import pytest
from numba.core import event

import paloma._compiled.jit  # noqa: F401  # listens to numba


class Collecting(event.Listener):
    """Whether garbage is collected when a loop is compiled."""

    def __init__(self):
        self.seen = []

    def on_start(self, event):
        self.seen.append(gc.isenabled())

    def on_end(self, event):
        pass


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_is_collected_again_once_loops_are_compiled(collecting):
    @numba.njit
    def inner(x):
        return x

    def outer(x):
        return inner(x)

    outer.__module__ = inner.py_func.__module__ = "paloma.somewhere"
    before, listener = gc.isenabled(), Collecting()
    try:
        (gc.enable if collecting else gc.disable)()
        with event.install_listener("numba:compile", listener):
            numba.njit(outer)(1)
        assert gc.isenabled() == collecting
    finally:
        (gc.enable if before else gc.disable)()
    assert listener.seen == [False, False]
