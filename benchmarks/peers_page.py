"""The tables of docs/benchmarks.md, made from docs/results/peers.csv."""

import statistics
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
N_SEEDS = 5
Lines = list[dict[str, str]]


def tables(lines: Lines) -> str:
    """Accuracy, retrieval and seconds, a row a method and a column a set; and what the figures were made with."""
    parts = [
        "### Accuracy",
        grid(lines, "accuracy"),
        "### Retrieval: mAP",
        grid(lines, "map"),
        "### Retrieval: P@10",
        grid(lines, "p10"),
        "### Seconds of the fit",
        grid(lines, "seconds"),
        "### Seconds of choosing parameters",
        grid(lines, "tuning"),
        "### Made with",
        made_with(lines),
    ]
    return "\n\n".join(parts)


def grid(lines: Lines, figure: str) -> str:
    """Rows of methods without any such figure are left out; that no time went into tuning is none."""
    columns = sorted({(line["set"], int(line["rows"])) for line in lines}, key=lambda c: (list(SETS).index(c[0]), c[1]))
    heads = [f"{SETS[name]}<br>{rows:,}" for name, rows in columns]
    body = []
    for method, title in TITLES.items():
        cells = [cell([line for line in lines if _is(line, method, *column)], figure) for column in columns]
        if any(c.strip("– ") for c in cells):
            body.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join([f"| method | {' | '.join(heads)} |", "|---" * (1 + len(columns)) + "|", *body])


def _is(line: dict[str, str], method: str, name: str, rows: int) -> bool:
    return (line["method"], line["set"], int(line["rows"])) == (method, name, rows)


def cell(lines: Lines, figure: str) -> str:
    """Mean and standard deviation, with the number of seeds if it is not N_SEEDS; why there is none; or a dash."""
    done = [float(line[figure]) for line in lines if line["outcome"] == "done" and line[figure]]
    if figure == "tuning" and not any(done):
        return "–"
    if done:
        few = "" if len(done) == N_SEEDS else f" ({len(done)})"
        return f"{_spread(done, figure)}{few}"
    return next((line["outcome"].partition(":")[0] for line in lines if line["outcome"] != "done"), "–")


def _spread(values: list[float], figure: str) -> str:
    mean = statistics.mean(values)
    if figure in ("seconds", "tuning"):
        return f"{mean:.2f}" if mean < 1 else f"{mean:.1f}" if mean < 100 else f"{mean:.0f}"
    deviation = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{mean:.3f}{deviation}".replace("0.", ".")


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
