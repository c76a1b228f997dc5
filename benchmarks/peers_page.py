"""The tables of docs/benchmarks.md, made from docs/results/peers.csv."""

import statistics
from collections.abc import Sequence
from pathlib import Path

BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
TITLES = {
    "euclid": "Euclid, kNN tuned",
    "cosine": "cosine, kNN tuned",
    "euclid-vote": "Euclid, our vote",
    "lda-knn": "LDA + kNN",
    "nca": "NCA, scikit-learn",
    "nca-sgd": "NCA by SGD, torch",
    "proxy-anchor": "ProxyAnchor, linear head, torch",
    "lmnn": "LMNN, metric-learn",
    "lmnn-mlpack": "LMNN, mlpack",
    "scml": "SCML, metric-learn",
    "odml": "**ODML**",
    "lodml": "**LODML**",
    "oasis": "**OASIS**",
    "losl": "**LOSL**",
    "lda": "LDA",
    "logistic": "LogisticRegression, tuned",
    "linear-svc": "LinearSVC, tuned",
    "svc-rbf": "SVC, RBF, tuned",
    "lgmlvq": "LGMLVQ, prosemble",
}
SETS = {
    "letters": "Letters",
    "yaleb": "YaleB",
    "pets": "Pets",
    "caltech101": "Caltech101",
    "cub200": "CUB-200",
    "cifar10": "CIFAR10",
    "coil20": "COIL20",
    "banking77": "Banking77",
}
BASE, N_SEEDS, DONE, NONE = "lodml", 5, "done", "–"
TIMED = "0"  # the seed whose fits were all measured on one machine
Lines = Sequence[dict[str, str]]


def tables(lines: Lines) -> str:
    """A row a method, a column a set; and what the figures were made with."""
    parts = [
        "### Accuracy",
        grid(lines, "accuracy"),
        "### Accuracy, difference to LODML in percentage points",
        grid(lines, "difference"),
        "### Retrieval: mAP",
        grid(lines, "map"),
        "### Retrieval: P@10",
        grid(lines, "p10"),
        "### Seconds of the fit, + of choosing parameters, first seed",
        grid(lines, "seconds"),
        "### Made with",
        made_with(lines),
    ]
    return "\n\n".join(parts)


def grid(lines: Lines, figure: str) -> str:
    """A table; methods that have no such figure on any set are left out."""
    columns = sorted({(line["set"], int(line["rows"])) for line in lines}, key=lambda c: (list(SETS).index(c[0]), c[1]))
    groups: dict[tuple[str, str, int], Lines] = {}
    for line in lines:
        groups.setdefault((line["method"], line["set"], int(line["rows"])), []).append(line)
    heads = [f"{SETS[name]}<br>{rows:,}" for name, rows in columns]
    body = []
    for method, title in TITLES.items():
        cells = [cell(groups.get((method, *c), []), figure, groups.get((BASE, *c), [])) for c in columns]
        if set(cells) != {NONE} and not (figure == "difference" and method == BASE):
            body.append(f"| {title} | {' | '.join(map(_unbroken, cells))} |")
    return "\n".join([f"| method | {' | '.join(heads)} |", "|---" * (1 + len(columns)) + "|", *body])


def cell(lines: Lines, figure: str, base: Lines = ()) -> str:
    """Mean and standard deviation, with the number of seeds if it is not N_SEEDS; why there is none; or a dash.

    Seconds are those of the seed TIMED alone, because other seeds may come from other machines; a line that was
    measured on another machine than the rest has none.

    base : results of LODML on the same set, to which the difference is taken, seed by seed; bold if it is positive.
    """
    if figure == "seconds":
        lines = [line for line in lines if line["seed"] == TIMED]
    done = [line for line in lines if line["outcome"] == DONE]
    if not done:
        return lines[0]["outcome"].partition(":")[0] if lines else NONE
    if figure == "seconds":
        if not done[0]["seconds"]:
            return NONE
        fit, tuning = (float(done[0][name] or 0) for name in ("seconds", "tuning"))
        return f"{_seconds(fit)} + {_seconds(tuning)}" if tuning else _seconds(fit) if fit else "0"
    if figure == "difference":
        known = {line["seed"]: float(line["accuracy"]) for line in base if line["outcome"] == DONE}
        done = [line for line in done if line["seed"] in known]
        points = [100 * (float(line["accuracy"]) - known[line["seed"]]) for line in done]
        if not points:
            return NONE
        text = f"{statistics.mean(points):+.1f}{_deviation(points, '.1f')}".replace("-", "−")
        return (f"**{text}**" if statistics.mean(points) > 0 else text) + _few(done)
    values = _values(done, figure)
    if not values:
        return NONE
    return f"{statistics.mean(values):.3f}{_deviation(values, '.3f')}".replace("0.", ".") + _few(done)


def _values(lines: Lines, figure: str) -> list[float]:
    return [float(line[figure]) for line in lines if line[figure]]


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _deviation(values: list[float], form: str) -> str:
    return f" ± {statistics.stdev(values):{form}}" if len(values) > 1 else ""


def _unbroken(text: str) -> str:
    """No line break after a sign or before a unit: narrow columns have the deviation in a line of its own."""
    return text.replace("± ", "±\u00a0").replace("+ ", "+\u00a0").replace(" s", "\u00a0s")


def _few(lines: Lines) -> str:
    return "" if len(lines) == N_SEEDS else f" ({len(lines)})"


def made_with(lines: Lines) -> str:
    versions = sorted({version for line in lines for version in line["versions"].split(", ") if version})
    dates = sorted(line["date"] for line in lines)
    hours = sum(float(line["seconds"] or 0) + float(line["tuning"] or 0) for line in lines) / 3600
    hours += sum(float(line["outcome"].split()[1]) for line in lines if line["outcome"].startswith("over")) / 3600
    return (
        f"{len(lines)} results between {dates[0]} and {dates[-1]} UTC, {hours:.1f} hours of CPU time for fits and "
        f"choosing. {', '.join(versions)}."
    )


def inside(page: str) -> str:
    """The tables that a page has."""
    return page.partition(BEGIN)[2].partition(END)[0].strip()


def write(path: Path, lines: Lines) -> None:
    """Replace the tables of a page."""
    page = path.read_text(encoding="utf-8")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    path.write_text(f"{before}{BEGIN}\n\n{tables(lines)}\n\n{END}{after}", encoding="utf-8")
