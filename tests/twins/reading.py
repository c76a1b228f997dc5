"""What stands around the loop: the units of the rows and averages of the iterates."""

import numpy as np

EVERY, DECAY = 1024, 3.0  # an iterate enters the average after so many triplets; later ones weigh more
TYPICAL = {"distance": 2.0, "similarity": 64.0}


def scale(measure, X, triplets):
    """The number to divide X by, so that the mean square of what triplets compare becomes typical."""
    squares = []
    for p, q, n in triplets:
        compared = (X[p] - X[q], X[p] - X[n]) if measure == "distance" else (X[p], X[q], X[n])
        squares.append(np.mean([np.sum(v**2) for v in compared]))
    return np.sqrt(np.mean(squares) / TYPICAL[measure])


def averaged(after, n):
    """The average read out after n triplets; `after(t)` are the matrices after t of them.

    The k-th iterate enters with weight (DECAY + 1) / (k + DECAY); the last one counts as far as its turn has come.
    """
    mean = after(EVERY)
    for k in range(2, n // EVERY + 1):
        mean = mean + (DECAY + 1) / (k + DECAY) * (after(k * EVERY) - mean)
    weight = (DECAY + 1) / (n // EVERY + 1 + DECAY) * (n % EVERY) / EVERY
    return mean + weight * (after(n) - mean)


def drift(codes, losses, n_classes, keep):
    """Mean loss of each class over all triplets, and with weights that fade by `keep` with each one that follows."""
    own = [losses[codes == c] for c in range(n_classes)]
    fading = [keep ** np.arange(len(v))[::-1] for v in own]
    return [v.mean() for v in own], [w @ v / w.sum() for v, w in zip(own, fading, strict=True)]


def tridiagonal_pairs(diagonal, beside):
    """All eigenvalues of a symmetric tridiagonal matrix, ascending, and their vectors."""
    return np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
