"""From rows to streams: what `fit` and `partial_fit` do with input that passed every check."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import _validation as check
from .._core.interrupt import learning_begins
from .._core.locality import FREE, SHARED, Labels
from .._core.regions import Regions
from .._core.space import PAIRS
from .._core.stream import Pass, Stream, Tally
from .._progress import Advance, narrated, progress, say
from .._reading.whiteners import Whitener, on_whitened, whitened
from .._rows import stacked
from .._threads import jobs, sharing
from .._typing import Array, Rows
from .input import Checked
from .model import Model
from .pairs import middle, pair_stream, start_values
from .parts import Guarding, Mined, evenly
from .reservoir import Reservoir
from .settings import Settings


@dataclass
class Trainer:
    """Settings and the model that they train; `model` is None before anything was learned.

    loss : mean loss of the last pass. n_iter : passes of `fit`. mined : summary of the triplets that labels gave.
    score : fraction of held-out triplets that the last pass ranked right.
    """

    settings: Settings
    model: Any = None  # a Model
    loss: float | None = None
    n_iter: int | None = None
    mined: dict[str, Any] | None = None
    score: float = -np.inf

    # -- the two ways to train ---------------------------------------------------------------------------------------

    def fit(self, data: Checked) -> None:
        """Learn a new model from all rows, n_epochs times."""
        settings, d, codes = self.settings, data.X.shape[1], data.codes
        mining, scaling, mined, blocks = settings.mining, settings.scaling, None, list[Array]()
        X, own, rng = data.X, codes, settings.generator()
        with jobs(settings.n_jobs), sharing(PAIRS, d, d), narrated(settings.verbose > 0):
            if data.given is not None:
                first, whitener = data.given, scaling.whitener(X, data.near)
                inside = whitened(X, whitener)
            else:
                say(f"{settings.who}, {len(codes):,} rows: looking for neighbors")
                blocks = mining.blocks(codes, rng)
                if blocks:
                    X, own = X[blocks[0]], codes[blocks[0]]
                whitener = scaling.labeled_whitener(X, own)
                inside = whitened(X, whitener)
                mined = mining.mine(mining.rows(inside), own)
                first, n = mined.triplets, int((own >= 0).sum())
                self.mined = {**mined.summary(), "search": settings.space.mined_by(X, n)}
            n_triplets = len(first) * max(len(blocks), 1)
            self._begin(X, inside, data.labels, rng, first, whitener, whole=True, n_triplets=n_triplets)
            self.model.from_labels = mined is not None
            stream = self._stream(data, inside, self.model.places(X, own), first)
            averaging = self._averages(given=mined is None, passes=settings.n_epochs)
            if blocks:
                self._block_epochs(data.X, codes, blocks, stream, averaging)
            else:
                self._epochs(X, stream, mined, averaging, codes)
            if codes is not None:
                self.model.reservoir.add(data.X, codes, self.model.rng)
            self.model.space.close()
            if settings.guard is not None and mined is not None:
                settings.guard.judge(self, data.X, codes, rng.spawn(1)[0])

    def partial_fit(self, data: Checked) -> None:
        """Learn in one pass from more rows, triplets or pairs."""
        settings, d = self.settings, data.X.shape[1]
        with jobs(settings.n_jobs), sharing(PAIRS, d, d):
            if self.model is None:
                whitener = settings.scaling.first_whitener(data.X, data.near)
                inside = whitened(data.X, whitener)
                self._begin(data.X, inside, data.labels, settings.generator(), data.given, whitener)
            with self.model.unchanged_on_error():
                self._continue(data)

    def _continue(self, data: Checked) -> None:
        settings, model, codes = self.settings, self.model, data.codes
        rows = check.of_kind(data.X.astype(model.space.dtype, copy=False), model.sparse)
        if model.scale is None:
            check.check_magnitude(settings.who, rows, 1.0)
        else:
            inside = whitened(rows, model.whitener)
            settings.space.check_magnitude(settings.who, settings.choice, inside, model.space.factor)
        before, guard = model.counts.seen, None if model.whole else settings.guard
        if model.regions is not None:
            model.regions.learn(rows, whole=False)
        if data.given is None:
            if guard is not None:
                guard.meet(self, rows, codes)
            tally = self._learn_rows(rows, codes)
        else:
            whitener = None if model.scale is not None else settings.scaling.first_whitener(rows, data.near)
            model.freeze(settings, rows, data.given, whitener)
            stream = self._stream(data, whitened(rows, model.whitener), model.places(rows, codes), data.given)
            averaging = self._averages(given=True, passes=1)
            if guard is not None and (codes is None or data.grouped):
                tally = self._learn_heard(guard, data, rows, codes, stream, averaging)
            else:
                tally = self._pass(stream, averaging, codes)
        model.know(data.labels)
        if tally.triplets:
            self.loss = tally.loss / tally.triplets
        model.space.close()
        labeled = codes is not None and not data.grouped
        if guard is not None and labeled and guard.due(before, model.counts.seen):
            guard.judge_stream(self, rows, codes, data.given is not None)

    def _learn_heard(
        self, guard: Guarding, data: Checked, rows: Rows, codes: Array | None, stream: Stream, averaging: bool
    ) -> Tally:
        """One pass over triplets or pairs without labels, which the guard hears before they are learned: if they are
        more than there were before, the second half when the first is learned."""
        n, tally = len(stream.triplets), Tally()
        halves = n > max(self.model.counts.seen, 1)
        for part in (slice(n // 2), slice(n // 2, n)) if halves else (slice(n),):
            guard.hear(self, rows, *data.statements(part), codes)
            each = (None if values is None else values[part] for values in (stream.weight, stream.shift, stream.about))
            weight, shift, about = each
            half = replace(stream, triplets=stream.triplets[part], weight=weight, shift=shift, about=about)
            learned = self._pass(half, averaging, codes)
            tally.add(learned.triplets, learned.loss, learned.updates)
        return tally

    # -- beginning ---------------------------------------------------------------------------------------------------

    def _begin(
        self, X: Rows, inside: Rows, labels: Labels, rng: np.random.Generator, triplets: Array | None,
        whitener: Whitener | None, whole: bool = False, n_triplets: int | None = None,
    ) -> None:  # fmt: skip
        """A model at its start; X, also whitened (`inside`), and triplets are the first of what it will see."""
        settings, scale = self.settings, self.settings.scaling.scale(inside, triplets)
        reservoir = Reservoir(settings.reservoir_size, settings.window)
        self.model = model = Model(labels, rng, reservoir, scale, whole, sp.issparse(X), whitener=whitener)
        if settings.regions is not None:
            model.regions = Regions(settings.regions, settings.soft_regions, int(rng.integers(2**31)))
            if whole:
                model.regions.learn(X, whole)
        model.begin(settings, inside, triplets, n_triplets)

    def _stream(self, data: Checked, X: Rows, codes: Any, given: Array) -> Stream:
        """Triplets, or pairs as triplets, of whitened rows, ready to be learned; the first pairs fix the threshold.

        codes : what decides the metric of a row, as `Model.places` gives it.
        """
        factor = self.model.space.factor
        if data.pairs is None:
            return Stream(X, given, codes, factor, data.weight)
        threshold = self._threshold(X, codes, data.pairs, data.targets)
        measure = self.settings.choice.measure
        return pair_stream(measure, X, codes, data.pairs, data.targets, threshold, factor, data.weight)

    def _threshold(self, X: Rows, codes: Any, pairs: Array, targets: Array) -> float:
        """b: as given, or found from the first pairs and then kept."""
        model, settings = self.model, self.settings
        if settings.pair_threshold != "auto":
            return float(settings.pair_threshold)
        if model.threshold is None and len(pairs):
            choice, d = settings.choice, X.shape[1]
            start = on_whitened(settings.space, model.whitener, d).start(d, X.dtype)
            values = start_values(choice.measure, X, pairs, start)
            values *= model.space.factor**2 if start is None else 1.0
            soft = codes is not None and codes.ndim == 2
            free = np.full(len(pairs), FREE) if codes is None else codes[pairs[:, 1]]
            values *= 1.0 if soft else np.where(free >= 0, 1.0, choice.locality.lam)
            model.threshold = middle(choice.measure, values, targets, choice.margin)
        return model.threshold or 0.0

    # -- passes ------------------------------------------------------------------------------------------------------

    def learn(self, stream: Stream, averaging: bool, advance: Any = None) -> Tally:
        """One pass over a stream."""
        model, settings = self.model, self.settings
        learning_begins()
        counts = model.counts
        rate = counts.rate if averaging or counts.n_means else None  # averages that were once begun are always kept
        how = Pass(counts.seen, rate, settings.block_size, advance, model.rng)
        tally = model.space.learn(settings.choice, stream, counts, how)
        counts.add(tally)
        model.metric = model.balance = None
        return tally

    def _averages(self, *, given: bool, passes: int) -> bool:
        """Whether averaged iterates are kept: not by default if a single pass of given triplets is learned."""
        wanted = self.settings.averaging
        return bool(wanted) if wanted != "auto" else not (given and passes == 1)

    def _pass(
        self, stream: Stream, averaging: bool, codes: Array | None, advance: Any = None, quiet: Array | None = None
    ) -> Tally:
        """One pass over a stream; with class codes, triplets enter the drift signals (`quiet`: see `Drift`)."""
        if codes is None:
            return self.learn(stream, averaging, advance)
        stream.gaps = np.full(len(stream.triplets), np.nan)
        tally = self.learn(stream, averaging, advance)
        rows = stream.triplets[:, 1] if stream.about is None else stream.about
        self.model.drift.add(codes[rows], stream.gaps, self.settings.choice.margin, quiet)
        stream.gaps = None
        return tally

    def learn_mined(self, X: Rows, codes: Array, mined: Mined, anchors: Array | None) -> Tally:
        """One pass over mined triplets in random order; those met for the first time enter the drift signals."""
        settings, model = self.settings, self.model
        stream = Stream(X, mined.shuffled(model.rng, codes if settings.balanced else None), codes, model.space.factor)
        fresh = not model.counts.seen
        quiet = settings.mining.quiet(mined, codes, anchors) if fresh else None
        return self._pass(stream, self._averages(given=False, passes=1), codes if fresh else None, quiet=quiet)

    def _epochs(self, X: Rows, stream: Stream, mined: Mined | None, averaging: bool, codes: Any) -> None:
        """n_epochs passes: mined triplets in a new order each time, given ones in their own; X before whitening."""
        mining, (held, anchors) = self.settings.mining, self._held_out(stream.triplets)
        if anchors is not None:
            kept = np.isin(stream.triplets[:, 0], anchors)
            stream.triplets = stream.triplets[kept]
            stream.weight = None if stream.weight is None else stream.weight[kept]
        title = f"{self.settings.who}, {len(stream.triplets):,} triplets"
        if mined is not None:
            mined = replace(mined, triplets=stream.triplets)
            title += f", {mined.n_alone + mined.n_unopposed:,} of {mined.n_anchors:,} anchors have none"

        def one(epoch: int, advance: Advance) -> Tally:
            nonlocal mined
            if mined is not None:
                mined = self._next_triplets(X, stream, mined, codes, anchors, epoch)
            quiet = None if epoch or mined is None else mining.quiet(mined, codes, anchors)
            told = lambda n, loss: advance(n, f"loss {loss:.3f}")  # noqa: E731
            return self._pass(stream, averaging, None if epoch else codes, told, quiet)

        self._repeat(one, title, len(stream.triplets), stream, held)

    def _block_epochs(self, X: Rows, codes: Array, blocks: list[Array], first: Stream, averaging: bool) -> None:
        """n_epochs passes over blocks of rows that mine among themselves, cut anew each time; X before whitening.

        first : the first block as it was mined; with early stopping, some of its anchors are held out.
        """
        settings, n, (held, _), kept = self.settings, len(codes), self._held_out(first.triplets), None
        if held is not None:
            kept = codes >= 0
            kept[blocks[0][held[:, 0]]] = False
        search = f"blocks of {n // len(blocks):,}"

        def one(epoch: int, advance: Advance) -> Tally:
            total, counts = Tally(), Counter[str]()
            for rows in settings.mining.blocks(codes, self.model.rng) if epoch else blocks:
                anchors = None if kept is None else np.flatnonzero(kept[rows])
                tally, mined = self._learn_block(X[rows], codes[rows], rows, anchors, epoch, averaging)
                total.add(tally.triplets, tally.loss, tally.updates)
                counts.update(mined.summary())
                advance(len(rows), f"{total.triplets:,} triplets, loss {total.loss / max(total.triplets, 1):.3f}")
            if not epoch:
                self.mined = {**counts, "search": search}
            return total

        self._repeat(one, f"{settings.who}, {n:,} rows in {search}", n, first, held)

    def _repeat(
        self, one: Callable[[int, Advance], Tally], title: str, n: int, stream: Stream, held: Array | None
    ) -> None:
        """n_epochs passes of n steps each, fewer if what was held out of a stream is no longer ranked better."""
        with progress(title, self.settings.n_epochs * n) as advance:
            for epoch in range(self.settings.n_epochs):
                tally = one(epoch, advance)
                self.loss, self.n_iter = tally.loss / max(tally.triplets, 1), epoch + 1
                if held is not None and not self._improves(stream, held):
                    break

    def _learn_block(
        self, X: Rows, codes: Array, numbers: Array, anchors: Array | None, epoch: int, averaging: bool
    ) -> tuple[Tally, Mined]:
        """Mine a block of rows among themselves, and learn what was found; `numbers`: of its rows in all data."""
        settings, model = self.settings, self.model
        inside = whitened(X, model.whitener)
        settings.space.check_magnitude(settings.who, settings.choice, inside, model.space.factor)
        model.space.open(inside, numbers)
        stream = Stream(inside, np.empty((0, 3), np.int64), model.places(X, codes), model.space.factor)
        mined = self._next_triplets(X, stream, None, codes, anchors, epoch)
        quiet = None if epoch else settings.mining.quiet(mined, codes, anchors)
        return self._pass(stream, averaging, None if epoch else codes, quiet=quiet), mined

    def _next_triplets(
        self, X: Rows, stream: Stream, mined: Mined | None, codes: Array, anchors: Array | None, epoch: int
    ) -> Mined:
        """Put an epoch's triplets from labels, given and found, into the stream; class-free ones are learned here.

        mined : what labels gave before; None: they are to be mined now.
        """
        settings, model = self.settings, self.model
        remine = settings.remine and epoch > 0
        again, confidence = remine, None
        if epoch and (codes < 0).any():
            filled, confidence = settings.semi.between_epochs(self, X, stream.X, codes)
            if confidence is not None:
                if anchors is not None:
                    anchors = np.union1d(anchors, np.flatnonzero((codes < 0) & (filled >= 0)))
                codes, again, stream.codes = filled, True, model.places(X, filled)
        if again or mined is None:
            rows = self._remining_rows(stream.X) if remine else settings.mining.rows(stream.X)
            mined = settings.mining.mine(rows, codes, anchors, model.space)
        stream.triplets = mined.shuffled(model.rng, codes if settings.balanced else None)
        if confidence is not None:
            stream.weight = settings.semi.weights(stream.triplets, confidence)
        return mined

    def _remining_rows(self, X: Rows) -> Rows:
        """Whitened rows as the current shared metric sees them, for a Euclidean search."""
        metric = self.model.inside(self.settings)
        if self.settings.choice.measure.is_distance:
            return metric.transform(X)
        if sp.issparse(X):
            raise TypeError("remine=True needs dense rows.")
        factors, _ = metric.item_side(X, np.full(len(X), SHARED, np.int32))
        return np.hstack([X, *factors])

    def _held_out(self, triplets: Array) -> tuple[Array | None, Array | None]:
        """For early stopping, triplets of random anchors that are not learned from, and the other anchors."""
        anchors: Array = np.unique(triplets[:, 0] if self.settings.early_stopping else triplets[:0, 0])
        if len(anchors) < 2:
            return None, None
        n_held = min(int(np.ceil(self.settings.validation_fraction * len(anchors))), len(anchors) - 1)
        kept = np.sort(self.model.rng.permutation(anchors)[n_held:])
        return triplets[~np.isin(triplets[:, 0], kept)], kept

    def _improves(self, stream: Stream, held: Array) -> bool:
        """Whether the current read-out ranks more of the held-out triplets right than that of the pass before."""
        codes = stream.codes
        candidates = np.full(held[:, 1:].shape, SHARED, np.int32) if codes is None else codes[held[:, 1:]]
        reader = replace(self.model.reader(self.settings, None), readout=lambda: self.model.inside(self.settings))
        before, self.score = self.score, reader.ranked_right(stream.X, held, candidates)
        return not self.score <= before

    # -- streams of labeled rows -------------------------------------------------------------------------------------

    def _learn_rows(self, rows: Rows, codes: Array) -> Tally:
        """One pass over labeled rows: triplets inside the batch and with the reservoir, then into the reservoir."""
        model, settings = self.model, self.settings
        known = codes >= 0
        X, labeled = (rows, codes) if known.all() else (rows[known], codes[known])
        old, old_codes = model.reservoir.sample(X)
        pool, pool_codes, confidence = stacked([old, X]), np.concatenate([old_codes, labeled]), None
        if not known.all() and model.counts.seen:
            pool, pool_codes, confidence = settings.semi.joined(self, pool, pool_codes, rows[~known])
        tally, anchors = Tally(), np.arange(len(old_codes), len(pool_codes))
        if settings.balanced and len(old_codes):
            anchors = np.union1d(anchors, evenly(old_codes, len(anchors), model.rng))
        if len(anchors) and (pool_codes != pool_codes[0]).any():
            whitener = model.whitener
            if model.scale is None:
                whitener = settings.scaling.first_whitener(pool, settings.scaling.near_pairs(pool, pool_codes, anchors))
            inside = whitened(pool, whitener)
            mined = settings.mining.mine(settings.mining.rows(inside), pool_codes, anchors, model.space)
            model.freeze(settings, pool, mined.triplets, whitener)
            model.from_labels = True
            triplets = mined.shuffled(model.rng)
            averaging = self._averages(given=False, passes=1)
            weight = None if confidence is None else settings.semi.weights(triplets, confidence)
            stream = Stream(inside, triplets, model.places(pool, pool_codes), model.space.factor, weight)
            tally = self._pass(stream, averaging, pool_codes, quiet=settings.mining.quiet(mined, pool_codes, anchors))
        learning_begins()
        model.reservoir.add(X, labeled, model.rng)
        return tally
