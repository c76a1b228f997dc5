"""The twin of each point of `axes`, on the problem of that module."""

from functools import cache
from typing import NamedTuple

import numpy as np

import axes
from helpers.streams import N_CLASSES

from . import diagonal, kernel, logdet, modalities, regions, stacked


class Expected(NamedTuple):
    """Matrices for learners that have some, else the values of all pairs of rows; weights of modalities or kernels."""

    shared: np.ndarray | None = None
    local: np.ndarray | None = None
    values: np.ndarray | None = None
    weights: np.ndarray | None = None


def expected(case):
    """What a learner must hold after the triplets of `axes`; kind and precision of rows, and blocks, do not matter."""
    return _expected(case.measure, case.locality, case.space, "never" if case.psd == "end" else case.psd, case.rule)


@cache
def _expected(measure, locality, space, psd, rule):
    lam, mu = (1.0, 0.0) if locality == "global" else (axes.LAM, 1.0 - axes.LAM)
    X, T, C = axes.X, axes.T, axes.C
    options = {"step": rule, "step_params": axes.STEP_PARAMS.get(rule)}
    by_regions = axes.CLUSTERS["float64"].labels_[T[:, 1:]]
    classes = {"global": axes.STREAM.class_free, "class": axes.STREAM.classes, "regions": by_regions}.get(locality)
    if locality == "soft":
        shares = regions.soft_shares(X, axes.CLUSTERS["float64"].cluster_centers_)
        return Expected(*regions.run_soft(measure, X, T, shares, lam, mu, C, psd=psd, **options))
    if space in ("dense", "projected"):
        run = stacked.run(measure, X, T, classes, lam, mu, C, n_classes=N_CLASSES, psd=psd, **options)
        return Expected(run.U, run.L)
    if space == "diagonal":
        run = diagonal.run(X, T, classes, lam, mu, C, n_classes=N_CLASSES, psd=psd, **options)
        return Expected(*diagonal.matrices(run))
    if space == "logdet":
        run = logdet.run(X, T, classes, lam, mu, C, rule, n_classes=N_CLASSES)
        return Expected(run.U, run.L)
    if space in ("kernel", "kernels"):
        grams = [axes.GRAMS["rbf"]] if space == "kernel" else list(axes.GRAMS.values())
        beta = axes.BETA if space == "kernels" else 1.0
        run = kernel.run(grams, T, classes, lam, mu, C, measure, beta=beta, **options)
        labels = axes.Y if locality == "class" else np.full(len(X), -1)
        values = kernel.all_values(measure, grams, run, labels, lam, mu)
        return Expected(values=values, weights=run.theta[-1] if space == "kernels" else None)
    return _modalities(space, classes, lam, C, psd, options)


def _modalities(space, classes, lam, C, psd, options):
    gate = np.inf if space == "own gates" else axes.GATE
    options = {**options, "gate": gate, "beta": axes.BETA, "n_classes": N_CLASSES}
    kind, starts = (modalities.Factor, axes.FACTORS) if space == "low rank" else (modalities.Full, None)
    size = C / 4 if space == "low rank" else C
    run = modalities.run(kind, axes.GROUPS, axes.X, axes.T, classes, lam, size, psd=psd, starts=starts, **options)
    d = axes.X.shape[1]
    shared, local = np.zeros((d, d)), np.zeros((N_CLASSES, d, d))
    for columns, U, L in zip(axes.GROUPS, run.shared, run.local, strict=True):
        M, Ls = (U.T @ U, np.swapaxes(L, 1, 2) @ L) if kind is modalities.Factor else (U, L)
        place = np.ix_(columns, columns)
        shared[place] = M
        for k in range(N_CLASSES):
            local[k][place] = Ls[k]
    return Expected(shared, local, weights=run.weights[-1])
