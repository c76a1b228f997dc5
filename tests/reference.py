"""Slow, obvious NumPy twins of the fast code; the section of the spec stands beside each formula.

Everything here is sequential and dense. `run` builds every matrix it talks about; `careful_run` is the same
algorithm written as fast as one-triplet-at-a-time NumPy goes, and is what the benchmarks compare with.
A class code of -1 means "class-free": that candidate has no local part, only the shared matrix U sees it.
"""

from typing import NamedTuple

import numpy as np

STEP_DEFAULTS = {"smooth": {"gamma": 0.5}, "ramp": {"level": 2.0}, "rescaled": {"eta": 0.5, "beta": None}}


class Run(NamedTuple):
    U: np.ndarray  # (d, d), the shared matrix
    L: np.ndarray  # (n_classes, d, d), one matrix a class
    tau: np.ndarray  # (n_triplets,), the step sizes
    e: np.ndarray  # (n_triplets,), margin - z before each step; the hinge loss is max(0, e)


# --- step rules (sec. 1): e = margin - z, so that l = max(0, e) and, for margin 1, z = 1 - e ----------


def _logistic(e, N, C):
    """Root of tau = C / (1 + exp(z + tau N)) in (0, C), bisected; z = 1 - e: a margin m shifts z by m - 1."""
    low, high = 0.0, C
    for _ in range(200):
        middle = 0.5 * (low + high)
        exponent = min(1.0 - e + middle * N, 700.0)  # exp(700) is still finite
        if middle < C / (1.0 + np.exp(exponent)):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def step_size(step, e, N, C, params=None):
    """tau = rule(e, N, C), the table of sec. 1. No step when N = 0, C = 0, or (all but logistic) l <= 0."""
    p = {**STEP_DEFAULTS.get(step, {}), **(params or {})}
    if N == 0.0 or C == 0.0:
        return 0.0
    if step == "logistic":
        return _logistic(e, N, C)  # never passive
    if e <= 0.0:
        return 0.0
    if step == "pa":
        return e / N
    if step == "pa1":
        return min(C, e / N)
    if step == "pa2":
        return e / (N + 1.0 / (2.0 * C))
    if step == "smooth":
        return min(C, e / (N + p["gamma"] / C))
    if step == "ramp":
        return min(C, e / N) if e < p["level"] else 0.0
    if step == "rescaled":
        beta = 1.0 / (1.0 - np.exp(-p["eta"])) if p["beta"] is None else p["beta"]
        return min(C * beta * p["eta"] * np.exp(-p["eta"] * e), e / N)
    raise ValueError(step)


# --- the literal sequential learner (sec. 0, 6.1, 7) --------------------------------------------------


def gradient(measure, p, pos, neg, i, j, lam, mu):
    """Psi of sec. 0: its matrix at U, and {c: its matrix at L_c}; the local entries add when i = j."""
    if measure == "distance":
        sign, plus, minus = +1.0, np.outer(p - pos, p - pos), np.outer(p - neg, p - neg)  # aa', bb'
    else:
        sign, plus, minus = -1.0, np.outer(p, pos), np.outer(p, neg)  # p p+', p p-'
    local = {}
    for c, part in ((i, plus), (j, -minus)):
        if c >= 0:
            local[c] = local.get(c, 0.0) + sign * mu * part
    return sign * lam * (plus - minus), local


def project(M):
    """P_+: the nearest positive semi-definite matrix, by a full eigendecomposition."""
    values, vectors = np.linalg.eigh(0.5 * (M + M.T))
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def read_out(U, L):
    """psd='end': the projected copies of U and of each L_c (Algorithm 1); the state itself stays as it is."""
    return project(U), np.array([project(M) for M in L]).reshape(L.shape)


def exact_step_size(U, L, shared, local, C, margin):
    """sec. 6.2: the root in [0, C] of g(tau) = margin + <P_+(Theta - tau Psi), Psi>, never increasing."""

    def g(tau):
        value = margin + np.sum(project(U - tau * shared) * shared)
        return value + sum(np.sum(project(L[c] - tau * part) * part) for c, part in local.items())

    if g(0.0) <= 0.0:
        return 0.0
    if g(C) >= 0.0:
        return C
    low, high = 0.0, C
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if g(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)


def step_caps(C, weights, n_triplets):
    """C of every triplet: w_t C (sec. 1); a weight of 0 takes no step even where C is infinite."""
    return [C] * n_triplets if weights is None else [C * float(w) if w else 0.0 for w in weights]


def start(d, n_classes, U0=None, dtype=float):
    """U = L_c = I, or the given start for all of them (so that M_c = U0 when lam + mu = 1)."""
    U = np.eye(d, dtype=dtype) if U0 is None else np.array(U0, dtype=dtype)
    return U, np.repeat(U[None], n_classes, axis=0)


def run(measure, X, triplets, classes, lam, mu, C, step="pa1", step_params=None, margin=1.0, weights=None,
        U0=None, *, n_classes=None, psd="never", forget=0.0, shift=None):  # fmt: skip
    """The iterates after `triplets`, in order. `classes`: (n, 2), of the positive and of the negative.

    forget: before each triplet Theta <- Theta0 + (1 - forget) (Theta - Theta0). shift: added to each margin.

    psd: 'never' (also what 'end' learns), an int n (project all after every n-th triplet), 'step' or 'exact'.
    """
    X, classes = np.asarray(X, dtype=float), np.asarray(classes)
    n_classes = int(classes.max(initial=-1)) + 1 if n_classes is None else n_classes
    U, L = start(X.shape[1], n_classes, U0)
    taus, es = np.zeros(len(triplets)), np.zeros(len(triplets))
    caps, first = step_caps(C, weights, len(triplets)), start(X.shape[1], n_classes, U0)
    margins = np.full(len(triplets), margin) + (0.0 if shift is None else shift)
    for t, ((row, pos, neg), (i, j), Ct) in enumerate(zip(triplets, classes, caps, strict=True)):
        if forget:
            U, L = (now0 + (1.0 - forget) * (now - now0) for now, now0 in zip((U, L), first, strict=True))
        shared, local = gradient(measure, X[row], X[pos], X[neg], i, j, lam, mu)
        e = margins[t] + np.sum(U * shared) + sum(np.sum(L[c] * part) for c, part in local.items())  # sec. 6.1, 7
        N = np.sum(shared**2) + sum(np.sum(part**2) for part in local.values())  # ||Psi||^2, literally
        if psd == "exact":
            tau = exact_step_size(U, L, shared, local, Ct, margins[t]) if N and Ct else 0.0
        else:
            tau = step_size(step, e, N, Ct, step_params)
        if tau:
            U = U - tau * shared  # Theta - tau Psi
            for c, part in local.items():
                L[c] = L[c] - tau * part
        if (psd in ("step", "exact") and tau) or (isinstance(psd, int) and (t + 1) % psd == 0):
            U, L = read_out(U, L)  # classes that were not touched are p.s.d. already
        taus[t], es[t] = tau, e
    return Run(U, L, taus, es)


# --- the careful sequential learner: same iterates, O(d) norms, quadratic forms, low-rank updates in pl


def careful_run(measure, X, triplets, classes, lam, mu, C, step="pa1", step_params=None, margin=1.0,
                weights=None, U0=None, *, n_classes=None):  # fmt: skip
    """`run` without p.s.d. policy, one triplet after the other as fast as NumPy honestly goes; keeps the dtype of X.

    O(d) norms without cancellation, quadratic forms, and rank-one updates in place into a kept buffer.
    """
    X, classes = np.asarray(X), np.asarray(classes)
    n_classes = int(classes.max(initial=-1)) + 1 if n_classes is None else n_classes
    U, L = start(X.shape[1], n_classes, U0, X.dtype)
    taus, es, buffer = [], [], np.empty_like(U)
    parts = _careful_distance if measure == "distance" else _careful_similarity
    caps = step_caps(C, weights, len(triplets))
    for (p, q, r), (i, j), Ct in zip(np.asarray(triplets).tolist(), classes.tolist(), caps, strict=True):
        left, plus, minus, e, N = parts(U, L, X[p], X[q], X[r], i, j, lam, mu, margin)
        tau = step_size(step, e, N, Ct, step_params)
        taus.append(tau)
        es.append(e)
        if not tau:
            continue
        for matrix, (x, y), weight in _moves(U, L, left, plus, minus, i, j, lam, mu):
            np.multiply(x[:, None] * U.dtype.type(-tau * weight), y, out=buffer)
            np.add(matrix, buffer, out=matrix)
    return Run(U, L, np.array(taus), np.array(es))


def _careful_distance(U, L, p, q, r, i, j, lam, mu, margin):
    a, b, gap = p - q, p - r, r - q
    aa, bb = float(a.dot(a)), float(b.dot(b))
    both = 0.5 * (float(gap.dot(gap)) * float((a + b).dot(a + b)) + (aa - bb) ** 2)  # N_d, sec. 6.1
    e = margin + lam * (float(a.dot(U.dot(a))) - float(b.dot(U.dot(b)))) if lam else margin
    if mu and i >= 0:
        e += mu * float(a.dot(L[i].dot(a)))
    if mu and j >= 0:
        e -= mu * float(b.dot(L[j].dot(b)))
    return None, (a, a), (b, b), e, _careful_norm(lam, mu, i, j, both, aa**2, bb**2)


def _careful_similarity(U, L, p, q, r, i, j, lam, mu, margin):
    gap = q - r
    pp = float(p.dot(p))
    e = margin - lam * float(p.dot(U.dot(gap))) if lam else margin
    if mu and i >= 0:
        e -= mu * float(p.dot(L[i].dot(q)))
    if mu and j >= 0:
        e += mu * float(p.dot(L[j].dot(r)))
    sizes = (pp * float(x.dot(x)) for x in (gap, q, r))  # sec. 7
    return gap, (p, -q), (p, -r), e, _careful_norm(lam, mu, i, j, *sizes)


def _careful_norm(lam, mu, i, j, both, plus, minus):
    if i == j and i >= 0:
        return (lam**2 + mu**2) * both
    return lam**2 * both + mu**2 * ((plus if i >= 0 else 0.0) + (minus if j >= 0 else 0.0))


def _moves(U, L, gap, plus, minus, i, j, lam, mu):
    """(matrix, factors, weight) of every rank-one part of Psi."""
    if lam and gap is not None:
        yield U, (plus[0], -gap), lam
    elif lam:
        yield U, plus, lam
        yield U, minus, -lam
    if mu and i >= 0:
        yield L[i], plus, mu
    if mu and j >= 0:
        yield L[j], minus, -mu


# --- triplets (sec. 12) -------------------------------------------------------------------------------


def squared_distances(A, B):
    return np.array([[np.sum((a - b) ** 2) for b in B] for a in A])


def targets_impostors(X, y, n_targets=3, n_impostors=10, impostor_margin=0.0):
    """All (anchor, target neighbour, impostor): every target with each of its anchor's nearest impostors.

    An impostor of x_i has another label and ||x_i - x_l||^2 <= ||x_i - farthest target||^2 + margin * scale,
    where scale is the mean squared distance over ordered pairs, 2 mean ||x - mean||^2. Nearest first; among
    equals the lower row.
    """
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
        impostors = [r for r in nearest if y[r] != y[anchor] and D[anchor, r] <= reach][:n_impostors]
        triplets += [(anchor, target, impostor) for target in targets for impostor in impostors]
    return np.array(triplets, dtype=np.intp).reshape(-1, 3)


# --- neighbours under local metrics (sec. 0, 6.3): the candidate's class chooses the matrix -----------


def local_values(measure, metrics, Q, X, y):
    """(n_queries, n_items): (q-x)' M_y(x) (q-x), or q' M_y(x) x for similarities; `metrics[label]` is M."""
    values = np.empty((len(Q), len(X)))
    for s, q in enumerate(Q):
        for t, x in enumerate(X):
            left, right = (q - x, q - x) if measure == "distance" else (q, x)
            values[s, t] = left @ metrics[y[t]] @ right
    return values


def local_neighbors(measure, metrics, Q, X, y, k):
    """(values, rows) of the k nearest items of each query, nearest first; equal values: lower row first."""
    values = local_values(measure, metrics, Q, X, y)
    order = np.argsort(values if measure == "distance" else -values, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(values, order, axis=1), order


def local_predict(measure, metrics, Q, X, y, k):
    """Majority vote; a tie goes to the class of the nearest among the tied."""
    predicted = []
    for rows in local_neighbors(measure, metrics, Q, X, y, k)[1]:
        votes = [y[r] for r in rows]
        most = max(votes.count(label) for label in votes)
        predicted.append(next(label for label in votes if votes.count(label) == most))
    return np.array(predicted)
