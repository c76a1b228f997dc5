"""Columns of a table: those that a command wants, and where a table has them."""

from collections.abc import Collection
from dataclasses import dataclass, field
from difflib import get_close_matches

from ._options import LABEL


@dataclass
class Wanted:
    """The columns that a command reads from a table.

    label : name of the label column; `needed` says whether a table must have it, `read` whether anybody reads it.
    features : feature columns of the model, in its order; None: all columns except the label and those of `drop`.
    n_features : number of features of the model, if they have no names.
    ids : name of the column that holds ids; "": there is none.
    missing : what becomes of missing values: an "error", "drop" the row, or "keep" them as NaN.
    skip : how many invalid rows may be skipped. dense : whether sparse rows are made dense.
    n_missing, n_skipped : rows that were dropped and skipped so far.
    """

    label: str = LABEL
    needed: bool = True
    read: bool = field(default=True, kw_only=True)
    features: list[str] | None = None
    drop: tuple[str, ...] = ()
    n_features: int | None = None
    ids: str = ""
    missing: str = "error"
    skip: int = 0
    dense: bool = False
    n_missing: int = 0
    n_skipped: int = 0

    def told(self) -> str:
        """What was left out so far, in words; "" if nothing was."""
        parts = []
        if self.n_missing:
            parts.append(f"{self.n_missing:,} row{'s' * (self.n_missing > 1)} with missing values dropped")
        if self.n_skipped:
            parts.append(f"{self.n_skipped:,} invalid row{'s' * (self.n_skipped > 1)} skipped")
        return ", ".join(parts)


@dataclass
class Plan:
    """Positions of the features and of the label in a table."""

    names: list[str]
    features: list[int]
    label: int | None
    ids: int | None = None

    @property
    def feature_names(self) -> list[str]:
        return [self.names[k] for k in self.features]


def names_in(text: str) -> tuple[str, ...]:
    """Column names from a comma-separated list."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def plan(names: list[str], wanted: Wanted, where: str) -> Plan:
    """Find the wanted columns, or report the one that is missing; a column named "", as pandas' index, is none."""
    places = {name: k for k, name in enumerate(names)}
    if len(places) < len(names):
        repeated = min(name for k, name in enumerate(names) if places[name] != k)
        raise ValueError(f"{where}: column {repeated!r} occurs more than once.")
    label, dropped = places.get(wanted.label), {"", *wanted.drop, wanted.ids}
    if label is None and wanted.needed:
        raise ValueError(
            f"{where}: there is no label column {wanted.label!r}.{_meant(wanted.label, names)} Select it with --label. "
            f"Columns: {_listed(names)}."
        )
    if wanted.ids:
        check_column(wanted.ids, places, where, "--id")
    for name in wanted.drop:
        check_column(name, places, where, "--drop")
    features = wanted.features
    if features is None:
        features = [name for k, name in enumerate(names) if k != label and name not in dropped]
    missing = [name for name in features if name not in places]
    if missing and names == [str(k) for k in range(len(names))]:
        raise ValueError(
            f"{where} has no header, so that its columns have no names; those of the model do ({_listed(features)}). "
            "Add a first line with the names."
        )
    if missing:
        raise ValueError(
            f"{where}: column {missing[0]!r} of the model is missing.{_meant(missing[0], names)} "
            f"Columns: {_listed(names)}."
        )
    if not features:
        raise ValueError(f"{where}: there are no feature columns. Columns: {_listed(names)}.")
    ids = places.get(wanted.ids) if wanted.ids else None
    return Plan(names, [places[name] for name in features], label if wanted.read else None, ids)


def check_column(name: str, names: Collection[str], where: str, option: str) -> None:
    """Refuse an option that names a column which is not among `names`."""
    if name not in names:
        known = list(names)
        raise ValueError(
            f"{where}: {option}: there is no column {name!r}.{_meant(name, known)} Columns: {_listed(known)}."
        )


def refuse_drop(wanted: Wanted, where: str) -> None:
    """A table whose columns have no names."""
    if wanted.drop:
        raise ValueError(f"{where}: --drop: the columns have no names. Leave out --drop, or use a table with a header.")


def _listed(names: list[str]) -> str:
    if len(names) <= 12:
        return ", ".join(map(repr, names))
    return f"{', '.join(map(repr, names[:8]))}, ..., {', '.join(map(repr, names[-4:]))} ({len(names)} in total)"


def _meant(name: str, names: list[str]) -> str:
    """A guess at which column is meant; "" if none is like it."""
    lower = {other.strip().lower(): other for other in reversed(names)}
    close = get_close_matches(name.strip().lower(), lower, 1, 0.75)
    return f" Did you mean {lower[close[0]]!r}?" if close else ""
