"""metric-learn's LMNN and SCML on the splits of Table 2, and the time that LODML needs to reach LMNN's accuracy.

``make bench-paper-peers`` builds their environment (.venv-peers) and runs this. Splits go there and linear maps come
back as files; the vote is ours, the same for every method. Results are entered into the journal of ``paloma
reproduce``. Environment: OUTPUT (folder of the journal, default paloma-paper), SETS, RUNS, SEED (of the first run),
PEERS_PYTHON, TIME_LIMIT (CPU seconds a fit).
"""

import os
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from paloma import LODML, MetricKNeighborsClassifier
from paloma.evaluate import Euclid
from paloma.evaluate._methods import vote
from paloma.experiments._journal import Journal, Task
from paloma.experiments._runner import about
from paloma.experiments._tasks import protocol_of, split_of
from paloma.experiments.paper import OURS, SETS
from paloma.triplets import mine

from .peers_call import OverLimit, call
from .timing import console, table, verdict

N_STOPS = 40
FITS = {"LMNN": "lmnn", "SCML": "scml"}  # names of the paper's tables and of peers_fit.py


def task_of(name: str, percent: int, method: str, seed: int) -> Task:
    common = {"set": name, "percent": percent, "rows": OURS, "seed": seed, "quick": False}
    return {"kind": "table2", "method": method, **common}


class Split:
    """One split of our rows, at the whitening that suits Euclid best, chosen on the training part."""

    def __init__(self, task: Task) -> None:
        data = SETS[task["set"]]
        X, y, _ = data.load()
        train, test = split_of(data, task["percent"], task["seed"])
        protocol = protocol_of(task)
        self.power = protocol.tune(Euclid(), X[train], y[train], task["seed"])[0].power
        self.parts = protocol.recipe.fit(X[train], y[train], X[test])
        self.train, self.test = self.parts.rows(self.power, False)
        self.labels, self.answers = y[train], y[test]

    def result(self, components: np.ndarray, seconds: float) -> dict:
        found = vote(self.train @ components.T, self.test @ components.T, self.labels, 3, seconds)
        accuracy = float((found.labels == self.answers).mean())
        sizes = {"n_train": len(self.train), "n_test": len(self.test)}
        chosen = {"power": self.power, "kappa": None, "rate": 0.0}
        return {
            "accuracy": accuracy,
            **chosen,
            **sizes,
            "fit": round(seconds, 4),
            "search": round(found.search, 4),
            "tune": 0.0,
        }


def fit_peer(split: Split, method: str, python: str, limit: float) -> dict | None:
    """Let the other environment learn; None if it took longer than the limit."""
    codes = np.unique(split.labels, return_inverse=True)[1]
    try:
        made = call(python, method, limit, train=split.train, labels=codes)
    except OverLimit:
        return None
    return split.result(made["components"], float(made["seconds"]))


def time_to(split: Split, accuracy: float) -> tuple[float, float]:
    """CPU seconds of mining, learning and read-out until LODML is as accurate, and its accuracy then.

    Default parameters, one pass. LODML learns online, so the triplets of a fortieth of the anchors are mined and
    learned at a time; each is followed by a measurement of the accuracy that is not counted.
    """
    codes = np.unique(split.labels, return_inverse=True)[1].astype(np.int32)
    learner = LODML(average=True, project="effective", random_state=0)
    found = spent = 0.0
    for anchors in np.array_split(np.random.default_rng(0).permutation(len(codes)), N_STOPS):
        begin = time.process_time()
        mined = mine(split.train, codes, anchors=anchors)
        learner.partial_fit(split.train, split.labels, triplets=mined.triplets)
        model = MetricKNeighborsClassifier(learner, n_neighbors=3, weights="uniform").fit(split.train, split.labels)
        spent += time.process_time() - begin
        found = float(model.score(split.test, split.answers))
        if found >= accuracy:
            break
    return spent, found


def main() -> None:
    python = os.environ.get("PEERS_PYTHON", ".venv-peers/bin/python")
    if not Path(python).exists():
        console.print("paper_peers: skipped, no environment of metric-learn; make bench-paper-peers builds one.")
        return
    journal = Journal(Path(os.environ.get("OUTPUT", "paloma-paper")) / "journal.jsonl")
    names = os.environ.get("SETS", "letters,yaleb" if os.environ.get("PALOMA_DATA") else "letters").split(",")
    limit, body = float(os.environ.get("TIME_LIMIT", "1800")), []
    first = int(os.environ.get("SEED", "0"))
    for seed in range(first, first + int(os.environ.get("RUNS", "1"))):
        for name in names:
            for percent in SETS[name].percents:
                with threadpool_limits(1):
                    body += _run(journal, name, percent, seed, python, limit)
    table(
        "metric-learn on our splits, 3-NN", ["data", "f %", "seed", "method", "accuracy", "seconds", "asked for"], body
    )


def _run(journal: Journal, name: str, percent: int, seed: int, python: str, limit: float) -> list[list[str]]:
    split, body = Split(task_of(name, percent, "Euclid", seed)), []
    for method in FITS:
        task = task_of(name, percent, method, seed)
        if task not in journal:
            result = fit_peer(split, FITS[method], python, limit)
            if result is None:
                console.print(f"{name} {percent}%: {method} took longer than {limit:.0f} s and is left out.")
                continue
            journal.add(task, result, {"seconds": result["fit"], **about()})
        found = journal.get(task)
        body.append([name, str(percent), str(seed), method, f"{found['accuracy']:.4f}", f"{found['fit']:.2f}", ""])
        console.print(" | ".join(body[-1]))
    lmnn = journal.get(task_of(name, percent, "LMNN", seed))
    if (name, percent) == ("letters", 70) and lmnn is not None:
        body.append(_speed(journal, split, lmnn, seed))
    return body


def _speed(journal: Journal, split: Split, lmnn: dict, seed: int) -> list[str]:
    task = {"kind": "speed", "set": "letters", "percent": 70, "method": "LODML", "seed": seed, "quick": False}
    if task not in journal:
        time_to(split, 0.0)  # compiles
        seconds, accuracy = time_to(split, lmnn["accuracy"])
        result = {
            "seconds": seconds,
            "accuracy": accuracy,
            "lmnn_accuracy": lmnn["accuracy"],
            "lmnn_seconds": lmnn["fit"],
        }
        journal.add(task, result, {"seconds": seconds, **about()})
    found = journal.get(task)
    ratio = found["lmnn_seconds"] / found["seconds"]
    cells = [
        "letters",
        "70",
        str(seed),
        "LODML until LMNN's accuracy",
        f"{found['accuracy']:.4f}",
        f"{found['seconds']:.3f}",
    ]
    return [*cells, f"{ratio:.0f} times faster, {verdict(ratio, 100)}"]
