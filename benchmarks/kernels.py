"""Learning speed of OKS with a support of 5,000 rows, against loops over triplets on given kernel values; CPU time.

With SPLITS=n in the environment also the accuracy of single kernels, OMKS and LODML on Letters (minutes a split).
"""

import os
import time
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import paloma
from paloma.triplets import targets_impostors

from .timing import table, threads, verdict

N_SUPPORT, D, CLASSES, C = 5_000, 32, 10, 1e-3
N_LOOP = 100


def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, N_SUPPORT)
    return rng.normal(size=(N_SUPPORT, D)) + 0.3 * rng.normal(size=(CLASSES, D))[y], y


def learner() -> paloma.OKS:
    return paloma.OKS(C=C, kernel_params={"gamma": 1.0 / D}, scale=None, n_epochs=1, average=False)


def step(K: np.ndarray, p: int, q: int, n: int, learned: float) -> float:
    gap = 1.0 - (K[p, q] - K[p, n] + learned)
    norm = K[p, p] * (K[q, q] - 2.0 * K[q, n] + K[n, n])
    return min(C, gap / norm) if gap > 0 and norm > 0 else 0.0


def dense_loop(K: np.ndarray, S: np.ndarray, triplets: np.ndarray) -> tuple[np.ndarray, float]:
    """Spec 4 as it stands: S a dense matrix, k_p^T S (k_q - k_n) for each triplet; step sizes and seconds."""
    taus, start = np.zeros(len(triplets)), time.process_time()
    for t, (p, q, n) in enumerate(triplets):
        taus[t] = step(K, p, q, n, K[p] @ S @ (K[q] - K[n]))
        S[p, q] += taus[t]
        S[p, n] -= taus[t]
    return taus, time.process_time() - start


def sparse_loop(K: np.ndarray, S: np.ndarray, triplets: np.ndarray) -> tuple[np.ndarray, float]:
    """The same on the non-zero entries of S alone, which grow in kept arrays."""
    a, c = np.nonzero(S)
    a, c = (np.concatenate([x, np.empty(2 * len(triplets), np.int64)]) for x in (a, c))
    size = len(a) - 2 * len(triplets)
    w = np.concatenate([S[a[:size], c[:size]], np.empty(2 * len(triplets))])
    taus, start = np.zeros(len(triplets)), time.process_time()
    for t, (p, q, n) in enumerate(triplets):
        taus[t] = step(K, p, q, n, w[:size] @ (K[p][a[:size]] * (K[q] - K[n])[c[:size]]))
        a[size : size + 2], c[size : size + 2], w[size : size + 2] = p, (q, n), (taus[t], -taus[t])
        size += 2
    return taus, time.process_time() - start


def compare(name: str, X: np.ndarray, y: np.ndarray, first: np.ndarray, then: np.ndarray) -> list[list[str]]:
    """Learn `first` to fill the support, then time `then`; the loops go on from the same coefficients."""
    K, model = rbf_kernel(X, gamma=1.0 / D), learner().fit(X, y, triplets=first)
    place = {row.tobytes(): k for k, row in enumerate(X)}
    numbers = np.array([place[row.tobytes()] for row in model.support_])
    S = np.zeros((len(X), len(X)))
    S[np.ix_(numbers, numbers)] = model.shared_
    start = time.process_time()
    model.partial_fit(X, y, triplets=then)
    ours = (time.process_time() - start) / len(then)
    out = []
    for title, loop, target in (("dense S", dense_loop, 20), ("non-zeros of S", sparse_loop, 0)):
        taus, spent = loop(K, S.copy(), then[:N_LOOP])
        theirs = spent / N_LOOP
        size = f"{name}: {len(numbers):,} rows, {np.count_nonzero(S):,} pairs, {(taus > 0).mean():.0%} active"
        asked = verdict(theirs / ours, target) if target else ""
        out.append([size, title, f"{theirs * 1e6:.0f}", f"{ours * 1e6:.1f}", f"{theirs / ours:.1f}", asked])
    return out


def letters_learners() -> dict[str, Any]:
    widths = {f"RBF, gamma {g:g}/d": ("rbf", {"gamma": g / 16}) for g in (0.25, 1.0, 4.0)}
    kernels = {"linear": ("linear", None), **widths, "polynomial, degree 2": ("poly", {"degree": 2})}
    common = {"normalize": True, "random_state": 0}
    out = {name: paloma.OKS(kernel=k, kernel_params=p, **common) for name, (k, p) in kernels.items()}
    for word in ("deterministic", "stochastic", "uniform"):
        out[f"OMKS {word}"] = paloma.OMKS(kernels=list(kernels.values()), combination=word, **common)
    return {"LODML": paloma.LODML(random_state=0), **out}


def letters(n_splits: int) -> list[list[str]]:
    """3-NN accuracy, seconds to fit and to predict: 6,000 standardized training rows, 6,000 test rows."""
    X, y = paloma.datasets.load_letters(return_X_y=True)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(n_splits):
        a, b, ya, yb = train_test_split(X, y, train_size=0.3, test_size=0.3, random_state=seed)
        scaler = StandardScaler().fit(a)
        a, b = (scaler.transform(part).astype(np.float32) for part in (a, b))
        for name, learner in letters_learners().items():
            times = [time.perf_counter()]
            learner.fit(a, ya)
            times.append(time.perf_counter())
            accuracy = (
                paloma.MetricKNeighborsClassifier(learner, n_neighbors=3, weights="uniform").fit(a, ya).score(b, yb)
            )
            times.append(time.perf_counter())
            found.setdefault(name, []).append((accuracy, *np.diff(times)))
    means = {name: np.mean(values, axis=0) for name, values in found.items()}
    return [[name, f"{mean[0]:.4f}", f"{mean[1]:.1f}", f"{mean[2]:.1f}"] for name, mean in means.items()]


def main() -> None:
    X, y = rows()
    rng = np.random.default_rng(1)
    with threads(1):
        learner().fit(X[:100], y[:100])
        mined = targets_impostors(X, y, random_state=0)
        body = compare("targets x impostors", X, y, mined, mined[:30_000])
        drawn = rng.integers(0, len(X), (40_000, 3))
        body += compare("random triplets", X, y, drawn, rng.integers(0, len(X), (30_000, 3)))
    columns = ["OKS, RBF, microseconds per triplet", "loop on", "loop", "paloma", "ratio", "asked for"]
    table(f"Kernel learning with {N_SUPPORT:,} rows, 1 thread, kernel values included", columns, body)
    if n_splits := int(os.environ.get("SPLITS", "0")):
        table("Letters", ["learner", "accuracy", "fit, s", "predict, s"], letters(n_splits))
