"""The guard: whom to believe, and how far to follow what was learned (theory 25).

Each statement is judged before it is learned: the share of its triplets that a metric ranks right, under metrics of
growing strength, from 0, no feedback, over 1/2, the start from statistics, to 1, all that was learned.
"""

from dataclasses import dataclass

import numpy as np

from .._typing import Array

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
# A stronger metric is followed unless a weaker one is better by more than this many standard errors: a one-sided test
# at 84 %, and the doubt is in favor of the weaker one.
CAUTION = 1.0
# A speaker is not believed if what is nearer under all that was learned is called irrelevant more often than not, in
# the long run at 95 %. Of few statements n the confidence asked for is smaller, n / (n + EARLY) of as many standard
# errors: what a vandal teaches soon makes him look right, and to believe an honest speaker later costs little. That
# metric has ranked what he saw; judged by another one, the nearer items of such a selection look the less relevant
# ones, whoever speaks.
DISTRUST, EARLY = 1.645, 15
# So many statements a speaker must have made before he can be disbelieved; the last so many that strength is judged by.
LEAST, WINDOW = 3, 400
DOUBT = 0.25


@dataclass(frozen=True, eq=False)
class Judged:
    """Who made the statements that were judged, "" for nobody, and pages of scores and of numbers among `names`.

    Pages are never changed: that of one state belongs to all later ones too.
    """

    names: tuple[str, ...] = ()
    pages: tuple[tuple[Array, Array], ...] = ()

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

    def extended(self, scores: Array, users: list[str]) -> "Judged":
        names = (*self.names, *(user for user in dict.fromkeys(users) if user not in self.names))
        known = {name: code for code, name in enumerate(names)}
        return Judged(names, (*self.pages, (scores, np.array([known[user] for user in users], np.int64))))

    def distrusted(self, before: frozenset[str] = frozenset()) -> frozenset[str]:
        """Speakers whose statements contradict rows and other speakers; those who did `before` until they agree."""
        agreement, codes = self.scores[:, -1] - 0.5, self.codes
        n = np.bincount(codes, minlength=len(self.names))
        many = np.flatnonzero(n >= LEAST)
        mean = np.bincount(codes, agreement, len(self.names))[many] / n[many]
        suspects = many[mean < 0]
        return frozenset(self.names[code] for code in suspects
                         if self.names[code] in before or _against(agreement[codes == code]))  # fmt: skip

    def believed(self, distrusted: frozenset[str]) -> Array:
        """Recent scores of all others."""
        codes = [code for code, name in enumerate(self.names) if name in distrusted]
        return self.scores[~np.isin(self.codes, codes)][-WINDOW:]

    def strength(self, distrusted: frozenset[str] = frozenset()) -> float:
        """The largest that no smaller one is clearly better than; 1 as long as nothing is known."""
        scores = self.believed(distrusted)
        if len(scores) < LEAST:
            return 1.0
        chosen = 0
        for k in range(1, len(STRENGTHS)):
            gains = scores[:, k, None] - scores[:, :k]
            if all(gain.mean() >= -CAUTION * _error(gain) for gain in gains.T):
                chosen = k
        return STRENGTHS[chosen]


def _against(agreement: Array) -> bool:
    """Whether the mean of so many agreements is clearly negative."""
    n = len(agreement)
    return bool(agreement.mean() + DISTRUST * n / (n + EARLY) * _error(agreement) < 0)


def _error(values: Array) -> float:
    """Standard error of a mean, as if one more value had been DOUBT away from it."""
    return float(np.sqrt(((values - values.mean()) ** 2).sum() + DOUBT**2) / len(values))
