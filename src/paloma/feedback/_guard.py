"""The guard: whom to believe, and how far to follow what was learned (theory 25).

Each statement is judged before it is learned: the share of its triplets that a metric ranks right, under metrics of
growing strength, from 0, no feedback, over 1/2, the start from statistics, to 1, all that was learned.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .._typing import Array

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
# A stronger metric is followed unless a weaker one is better by more than this many standard errors: a one-sided test
# at 84 %, and the doubt is in favor of the weaker one. As clearly a speaker must be wrong to be disbelieved.
CAUTION = 1.0
# So many statements a speaker must have made before he can be disbelieved; of the last so many, those of speakers who
# are believed decide on strength.
LEAST, WINDOW = 3, 400
DOUBT = 0.25
# Queries with marks after which a speaker who is believed is suspected only if he contradicts what he said before.
KNOWN = 100
# What a covariance may be by rounding alone, in units of the distances that it is made of.
ROUNDING = 1e-10
_NONE = np.empty((0, len(STRENGTHS)))


@dataclass(frozen=True, eq=False)
class Scores:
    """Share of each judged statement that is ranked right at each of STRENGTHS; NaN if it was not judged.

    pages : for each page, as far back as the last WINDOW statements need, these shares, and numbers of who made them.
    past : of each page before, of which nobody asks more, how many statements it had, and their mean.

    What one state has is never changed: it belongs to all later ones too.
    """

    pages: tuple[tuple[Array, Array], ...] = ()
    past: tuple[tuple[int, Array], ...] = ()

    def __len__(self) -> int:
        return sum(n for n, _ in self.past) + sum(len(codes) for _, codes in self.pages)

    def extended(self, scores: Array, codes: Array) -> "Scores":
        """A page more."""
        pages, past = (*self.pages, (scores, codes)), self.past
        while sum(len(codes) for _, codes in pages[1:]) >= WINDOW:
            oldest, pages = pages[0][0], pages[1:]
            past = (*past, (len(oldest), oldest.mean(axis=0))) if len(oldest) else past
        return Scores(pages, past)

    @property
    def shares(self) -> Array:
        """Of all statements, (n, len(STRENGTHS)); of those past, the mean of their page."""
        past = (np.broadcast_to(mean, (n, len(STRENGTHS))) for n, mean in self.past)
        return np.concatenate([_NONE, *past, *(scores for scores, _ in self.pages)])

    @property
    def recent(self) -> tuple[Array, Array]:
        """Of the last WINDOW statements, and who made them."""
        scores, codes = self._joined()
        return scores[-WINDOW:], codes[-WINDOW:]

    def _joined(self) -> tuple[Array, Array]:
        codes = np.concatenate([np.empty(0, np.int64), *(codes for _, codes in self.pages)])
        return np.concatenate([_NONE, *(scores for scores, _ in self.pages)]), codes

    def as_arrays(self) -> dict[str, Array]:
        """As a file holds them."""
        scores, codes = self._joined()
        sizes, counts = [len(codes) for _, codes in self.pages], [n for n, _ in self.past]
        means = np.concatenate([_NONE, *(mean[None] for _, mean in self.past)])
        return {"scores": scores, "codes": codes, "sizes": np.array(sizes, np.int64),
                "counts": np.array(counts, np.int64), "means": means}  # fmt: skip

    @classmethod
    def of_arrays(cls, scores: Array, codes: Array, sizes: Array, counts: Array, means: Array) -> "Scores":
        """Of what a file held; ValueError if that is no such thing."""
        whole = all(each.dtype == np.int64 and each.ndim == 1 for each in (codes, sizes, counts))
        whole = whole and scores.shape == (len(codes), len(STRENGTHS)) and means.shape == (len(counts), len(STRENGTHS))
        if not whole or sizes.sum() != len(codes) or sizes.min(initial=0) < 0 or counts.min(initial=1) < 1:
            raise ValueError("FeedbackState: scores of other kinds or shapes than those of a state.")
        ends = sizes.cumsum()[:-1]
        pages = zip(np.split(scores, ends), np.split(codes, ends), strict=True) if len(sizes) else ()
        return cls(tuple(pages), tuple(zip(counts.tolist(), means, strict=True)))


@dataclass(frozen=True, eq=False)
class Judged:
    """Who made the statements that were judged, "" for nobody, as numbers among `names`, and what was found.

    marks : for each name the sum of v v^T over the queries that had marks, v = (1, items, their distances, relevant
        ones, the distances of these).
    """

    names: tuple[str, ...] = ()
    scores: Scores = Scores()
    marks: Array = field(default_factory=lambda: np.zeros((0, 5, 5)))

    def __len__(self) -> int:
        return len(self.scores)

    def extended(
        self, scores: Array, users: list[str], sums: Array | None = None, speakers: Sequence[str] = ()
    ) -> "Judged":
        """A page more: scores of statements of `users`; `sums`, (n, 4), the marks of queries of `speakers`."""
        names = (*self.names, *(user for user in dict.fromkeys([*users, *speakers]) if user not in self.names))
        known = {name: code for code, name in enumerate(names)}
        marks = np.zeros((len(names), 5, 5))
        marks[: len(self.marks)] = self.marks
        if sums is not None:
            v = np.column_stack([np.ones(len(sums)), sums])
            np.add.at(marks, [known[name] for name in speakers], v[:, :, None] * v[:, None, :])
        codes = np.array([known[user] for user in users], np.int64)
        return Judged(names, self.scores.extended(scores, codes), marks)

    def distrusted(self, before: frozenset[str] = frozenset()) -> frozenset[str]:
        """Speakers who call what is far relevant; those disbelieved `before` until LEAST queries show that they do not.

        By the covariance of distance and relevance over all that a speaker has marked, within queries and between them,
        in standard errors of its sum over queries, one more of which may be as large as the others (theory 25).
        Distances are those without feedback: a metric that he taught would agree with him.
        """
        queries, items, distance, relevant, _ = self.marks[:, 0].T
        with np.errstate(invalid="ignore", divide="ignore"):
            far, share = distance / items, relevant / items
            terms = np.stack([np.zeros_like(far), far * share, -share, -far, np.ones_like(far)], axis=1)
            total = np.einsum("ui,ui->u", terms, self.marks[:, 0])
            squares = np.einsum("ui,uij,uj->u", terms, self.marks, terms)
            error = np.sqrt(np.maximum(squares, 0.0) * (1.0 + 1.0 / queries))
        earlier = np.array([name in before for name in self.names], bool)
        wrong, clearly = total > ROUNDING * distance, total > CAUTION * error
        found = np.where(queries < LEAST, earlier, wrong & (earlier | clearly))
        return frozenset(self.names[code] for code in np.flatnonzero(found))

    def without_marks(self, users: frozenset[str]) -> "Judged":
        """The same, as if these speakers had marked nothing yet."""
        kept = np.array([name not in users for name in self.names], bool)
        return replace(self, marks=self.marks * kept[:, None, None])

    def known(self, distrusted: frozenset[str]) -> frozenset[str]:
        """Speakers who are believed for good: what they are shown by now is chosen by metrics that they taught."""
        often = np.flatnonzero(self.marks[:, 0, 0] >= KNOWN)
        return frozenset(self.names[code] for code in often) - distrusted

    @property
    def complete(self) -> bool:
        """Whether all statements that decide on strength were judged."""
        return not np.isnan(self.scores.recent[0]).any()

    def believed(self, distrusted: frozenset[str]) -> Array:
        """Recent scores of all others."""
        scores, who = self.scores.recent
        return scores[~np.isin(who, [code for code, name in enumerate(self.names) if name in distrusted])]

    def strength(self, distrusted: frozenset[str] = frozenset()) -> float:
        """The largest that no smaller one is clearly better than; 1 as long as too little is known."""
        scores = self.believed(distrusted)
        if len(scores) < LEAST or not self.complete:
            return 1.0
        chosen = 0
        for k in range(1, len(STRENGTHS)):
            gains = scores[:, k, None] - scores[:, :k]
            if all(gain.mean() >= -CAUTION * _error(gain) for gain in gains.T):
                chosen = k
        return STRENGTHS[chosen]


def _error(values: Array) -> float:
    """Standard error of a mean, as if one more value had been DOUBT away from it."""
    return float(np.sqrt(((values - values.mean()) ** 2).sum() + DOUBT**2) / len(values))
