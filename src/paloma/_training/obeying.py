"""One statement that the read-out obeys at once: the smallest step that is enough."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from .._core.locality import FREE, SHARED
from .._core.step import Step
from .._core.stream import Pass, Stream
from .._reading.whiteners import whitened
from .._rows import stacked
from .._typing import Rows
from .model import Model
from .settings import Settings

# A statement is to hold with this share of the margin; how often the step for it is doubled and bisected; its bound.
OBEYED, MAX_TRIALS, BISECTIONS, MAX_C = 0.05, 24, 5, 1e6
# Random triplets that fix the scale of a model that has none yet; so many are expected of a model that begins again.
N_TYPICAL = 4000


def obeying(settings: Settings, model: Model, rows: Rows, labels: list[Any], typical: Rows) -> Model | None:
    """A model whose read-out says that rows[0] is nearer to rows[1] than to rows[2]; None: this one's does already.

    One step, the smallest that makes the read-out agree with a margin, OBEYED times that of the hinge: the step for
    this margin itself or, since the p.s.d. and guarded read-out may say less than the raw iterates, for a larger one,
    found by doubling and bisection. Averaged iterates become the current ones, which a single step would hardly move.
    If the guard keeps the read-out at its start, learning begins there again. If no step is enough, ValueError.

    model : is changed; pass a copy.
    labels : classes of the second and the third row, None without one.
    typical : rows that fix the scale of a model that has none yet, and begin one again.
    """
    codes = np.full(3, FREE, np.int32)
    for k, label in enumerate(labels, 1):
        if label is not None and label != settings.unlabeled:
            model.know(model.labels.extended(np.array([label])))
            codes[k] = model.labels.codes(np.array([label]))[0]
    if model.scale is None:
        triplets = model.rng.integers(0, 3 + typical.shape[0], (N_TYPICAL, 3))
        model.freeze(settings, stacked([rows, typical]), np.vstack([[0, 1, 2], triplets]), None)
    places, target = model.places(rows, codes), OBEYED * settings.choice.margin
    lead = _lead(settings, model, rows, places)
    if lead >= 0.5 * target:
        return None
    triplet = np.array([[0, 1, 2]])
    if model.strength[0] == 0.0:
        known = whitened(stacked([rows, typical]), model.whitener)
        model.begin(settings, known, triplet, N_TYPICAL)
        model.strength, model.evidence = (1.0, 1.0), None
    model.space.adopt(model.blend(settings))
    model.counts.n_means, model.metric = 0, None
    stream = Stream(whitened(rows, model.whitener), triplet, places, model.space.factor)
    low, high, best = -np.inf, target, None
    for n in range(MAX_TRIALS):
        trial = _moved(settings, model, stream, high)
        lead = _lead(settings, trial, rows, places)
        if lead >= 0.5 * target:
            best = trial
            break
        low, high = high, high + 2.0**n * (target - lead)
    if best is None:
        raise ValueError(
            f"{settings.who}: no single step makes the query nearer to the one item than to the other: it may be "
            "equal to the second, or the items to each other. Nothing was changed."
        )
    for _ in range(BISECTIONS if np.isfinite(low) else 0):
        middle = 0.5 * (low + high)
        trial = _moved(settings, model, stream, middle)
        obeyed = _lead(settings, trial, rows, places) >= 0.5 * target
        low, high, best = (low, middle, trial) if obeyed else (middle, high, best)
    best.space.close()
    return best


def _moved(settings: Settings, model: Model, stream: Stream, margin: float) -> Model:
    """A copy of the model after the step that gives a triplet this margin."""
    out = deepcopy(model)
    choice = replace(settings.choice, C=MAX_C, margin=margin, step=Step.parse("pa1", None), forget=0.0)
    out.counts.add(out.space.learn(choice, replace(stream), out.counts, Pass(out.counts.seen, rng=out.rng)))
    out.counts.forget, out.metric, out.balance = settings.choice.forget, None, None
    return out


def _lead(settings: Settings, model: Model, rows: Rows, places: Any) -> float:
    """By how much the read-out says that rows[0] is nearer to rows[1] than to rows[2]."""
    reader, kinds = model.reader(settings, settings.who), places[1:]
    if model.regions is None:
        kinds = np.where(kinds == FREE, SHARED, kinds).astype(np.int32)
    near, far = reader.measure.near(reader.values(rows[[0, 0]], rows[1:], kinds))
    return float(far - near)
