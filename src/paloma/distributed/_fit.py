"""Iterative parameter mixing over shards: plan once, then rounds of learning, mixing and reporting."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import clone

from .. import _validation as check
from .._locality import Labels
from .._partitions import centre_of, one_reservoir, spread
from .._progress import progress
from ..estimators._mixing import Learnt, begin, check_mixable, common_scale, join, learn_shard, mix
from ..estimators.base import Learner
from . import _plan as plan
from ._checkpoint import Checkpoint
from ._runner import Here, There, later, reduced, runner
from ._shards import shards_of

# mining="auto" looks across shards up to this many rows and bytes, as one machine would; the work grows with n^2.
ACROSS_ROWS, ACROSS_BYTES = 200_000, 1 << 28
HELD_ROWS = 2000


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
        200,000 rows and 256 MiB.
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
    shards = shards_of(X, y, shard_rows)
    run = _Run(clone(estimator), shards, runner(client), rounds, mining, held_out)
    return run.learn(Checkpoint(checkpoint))


def _check(estimator: Any, rounds: Any, mining: Any, held_out: Any, shard_rows: Any) -> None:
    if not isinstance(estimator, Learner):
        raise TypeError(f"estimator must be a paloma learner, got {type(estimator).__name__}.")
    check.check_count("rounds", rounds)
    check.check_count("shard_rows", shard_rows)
    check.check_word("mining", mining, ("auto", "across", "within"))
    check.check_real("held_out", held_out, 0.0, 0.5)
    check_mixable(estimator)


@dataclass
class _Run:
    """One fit."""

    learner: Learner
    shards: list[Any]
    runner: Here | There
    rounds: int
    mining: str
    held_out: float

    def learn(self, checkpoint: Checkpoint) -> Learner:
        about = self._describe()
        jobs = self._jobs(about)
        plans, figures = self._plans(about, jobs)
        reservoirs = self._run([later(plan.reservoir_of, self.learner, *one) for one in self._each(jobs)])
        held = self._held(jobs)
        start = self._begin(about, jobs, figures)
        state = checkpoint.open(self._fingerprint(about), start)
        learner = self._run([later(_given, state.learner)])[0]
        title = f"{check.name_of(self.learner)}, {len(self.shards)} shards, {start.mined_['triplets']:,} triplets"
        with progress(title, self.rounds, self.learner.verbose > 0) as advance:
            advance(len(state.report), "")
            for number in range(len(state.report) + 1, self.rounds + 1):
                begun = perf_counter()
                learner, row = self._round(learner, jobs, plans, held, number)
                state.report.append({**row, "seconds": perf_counter() - begun})
                checkpoint.write(lambda: self.runner.fetch(learner), state.report)  # noqa: B023
                advance(1, f"loss {row['loss']:.4f} accuracy {row['accuracy']:.4f}")
                if self.learner.early_stopping and _worse(state.report):
                    break
        return self._finish(self.runner.fetch(learner), reservoirs, state.report)

    def _run(self, tasks: list[Any]) -> list[Any]:
        return self.runner.run(tasks)

    def _each(self, jobs: list[plan.Job]) -> list[tuple[Any, plan.Job]]:
        return list(zip(self.shards, jobs, strict=True))

    # -- before the first round ----------------------------------------------------------------------------------

    def _describe(self) -> list[plan.About]:
        """What the shards hold; what does not fit together is refused here."""
        tasks = [later(plan.describe, self.learner, pair, k) for k, pair in enumerate(self.shards)]
        about = self.runner.fetch(self._run(tasks))
        filled = [k for k, each in enumerate(about) if each.n]
        who = check.name_of(self.learner)
        if not filled:
            raise ValueError(f"{who}: all {len(about)} partitions are empty.")
        first = about[filled[0]]
        for k in filled:
            if about[k].width != first.width:
                raise ValueError(
                    f"Partition {k}: X has {about[k].width} features, but partition {filled[0]} has {first.width}."
                )
        if _bytes(about) <= self.runner.memory() / 4:
            self.shards = self._run(self.shards)
        return about

    def _jobs(self, about: list[plan.About]) -> list[plan.Job]:
        labels = Labels()
        for k, each in enumerate(about):
            try:
                labels = Labels(np.union1d(labels.labels, each.classes)) if len(labels) else labels.extended(each.classes)
                labels.codes(each.classes)
            except TypeError as error:
                raise TypeError(f"Partition {k}: {error}") from None
        if len(labels) < 2:
            raise ValueError(f"{check.name_of(self.learner)} learns from rows of at least 2 classes, got {len(labels)}.")
        dtype = np.result_type(*(each.dtype for each in about if each.n))
        seed = int(self.learner._generator().integers(np.iinfo(np.int32).max))
        limit = HELD_ROWS // len(about) + 1
        firsts = np.cumsum([0, *(each.n for each in about)]).tolist()
        return [
            plan.Job(k, firsts[k], seed, min(int(self.held_out * each.n), limit), dtype, labels)
            for k, each in enumerate(about)
        ]

    def _plans(self, about: list[plan.About], jobs: list[plan.Job]) -> tuple[list[Any], list[Any]]:
        """Neighbours of all rows, on the workers, and their figures."""
        small = sum(each.n for each in about) <= ACROSS_ROWS and _bytes(about) <= ACROSS_BYTES
        across = self.mining == "across" or (self.mining == "auto" and small and len(about) > 1)
        if across:
            plans = self._across(about, jobs)
        else:
            self._warn(about)
            plans = self._run([later(plan.plan_within, self.learner, *one) for one in self._each(jobs)])
        figures = self.runner.fetch(self._run([later(plan.Plan.figures, one) for one in plans]))
        if not sum(triplets for _, triplets, _ in figures):
            raise ValueError(
                f"{check.name_of(self.learner)}: no triplet was formed in any of {len(about)} partitions. "
                + ("" if across else "Each sees its own rows only: shuffle them, or pass mining='across'.")
            )
        return plans, figures

    def _warn(self, about: list[plan.About]) -> None:
        lone = [k for k, each in enumerate(about) if each.n and len(each.classes) < 2]
        if lone:
            warnings.warn(
                f"{len(lone)} of {len(about)} partitions hold one class, the first is partition {lone[0]}: with "
                "mining='within' their rows give no triplets. Shuffle the rows, or pass mining='across'.",
                UserWarning,
            )

    def _across(self, about: list[plan.About], jobs: list[plan.Job]) -> list[Any]:
        """Exact neighbours over all shards: each looks into every other one, then gets the rows it named."""
        learner, each = self.learner, self._each(jobs)
        n = sum(one.counts.sum() for one in about)
        total = np.sum([one.total for one in about if one.n], axis=0)
        centre = centre_of(total, n, jobs[0].dtype, any(one.sparse for one in about))
        found = []
        for pair, job in each:
            state: Any = None
            for other, theirs in each:
                state = later(plan.look, learner, state, pair, (job, theirs), other, centre)
            found.append(state)
        found = self._run(found)
        norms = self.runner.fetch(self._run([later(plan.norms_of, one) for one in found]))
        wide = spread([norm for norm, _ in norms], sum(k for _, k in norms), total, centre)
        slack = learner.impostor_margin * wide
        wanted = self._run(
            [later(plan.want, learner, *one, state, slack) for one, state in zip(each, found, strict=True)]
        )
        asked = [later(plan.numbers_of, one) for one in wanted]
        lent = [later(plan.lend, learner, *one, asked, nout=len(each)) for one in each]
        return self._run(
            [
                later(plan.plan_across, learner, *one, wants, [loan[k] for loan in lent])
                for k, (one, wants) in enumerate(zip(each, wanted, strict=True))
            ]
        )

    def _held(self, jobs: list[plan.Job]) -> Any:
        """Rows that are not learnt from, together on one worker; None where there are too few to be scored."""
        if sum(job.n_held for job in jobs) < 2:
            return None
        parts = [later(plan.held_out, self.learner, *one) for one in self._each(jobs)]
        return self._run([later(plan.together, parts)])[0]

    def _begin(self, about: list[plan.About], jobs: list[plan.Job], figures: list[Any]) -> Learner:
        """The learner at its start: scale and classes are those of all shards."""
        first = next(each for each in about if each.n)
        learner = clone(self.learner)
        learner.n_features_in_ = first.width
        if first.names is not None:
            learner.feature_names_in_ = first.names
        learner._check_held(first.width)
        scale = common_scale([scale for scale, _, _ in figures], [triplets for _, triplets, _ in figures])
        n_triplets = sum(triplets for _, triplets, _ in figures)
        begin(learner, jobs[0].labels, scale, _like(first.width, jobs[0].dtype, first.sparse), n_triplets)
        learner.mined_ = {name: sum(one[2][name] for one in figures) for name in figures[0][2]}
        return learner

    def _fingerprint(self, about: list[plan.About]) -> dict[str, Any]:
        parameters = {k: repr(v) for k, v in sorted(self.learner.get_params().items()) if k != "verbose"}
        totals = [float(np.sum(each.total)) for each in about]
        rows = [each.n for each in about]
        return {"learner": check.name_of(self.learner), "parameters": parameters, "rows": rows, "totals": totals,
                "mining": self.mining, "held_out": self.held_out}  # fmt: skip

    # -- rounds --------------------------------------------------------------------------------------------------

    def _round(self, learner: Any, jobs: list[plan.Job], plans: list[Any], held: Any, number: int) -> tuple[Any, Any]:
        """The learner after one round, on the workers, and what to report about it."""
        each = zip(self._each(jobs), plans, strict=True)
        learnt = [later(_learn, learner, *one, chosen, number) for one, chosen in each]
        mixed = reduced(lambda parts: later(mix, parts), learnt)
        after = later(join, learner, mixed)
        learner, mixed = self._run([after, mixed])
        report = later(_report, learner, mixed, held)
        return learner, {"round": number, **self.runner.fetch(self._run([report]))[0]}

    def _finish(self, learner: Learner, reservoirs: list[Any], report: list[dict[str, float]]) -> Learner:
        rng = np.random.default_rng(learner._model.rng.integers(np.iinfo(np.int32).max))
        learner._model.reservoir = self.runner.fetch(self._run([later(one_reservoir, reservoirs, rng)]))[0]
        learner.rounds_ = report
        return learner


def _bytes(about: list[plan.About]) -> int:
    return sum(each.n * each.width * each.dtype.itemsize for each in about)


def _given(learner: Learner) -> Learner:
    return learner


def _learn(learner: Learner, pair: Any, job: plan.Job, chosen: plan.Plan, number: int) -> Learnt:
    """One shard in one round."""
    rows, codes = plan.rows_of(learner, pair, job)
    X, codes, numbers = chosen.pool(rows.X, codes, job.first)
    return learn_shard(learner, X, codes, numbers, chosen.mined(), job.random(number))


def _report(learner: Learner, learnt: Learnt, held: Any) -> dict[str, float]:
    """What a round has come to."""
    tally = learnt.tally
    loss = tally.loss / max(tally.triplets, 1)
    accuracy = float("nan") if held is None or len(held[1]) < 2 else learner.score(*held)
    return {"triplets": tally.triplets, "updates": tally.updates, "loss": loss, "accuracy": accuracy}


def _worse(report: list[dict[str, float]]) -> bool:
    """Whether the last round was no better than an earlier one on the rows held out."""
    return len(report) > 1 and not report[-1]["accuracy"] > max(row["accuracy"] for row in report[:-1])


def _like(width: int, dtype: Any, sparse: bool) -> Any:
    """No rows, of the kind to come."""
    import scipy.sparse as sp

    return sp.csr_matrix((0, width), dtype=dtype) if sparse else np.empty((0, width), dtype)
