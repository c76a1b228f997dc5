"""What a search is asked besides results: how well it does, and what it would ask."""

from dataclasses import dataclass

from ._statement import Item


@dataclass(frozen=True)
class Quality:
    """How well the metric predicts what people say next, each statement judged before it was learned.

    n_statements, n_judged : said, and able to be judged: with something relevant and something irrelevant.
    before, now : share of comparisons ranked right without feedback and as published, on recent statements.
    strength : how far what was learned is followed, from 0, no feedback, to 1.
    distrusted : users whose statements contradict the rows and all others, and are not learned.
    """

    n_statements: int
    n_judged: int
    before: float
    now: float
    strength: float
    distrusted: tuple[str, ...]

    def __str__(self) -> str:
        many, were = ("", "it was") if self.n_statements == 1 else ("s", "they were")
        text = f"{self.n_statements} statement{many}, {self.n_judged} judged before {were} learned: "
        text += f"{self.now:.3f} ranked right, {self.before:.3f} without feedback; strength {self.strength:.2f}"
        if self.strength < 1.0:
            text += ", held back because a weaker metric ranks recent statements better"
        names = ", ".join(name or "nobody in particular" for name in self.distrusted)
        return text + (f"; not believed: {names}" if names else "")


@dataclass(frozen=True)
class Suggestion:
    """A question worth asking: which of these items are relevant to the query?"""

    query: Item
    show: tuple[Item, ...]
