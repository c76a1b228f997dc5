"""The guard: whom to believe, and how far to follow what was learned (theory 25).

Each statement is judged before it is learned: the share of its triplets that a metric ranks right, under metrics of
growing strength, from 0, no feedback, over 1/2, the start from statistics, to 1, all that was learned.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, eq=False)
class Judged:
    """Who made the statements that were judged, "" for nobody, as numbers among `names`, and what was found.

    pages : scores of statements, NaN if they were not judged, and who made them. marks : sums over what was marked of a
        query, and who did: how many items, their distances, how many relevant ones, the distances of these.

    Pages are never changed: that of one state belongs to all later ones too.
    """

    names: tuple[str, ...] = ()
    pages: tuple[tuple[Array, Array], ...] = ()
    marks: tuple[tuple[Array, Array], ...] = ()

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

    @property
    def sums(self) -> Array:
        """The sums of all queries that had marks, (m, 4)."""
        return np.concatenate([np.empty((0, 4)), *(sums for sums, _ in self.marks)])

    @property
    def speakers(self) -> Array:
        """Number among `names` of who marked them, (m,)."""
        return np.concatenate([np.empty(0, np.int64), *(codes for _, codes in self.marks)])

    def extended(
        self, scores: Array, users: list[str], sums: Array | None = None, speakers: Sequence[str] = ()
    ) -> "Judged":
        """A page more: scores of statements of `users`, sums of marks of `speakers`."""
        names = (*self.names, *(user for user in dict.fromkeys([*users, *speakers]) if user not in self.names))
        known = {name: code for code, name in enumerate(names)}
        marks = np.empty((0, 4)) if sums is None else sums
        pages = [(each, np.array([known[user] for user in said], np.int64))
                 for each, said in ((scores, users), (marks, speakers))]  # fmt: skip
        return Judged(names, (*self.pages, pages[0]), (*self.marks, pages[1]))

    def distrusted(self, before: frozenset[str] = frozenset()) -> frozenset[str]:
        """Speakers who call what is far relevant; those who did `before` until they no longer do.

        By the covariance of distance and relevance over all that a speaker has marked, within queries and between them,
        in standard errors of its sum over queries, one more of which may be as large as the others (theory 25).
        Distances are those without feedback: a metric that he taught would agree with him.
        """
        sums, who, n = self.sums, self.speakers, len(self.names)
        count, distance, relevant = (np.bincount(who, column, n)[who] for column in sums.T[:3])
        with np.errstate(invalid="ignore", divide="ignore"):
            far, share = distance / count, relevant / count
            against = sums[:, 3] - far * sums[:, 2] - share * sums[:, 1] + sums[:, 0] * far * share
            queries = np.bincount(who, minlength=n)
            error = np.sqrt(np.bincount(who, against**2, n) * (1.0 + 1.0 / queries))
            total = np.bincount(who, against, n)
        suspects = np.flatnonzero((queries >= LEAST) & (total > 0.0))
        return frozenset(self.names[code] for code in suspects
                         if self.names[code] in before or total[code] > CAUTION * error[code])  # fmt: skip

    @property
    def complete(self) -> bool:
        """Whether all statements that decide on strength were judged."""
        return not np.isnan(self._recent().scores[-WINDOW:]).any()

    def believed(self, distrusted: frozenset[str]) -> Array:
        """Recent scores of all others."""
        recent, codes = self._recent(), [code for code, name in enumerate(self.names) if name in distrusted]
        return recent.scores[-WINDOW:][~np.isin(recent.codes[-WINDOW:], codes)]

    def _recent(self) -> "Judged":
        """The last pages alone, which have all that decides on strength."""
        first, n = len(self.pages), 0
        while first and n < WINDOW:
            first -= 1
            n += len(self.pages[first][1])
        return replace(self, pages=self.pages[first:])

    def strength(self, distrusted: frozenset[str] = frozenset()) -> float:
        """The largest that no smaller one is clearly better than; 1 as long as too little is known."""
        if not self.complete or len(scores := self.believed(distrusted)) < LEAST:
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
