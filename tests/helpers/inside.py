"""The one place where tests look inside a fitted learner, at what no public attribute tells.

Modules whose constants or functions tests replace stand here as well.
"""

from pathlib import Path

import numpy as np

from paloma import _compiled
from paloma._compiled import logdet as compiled_logdet
from paloma._compiled import steps as compiled_steps
from paloma._compiled.logdet import Rates
from paloma._core.step import Step
from paloma._spaces.dense import blocks as blocks_module  # noqa: F401
from paloma._spaces.dense import points as points_module  # noqa: F401
from paloma._spaces.dense import space as dense_module  # noqa: F401
from paloma._spaces.kernel import space as kernel_module  # noqa: F401
from paloma._spaces.projected import space as projected_module  # noqa: F401

COMPILED = Path(_compiled.__file__).parent


def whole(model):
    """Everything that learning changes."""
    return model._model


def state(model):
    """What steps move: matrices, a journal of steps, or coefficients."""
    return state_of(whole(model))


def state_of(whole):
    """The same, of a model by itself."""
    return getattr(whole.space, "matrices", None) or whole.space.state


def readout(model):
    """The metric in the units of X, as it is read out now."""
    return whole(model).readout(model._choose())


def memory(model):
    """The sample of earlier rows."""
    return whole(model).reservoir


def labels_kept(model):
    """The label of each row of the memory."""
    return whole(model).labels.labels[memory(model).codes]


def regions(model):
    """Where rows lie."""
    return whole(model).regions


def n_means(model):
    """How many iterates the average holds."""
    return whole(model).counts.n_means


def step_size(rule, gap, norm, C):
    """The compiled step size of a rule with its default constants."""
    return compiled_steps.step_size(*Step.parse(rule, None).rule, gap, norm, C)


def logdet_step(squared, gap, margin, rates, C):
    """The compiled LogDet step."""
    return compiled_logdet.logdet_step(squared, gap, 1.0, margin, Rates(*rates), C)


def arrays(model):
    """Every array that a model holds."""
    found, open_ = [], [whole(model), model.get_params()]
    while open_:
        one = open_.pop()
        if isinstance(one, np.ndarray):
            found.append(one)
        elif isinstance(one, dict | list | tuple):
            open_ += one.values() if isinstance(one, dict) else one
        elif type(one).__module__.startswith("paloma") and hasattr(one, "__dict__"):
            open_ += vars(one).values()
    return found
