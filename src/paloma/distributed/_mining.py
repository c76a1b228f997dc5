"""Targets and impostors over shards: within each, or across all of them, exactly as one machine would find them."""

import warnings
from typing import Any

import numpy as np

from .. import _validation as check
from .._training.partitions import center_of, spread
from .._typing import Array
from ..estimators import L2ODML, settings_of
from . import _plan as plan
from ._runner import later, runner
from ._shards import shards_of
from ._survey import Survey


def targets_impostors(
    X: Any,
    y: Any,
    *,
    n_targets: int = 3,
    n_impostors: int = 10,
    impostor_margin: float = 0.1,
    least_impostors: int | str = "auto",
    random_state: Any = None,
    client: Any = None,
    shard_rows: int = 65_536,
) -> Array:
    """`paloma.triplets.targets_impostors` of rows in many chunks: the same triplets, except for ties.

    Every chunk looks for its rows' neighbors in every other one, and the nearest of all are kept: the work is that of
    one machine, n^2 d, divided among the workers. X and y are as in `paloma.distributed.fit`.

    Returns
    -------
    (n, 3) row numbers: anchor, positive, negative; anchors in random order.

    Examples
    --------
    >>> import dask.array as da
    >>> from paloma.distributed import targets_impostors
    >>> X = da.from_array([[0.0], [1.0], [1.5], [2.5]], chunks=(2, 1))
    >>> targets_impostors(X, [0, 0, 1, 1], n_targets=1, n_impostors=1, random_state=0)
    array([[2, 3, 1],
           [0, 1, 2],
           [1, 0, 2],
           [3, 2, 1]])
    """
    # a learner that takes dense rows and sparse ones carries the settings
    learner = L2ODML(
        n_targets=n_targets, n_impostors=n_impostors, impostor_margin=impostor_margin, least_impostors=least_impostors
    )
    settings_of(learner)
    survey = Survey.of(learner, runner(client), shards_of(X, y, shard_rows), 0.0)
    near = survey.fetch([later(plan.near_of, one) for one in _wanted(survey)])
    tables = [np.concatenate(each) for each in zip(*(vars(one).values() for one in near), strict=True)]
    return plan.Near(*tables).mined().shuffled(np.random.default_rng(random_state))


def plans_within(survey: Survey) -> list[Any]:
    """Neighbors among the rows of each shard."""
    lone = [k for k, one in enumerate(survey.about) if one.n and len(one.classes) < 2]
    if lone:
        warnings.warn(
            f"{len(lone)} of {len(survey.about)} partitions contain only one class, the first of them is partition "
            f"{lone[0]}: with mining='within' their rows form no triplets. Shuffle the rows, or pass mining='across'.",
            UserWarning,
        )
    return survey.run([later(plan.plan_within, survey.learner, *one) for one in survey.each])


def plans_across(survey: Survey) -> list[Any]:
    """Neighbors over all shards, with the rows that each shard needs of the others."""
    each, wanted = survey.each, _wanted(survey)
    asked = [later(plan.numbers_of, one) for one in wanted]
    lent = [later(plan.lend, survey.learner, *one, asked, nout=len(each)) for one in each]
    return survey.run(
        [
            later(plan.plan_across, survey.learner, *one, wants, [loan[k] for loan in lent])
            for k, (one, wants) in enumerate(zip(each, wanted, strict=True))
        ]
    )


def _wanted(survey: Survey) -> list[Any]:
    """Who is near whom, by number in the whole data: every shard looks into every other one."""
    learner, each, about = survey.learner, survey.each, survey.about
    total = np.sum([one.total for one in about if one.n], axis=0)
    n = int(sum(one.counts.sum() for one in about))
    center = center_of(total, n, survey.jobs[0].dtype, survey.first.sparse)
    looks = []
    for pair, job in each:
        found: Any = None
        for other, theirs in each:
            found = later(plan.look, learner, found, pair, (job, theirs), other, center)
        looks.append(found)
    looks = survey.run(looks)
    norms, totals, counts = zip(*survey.fetch([later(plan.sums_of, one) for one in looks]), strict=True)
    slack = learner.impostor_margin * spread(list(norms), list(totals), sum(counts), center)
    return survey.run([later(plan.want, learner, *one, found, slack) for one, found in zip(each, looks, strict=True)])


def check_formed(survey: Survey, n_triplets: int, across: bool) -> None:
    """Refuse data that give no triplet at all."""
    if not n_triplets:
        advice = "" if across else " Each sees only its own rows: shuffle them, or pass mining='across'."
        raise ValueError(
            f"{check.name_of(survey.learner)}: no triplet was formed in any of {len(survey.about)} partitions.{advice}"
        )
