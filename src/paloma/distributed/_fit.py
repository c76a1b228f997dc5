"""Iterative parameter mixing over shards: plan once, then rounds of learning, mixing and reporting."""

import copy
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from time import perf_counter
from typing import Any

from sklearn.base import clone

from .. import _validation as check
from .._mixing import Learned, begin, check_mixable, common_scale, join, learn_shard, mix
from .._progress import progress
from .._training.partitions import one_reservoir
from ..estimators import bound_settings_of, is_learner, model_of, settings_of, with_model
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
    """Learn from data in many chunks, on the workers of a Dask cluster.

    In each round, every shard is learned in one pass starting from the mixed model, and the shards' models are
    averaged, weighted by their steps, in a fixed order: Theta <- Theta + sum_s w_s Delta_s. Randomness comes from
    (seed, round, shard), so the result depends neither on the number of workers nor on whether they survive.

    Parameters
    ----------
    estimator : learner
        Cloned, never changed. Its `n_epochs` is ignored: rounds take its place.
    X : Dask array or dataframe, or path of a .npy file, a memory map, a Parquet file or folder
        One chunk is one shard. Chunks are read by the workers, which must see the path; a few thousand rows of each
        class per shard and at most a tenth of a worker's memory is a good size. Shuffle rows that are sorted by class.
    y : labels of the same kind, with the same chunks; the name of a column of a dataframe; or an array in memory
    client : dask.distributed.Client, optional
        None uses the current client if there is one; otherwise this process, one shard after another.
    rounds : int
        8 brings eight shards within .003 of the accuracy of one machine; more shards need more rounds.
    mining : {"auto", "across", "within"}
        Where to look for the targets and impostors of a row: across all shards, exactly as `fit` does on one machine,
        which costs n^2 d and lends each shard the rows it needs; or within its own shard. "auto" is across up to
        200,000 rows, 256 MiB and 64 shards.
    held_out : float in [0, 0.5]
        Fraction of the rows, at most 2,000, to hold out of learning; `score` on them is reported each round. 0: none.
    shard_rows : int
        Rows per shard if X is a .npy file.
    checkpoint : path, optional
        Written after each round. A call with the same data and parameters resumes from there, with the same bits.

    Returns
    -------
    learner
        A fitted clone. ``rounds_`` lists for each round the number of triplets and updates, the mean loss, the accuracy
        on the held-out rows, and the seconds it took.

    Examples
    --------
    >>> import dask.array as da
    >>> from paloma import LODML
    >>> from paloma.distributed import fit
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> metric = fit(LODML(random_state=0), da.from_array(X, chunks=(450, 64)), y, rounds=2)
    >>> print(f"{metric.leave_one_out_score(X, y):.2f}")
    0.99
    """
    _check(estimator, rounds, mining, held_out, shard_rows)
    if checkpoint is not None and not isinstance(estimator.random_state, Integral):
        raise ValueError(f"checkpoint needs a seed to resume from: set the random_state of {check.name_of(estimator)}.")
    shards = shards_of(X, y, shard_rows)
    survey = Survey.of(clone(estimator), runner(client), shards, held_out)
    small = survey.n_rows <= ACROSS_ROWS and survey.n_bytes <= ACROSS_BYTES and 1 < len(shards) <= ACROSS_SHARDS
    across = mining == "across" or (
        mining == "auto" and small and "mining across shards" not in settings_of(estimator).space.cannot
    )
    return _Fit(survey, plans_across(survey) if across else plans_within(survey), across).learn(rounds, checkpoint)


def _check(estimator: Any, rounds: Any, mining: Any, held_out: Any, shard_rows: Any) -> None:
    if not is_learner(estimator):
        raise TypeError(f"estimator must be a paloma learner, got {type(estimator).__name__}.")
    check.check_count("rounds", rounds)
    check.check_count("shard_rows", shard_rows)
    check.check_word("mining", mining, ("auto", "across", "within"))
    check.check_real("held_out", held_out, 0.0, 0.5)
    settings = settings_of(estimator)
    check_mixable(settings)
    if estimator.early_stopping and not held_out:
        raise ValueError("early_stopping watches the held-out rows: set held_out above 0.")
    if mining == "across":
        settings.space.refuse(settings.who, "mining across shards")


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
        begun, report = checkpoint.read(start)
        learner = survey.runner.place(begun)
        shards = f"{len(survey.shards)} shard{'s' if len(survey.shards) > 1 else ''}"
        title = f"{check.name_of(start)}, {shards}, {start.mined_['triplets']:,} triplets"
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
        totals = {name: sum(one[name] for one in summaries) for name in summaries[0]}
        learner.mined_ = {**totals, "search": "exact" if self.across else "within partitions"}
        k = next(k for k, count in enumerate(counts) if count)
        return survey.fetch([later(_begin, learner, *survey.each[k], self.plans[k], scale, sum(counts))])[0]

    def _held(self) -> Any:
        """Rows that are not learned from, together on one worker; None if there are too few to be scored."""
        survey = self.survey
        if sum(job.n_held for job in survey.jobs) < 2:
            if survey.learner.early_stopping:
                raise ValueError(
                    "early_stopping watches the held-out rows, and the partitions are too small to hold any out: use "
                    "larger partitions, or a larger held_out."
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
        learned = [later(_learn, learner, *one, chosen, number) for one, chosen in each]
        mixed = reduced(lambda parts: later(mix, parts), learned)
        learner, mixed = survey.run([later(_join, learner, mixed), mixed])
        row = survey.fetch([later(_report, learner, mixed, held)])[0]
        return learner, {"round": number, **row, "seconds": perf_counter() - begun}

    def _finish(self, learner: Learner, reservoirs: list[Any], report: list[dict[str, float]]) -> Learner:
        """What later learning on one machine continues from."""
        rng = self.survey.jobs[0].random(len(report) + 1)
        model_of(learner).reservoir = self.survey.fetch([later(one_reservoir, reservoirs, rng)])[0]
        learner.rounds_ = report
        return learner


def _begin(learner: Learner, pair: Any, job: plan.Job, chosen: plan.Plan, scale: Any, n_triplets: int) -> Learner:
    """The learner at its start, made on a worker: rows do not go through the client."""
    rows, codes = plan.rows_of(learner, pair, job)
    X, _, _ = chosen.pool(rows.X, codes, job.first)
    triplets = chosen.near.mined().triplets
    return with_model(learner, begin(bound_settings_of(learner), job.labels, scale, X, triplets, n_triplets))


def _learn(learner: Learner, pair: Any, job: plan.Job, chosen: plan.Plan, number: int) -> Learned:
    """One shard in one round."""
    rows, codes = plan.rows_of(learner, pair, job)
    X, codes, numbers = chosen.pool(rows.X, codes, job.first)
    settings, model = bound_settings_of(learner), model_of(learner)
    return learn_shard(settings, model, X, codes, numbers, chosen.near, job.random(number))


def _join(learner: Learner, learned: Learned) -> Learner:
    """The learner moved to where its mixed shards got to."""
    model = join(model_of(learner), learned, settings_of(learner).choice)
    out = with_model(learner, model, learned.tally.loss / max(learned.tally.triplets, 1))
    out.n_iter_ = getattr(learner, "n_iter_", 0) + 1
    return out


def _report(learner: Learner, learned: Learned, held: Any) -> dict[str, float]:
    """What a round has come to."""
    tally = learned.tally
    loss = tally.loss / max(tally.triplets, 1)
    accuracy = float("nan")
    if held is not None and len(held[1]) > 1:
        reader = with_model(learner, copy.copy(model_of(learner)))  # the read-out would travel with the learner
        reader.__dict__.pop("feature_names_in_", None)  # held-out rows are arrays
        accuracy = reader.leave_one_out_score(*held)
    return {"triplets": tally.triplets, "updates": tally.updates, "loss": loss, "accuracy": accuracy}


def _worse(report: list[dict[str, float]]) -> bool:
    """Whether the last round was no better than an earlier one on the held-out rows."""
    return len(report) > 1 and not report[-1]["accuracy"] > max(row["accuracy"] for row in report[:-1])
