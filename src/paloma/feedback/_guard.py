"""The guard: whom to believe, and how far to follow what was learned (theory 25).

Each statement is judged before it is learned: the share of its triplets that a metric ranks right, under metrics of
growing strength, from 0, no feedback, over 1/2, the start from statistics, to 1, all that was learned.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

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
# What a covariance may be by rounding alone, in units of the distances that it is made of.
ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class Judged:
    """Who made the statements that were judged, "" for nobody, as numbers among `names`, and what was found.

    pages : scores of statements, NaN if they were not judged, and who made them. marks : for each name the sum of
        v v^T over the queries that had marks, v = (1, items, their distances, relevant ones, the distances of these).

    Pages are never changed: that of one state belongs to all later ones too.
    """

    names: tuple[str, ...] = ()
    pages: tuple[tuple[Array, Array], ...] = ()
    marks: Array = field(default_factory=lambda: np.zeros((0, 5, 5)))

    def __len__(self) -> int:
        return sum(len(codes) for _, codes in self.pages)

    @property
    def scores(self) -> Array:
        """Share of each statement that is ranked right at each strength, (n, len(STRENGTHS))."""
        return np.concatenate([np.empty((0, len(STRENGTHS))), *(scores for scores, _ in self.pages)])

    @property
    def codes(self) -> Array:
        """Number among `names` of who made each statement, (n,)."""
        return np.concatenate([np.empty(0, np.int64), *(codes for _, codes in self.pages)])

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
        return Judged(names, (*self.pages, (scores, np.array([known[user] for user in users], np.int64))), marks)

    def distrusted(self, before: frozenset[str] = frozenset()) -> frozenset[str]:
        """Speakers who call what is far relevant; those who did `before` until they no longer do.

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
        suspects = np.flatnonzero((queries >= LEAST) & (total > ROUNDING * distance))
        return frozenset(self.names[code] for code in suspects
                         if self.names[code] in before or total[code] > CAUTION * error[code])  # fmt: skip

    def _recent(self) -> tuple[Array, Array]:
        """Scores of the last WINDOW statements, and who made them."""
        first, n = len(self.pages), 0
        while first and n < WINDOW:
            first -= 1
            n += len(self.pages[first][1])
        last = Judged(pages=self.pages[first:])
        return last.scores[-WINDOW:], last.codes[-WINDOW:]

    @property
    def complete(self) -> bool:
        """Whether all statements that decide on strength were judged."""
        return not np.isnan(self._recent()[0]).any()

    def believed(self, distrusted: frozenset[str]) -> Array:
        """Recent scores of all others."""
        scores, who = self._recent()
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
