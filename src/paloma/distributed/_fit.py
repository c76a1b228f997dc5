"""Iterative parameter mixing over shards: plan once, then rounds of learning, mixing and reporting."""

import copy
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from time import perf_counter
from typing import Any

from sklearn.base import clone

from .. import _validation as check
from .._partitions import one_reservoir
from .._progress import progress
from ..estimators._mixing import Learnt, begin, check_mixable, common_scale, join, learn_shard, mix, same_everywhere
from ..estimators.base import Learner
from . import _plan as plan
from ._checkpoint import Checkpoint
from ._mining import check_formed, plans_across, plans_within
from ._runner import later, reduced, runner
from ._shards import shards_of
from ._survey import Survey

# mining="auto" looks across shards up to this many rows, bytes and shards, as one machine would; the work grows with
# n^2, and the number of tasks with that of shards squared.
ACROSS_ROWS, ACROSS_BYTES, ACROSS_SHARDS = 200_000, 1 << 28, 64


def fit(
    estimator: Learner,
    X: Any,
    y: Any,
    *,
    client: Any = None,
    rounds: int = 8,
    mining: str = "auto",
    held_out: float = 0.05,
    shard_rows: int = 65_536,
    checkpoint: str | Path | None = None,
) -> Learner:
    """Learn from data that lie in many chunks, on the workers of a Dask cluster.

    Every round each shard is learnt in one pass from the mixed model, and the shards' models are averaged, weighted by
    their steps, in a fixed order: Theta <- Theta + sum_s w_s Delta_s. Randomness comes from (seed, round, shard), so
    that the result depends neither on the number of workers nor on their fate.

    Parameters
    ----------
    estimator : learner
        Cloned, never changed. Its `n_epochs` does not matter here: rounds take its place.
    X : Dask array or dataframe, or path of a .npy file, a memory map, a Parquet file or folder
        One chunk is one shard. Chunks are read by the workers, which must see the path; a few thousand rows of each
        class a shard and at most a tenth of a worker's memory is a good size. Shuffle rows that are sorted by class.
    y : labels of the same kind, with the same chunks; the name of a column of a dataframe; or an array in memory
    client : dask.distributed.Client, optional
        None is the current client if there is one, else this process, shard after shard.
    rounds : int
        8 brings eight shards within .003 of the accuracy of one machine; more shards want more rounds.
    mining : {"auto", "across", "within"}
        Where targets and impostors of a row are looked for: across all shards, exactly as `fit` on one machine does,
        which costs n^2 d and lends each shard the rows it needs; or within its own shard. "auto" is across up to
        200,000 rows, 256 MiB and 64 shards.
    held_out : float in [0, 0.5]
        Part of the rows, at most 2,000, that are not learnt from; `score` on them is reported each round. 0: none.
    shard_rows : int
        Rows a shard where X is a .npy file.
    checkpoint : path, optional
        Written after each round. A call with the same data and parameters goes on from there, to the same bits.

    Returns
    -------
    learner
        A fitted clone. ``rounds_`` tells for each round the number of triplets and updates, the mean loss, the accuracy
        on the rows held out and the seconds it took.

    Examples
    --------
    >>> import dask.array as da
    >>> from paloma import LODML
    >>> from paloma.distributed import fit
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> metric = fit(LODML(random_state=0), da.from_array(X, chunks=(450, 64)), y, rounds=2)
    >>> print(f"{metric.score(X, y):.2f}")
    0.99
    """
    _check(estimator, rounds, mining, held_out, shard_rows)
    if checkpoint is not None and not isinstance(estimator.random_state, Integral):
        raise ValueError(f"checkpoint needs a seed to go on from: give {check.name_of(estimator)} a random_state.")
    shards = shards_of(X, y, shard_rows)
    survey = Survey.of(clone(estimator), runner(client), shards, held_out)
    small = survey.n_rows <= ACROSS_ROWS and survey.n_bytes <= ACROSS_BYTES and 1 < len(shards) <= ACROSS_SHARDS
    across = mining == "across" or (mining == "auto" and small and same_everywhere(estimator))
    return _Fit(survey, plans_across(survey) if across else plans_within(survey), across).learn(rounds, checkpoint)


def _check(estimator: Any, rounds: Any, mining: Any, held_out: Any, shard_rows: Any) -> None:
    if not isinstance(estimator, Learner):
        raise TypeError(f"estimator must be a paloma learner, got {type(estimator).__name__}.")
    check.check_count("rounds", rounds)
    check.check_count("shard_rows", shard_rows)
    check.check_word("mining", mining, ("auto", "across", "within"))
    check.check_real("held_out", held_out, 0.0, 0.5)
    check_mixable(estimator)
    if estimator.early_stopping and not held_out:
        raise ValueError("early_stopping watches the rows held out: give held_out more than 0.")
    if mining == "across" and not same_everywhere(estimator):
        raise ValueError(
            f"{check.name_of(estimator)} with groups mines within shards only: groups have other units each."
        )


@dataclass
class _Fit:
    """Shards and their plans; the learner goes from round to round."""

    survey: Survey
    plans: list[Any]
    across: bool

    def learn(self, rounds: int, path: str | Path | None) -> Learner:
        survey, verbose = self.survey, self.survey.learner.verbose > 0
        start, held = self._start(), self._held()
        reservoirs = survey.run([later(plan.reservoir_of, survey.learner, *one) for one in survey.each])
        checkpoint = Checkpoint(path, self._fingerprint())
        begun = checkpoint.read(start)
        report, learner = begun.report, survey.runner.place(begun.learner)
        title = f"{check.name_of(start)}, {len(survey.shards)} shards, {start.mined_['triplets']:,} triplets"
        with progress(title, rounds, verbose) as advance:
            advance(len(report))
            while len(report) < rounds and not (start.early_stopping and _worse(report)):
                learner, row = self._round(learner, held, len(report) + 1)
                report.append(row)
                if checkpoint.path is not None:
                    checkpoint.write(survey.runner.fetch(learner), report)
                advance(1, f"loss {row['loss']:.4f}, accuracy {row['accuracy']:.4f}")
        return self._finish(survey.runner.fetch(learner), reservoirs, report)

    def _start(self) -> Learner:
        """The learner at its start: scale and classes are those of all shards."""
        survey = self.survey
        figures = survey.fetch([later(plan.Plan.figures, one) for one in self.plans])
        scales, counts, summaries = zip(*figures, strict=True)
        check_formed(survey, sum(counts), self.across)
        learner, scale = copy.copy(survey.learner), common_scale(scales, counts)
        learner.mined_ = {name: sum(one[name] for one in summaries) for name in summaries[0]}
        k = next(k for k, count in enumerate(counts) if count)
        return survey.fetch([later(_begin, learner, *survey.each[k], self.plans[k], scale, sum(counts))])[0]

    def _held(self) -> Any:
        """Rows that are not learnt from, together on one worker; None where there are too few to be scored."""
        survey = self.survey
        if sum(job.n_held for job in survey.jobs) < 2:
            if survey.learner.early_stopping:
                raise ValueError(
                    "early_stopping watches the rows held out, and partitions are too small for any: make them larger, "
                    "or give more held_out."
                )
            return None
        parts = [later(plan.held_out, survey.learner, *one) for one in survey.each]
        return survey.run([later(plan.together, parts)])[0]

    def _fingerprint(self) -> dict[str, Any]:
        """What makes this fit this one and no other."""
        survey, learner = self.survey, self.survey.learner
        parameters = {name: repr(value) for name, value in sorted(learner.get_params().items()) if name != "verbose"}
        return {
            "learner": check.name_of(learner),
            "parameters": parameters,
            "mining across": self.across,
            "rows": [one.n for one in survey.about],
            "sums": [float(one.total.sum()) for one in survey.about],
            "labels": [one.labels for one in survey.about],
            "held": [job.n_held for job in survey.jobs],
        }

    def _round(self, learner: Any, held: Any, number: int) -> tuple[Any, dict[str, float]]:
        """The learner after one round, on the workers, and what to report about it."""
        begun, survey = perf_counter(), self.survey
        each = zip(survey.each, self.plans, strict=True)
        learnt = [later(_learn, learner, *one, chosen, number) for one, chosen in each]
        mixed = reduced(lambda parts: later(mix, parts), learnt)
        learner, mixed = survey.run([later(join, learner, mixed), mixed])
        row = survey.fetch([later(_report, learner, mixed, held)])[0]
        return learner, {"round": number, **row, "seconds": perf_counter() - begun}

    def _finish(self, learner: Learner, reservoirs: list[Any], report: list[dict[str, float]]) -> Learner:
        """What later learning on one machine goes on from."""
        rng = self.survey.jobs[0].random(len(report) + 1)
        learner._model.reservoir = self.survey.fetch([later(one_reservoir, reservoirs, rng)])[0]
        learner.rounds_ = report
        return learner


def _begin(learner: Learner, pair: Any, job: plan.Job, chosen: plan.Plan, scale: Any, n_triplets: int) -> Learner:
    """The learner at its start, made on a worker: rows do not go through the client."""
    rows, codes = plan.rows_of(learner, pair, job)
    X, _, _ = chosen.pool(rows.X, codes, job.first)
    return begin(copy.copy(learner), job.labels, scale, X, chosen.near.mined().triplets, n_triplets)


def _learn(learner: Learner, pair: Any, job: plan.Job, chosen: plan.Plan, number: int) -> Learnt:
    """One shard in one round."""
    rows, codes = plan.rows_of(learner, pair, job)
    X, codes, numbers = chosen.pool(rows.X, codes, job.first)
    return learn_shard(learner, X, codes, numbers, chosen.near, job.random(number))


def _report(learner: Learner, learnt: Learnt, held: Any) -> dict[str, float]:
    """What a round has come to."""
    tally = learnt.tally
    loss = tally.loss / max(tally.triplets, 1)
    accuracy = float("nan")
    if held is not None and len(held[1]) > 1:
        reader = copy.copy(learner)
        reader._model = copy.copy(learner._model)  # the read-out would travel with the learner
        reader.__dict__.pop("feature_names_in_", None)  # rows held out are arrays
        accuracy = reader.score(*held)
    return {"triplets": tally.triplets, "updates": tally.updates, "loss": loss, "accuracy": accuracy}


def _worse(report: list[dict[str, float]]) -> bool:
    """Whether the last round was no better than an earlier one on the rows held out."""
    return len(report) > 1 and not report[-1]["accuracy"] > max(row["accuracy"] for row in report[:-1])
