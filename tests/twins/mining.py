"""Target neighbors and impostors by sorting all distances (theory 12)."""

import numpy as np


def squared_distances(A, B):
    return np.array([[np.sum((a - b) ** 2) for b in B] for a in A])


def targets_impostors(X, y, n_targets=3, n_impostors=10, impostor_margin=0.0, least=None):
    """All (anchor, target neighbor, impostor): every target with each of its anchor's nearest impostors.

    An impostor of x_i has another label and ||x_i - x_l||^2 <= ||x_i - farthest target||^2 + margin * scale,
    where scale is the mean squared distance over ordered pairs, 2 mean ||x - mean||^2; or it is among the `least`
    nearest of other labels (None: n_targets). Nearest first; among equals the lower row.
    """
    least = n_targets if least is None else least
    X, y = np.asarray(X, dtype=float), np.asarray(y)
    D = squared_distances(X, X)
    scale = 2.0 * np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1))
    triplets = []
    for anchor in range(len(X)):
        nearest = np.argsort(D[anchor], kind="stable")
        targets = [r for r in nearest if y[r] == y[anchor] and r != anchor][:n_targets]
        if not targets:
            continue  # a class of one member gives no anchor
        reach = D[anchor, targets[-1]] + impostor_margin * scale
        others = [r for r in nearest if y[r] != y[anchor]]
        impostors = [r for place, r in enumerate(others) if place < least or D[anchor, r] <= reach][:n_impostors]
        triplets += [(anchor, target, impostor) for target in targets for impostor in impostors]
    return np.array(triplets, dtype=np.intp).reshape(-1, 3)
