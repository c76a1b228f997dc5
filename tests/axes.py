"""The axes of all learners in one table, and the points of their product that tests multiply.

A test is `@pytest.mark.parametrize("case", axes.product(...))`. Of the product `make test` runs a subset in which every
two values of any two axes meet, for each learner or over all of them; the rest is marked `long`.
"""

import itertools
import random
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

import paloma
from helpers.streams import fixed_stream
from twins.kernel import normalized, polynomial, rbf

MEASURES = ("distance", "similarity")
RULES = ("pa", "pa1", "pa2", "smooth", "logistic", "ramp", "rescaled")
LOCALITIES = ("global", "class", "regions", "soft")
POLICIES = ("never", "end", "step", "exact", 7)
BLOCKS = (1, 7, 64, "auto")
DTYPES = ("float64", "float32")
LAMS = (0.0, 0.3, 0.5, 1.0)
# Ramp jumps at its level. A triplet followed by its mirror image meets l = 2 margin bit for bit, where
# rounding would decide; 1.7 is met by no margin used here.
STEP_PARAMS = {"ramp": {"level": 1.7}}


class Row(NamedTuple):
    """The values of each axis that a learner takes; `spaces` are its representations."""

    measures: tuple[str, ...]
    localities: tuple[str, ...]
    spaces: tuple[str, ...] = ("dense",)
    policies: tuple[str | int, ...] = POLICIES
    rules: tuple[str, ...] = RULES
    kinds: tuple[str, ...] = ("rows",)  # of X: dense rows, CSR
    dtypes: tuple[str, ...] = DTYPES
    blocks: tuple[int | str, ...] = BLOCKS


DISTANCE, SIMILARITY, READ_OUT = ("distance",), ("similarity",), ("never", "end")
TABLE = {
    "OASIS": Row(SIMILARITY, ("global",), policies=READ_OUT, kinds=("rows", "csr")),
    "ODML": Row(DISTANCE, ("global",)),
    "LOSL": Row(SIMILARITY, LOCALITIES, policies=READ_OUT, kinds=("rows", "csr")),
    "LODML": Row(DISTANCE, LOCALITIES),
    "L2OSL": Row(SIMILARITY, LOCALITIES[:3], ("projected",), READ_OUT, kinds=("rows", "csr")),
    "L2ODML": Row(DISTANCE, LOCALITIES[:3], ("projected",), kinds=("rows", "csr")),
    "DiagonalODML": Row(DISTANCE, LOCALITIES[:3], ("diagonal",)),
    "SLMOML": Row(DISTANCE, LOCALITIES[:2], ("logdet",), READ_OUT, ("pa1", "pa2")),
    "OKS": Row(MEASURES, LOCALITIES[:2], ("kernel",), ("never",)),
    "OMKS": Row(MEASURES, LOCALITIES[:2], ("kernels",), ("never",)),
    "OMDML": Row(DISTANCE, LOCALITIES[:2], ("one gate", "own gates", "low rank")),
}


class Case(NamedTuple):
    """A learner at one point of the product."""

    name: str
    measure: str
    locality: str
    space: str
    psd: str | int
    rule: str
    kind: str
    dtype: str
    block: int | str

    @property
    def valid(self):
        sequential = self.psd in ("step", "exact")
        return not (
            (self.psd == "exact" and (self.rule not in ("pa", "pa1") or self.space == "low rank"))
            or (self.locality == "soft" and (sequential or self.kind == "csr"))
        )

    @property
    def weights(self):
        """(lam, mu)."""
        return (1.0, 0.0) if self.locality == "global" else (LAM, 1.0 - LAM)

    @property
    def options(self):
        """The parameters that the point stands for."""
        options = {"step": self.rule, "step_params": STEP_PARAMS.get(self.rule), "psd": self.psd}
        options["block_size"] = self.block
        if self.name not in GLOBAL.values():
            options["lam"] = self.weights[0]
        if self.locality in ("regions", "soft"):
            options |= {"regions": CLUSTERS[self.dtype], "soft_regions": self.locality == "soft"}
        if len(TABLE[self.name].measures) > 1:
            options["measure"] = self.measure
        return options | SPACES.get(self.space, {})

    def make(self, **params):
        """An estimator whose iterates are the plain ones: no scale, one pass."""
        return getattr(paloma, self.name)(**{"scale": None, "n_epochs": 1, "C": C, **self.options, **params})

    def rows(self, X):
        """Rows as this point takes them."""
        X = np.asarray(X, self.dtype)
        return sp.csr_matrix(X) if self.kind == "csr" else X


# --- the problem that every point can learn ----------------------------------------------------------------

STREAM = fixed_stream(n_triplets=110, n_families=8)
X, Y, T = STREAM
C, LAM = 0.3, 0.4
CLUSTERS = {dtype: KMeans(4, n_init=1, random_state=0).fit(X.astype(dtype)) for dtype in DTYPES}
GROUPS = [np.array([0, 1, 2]), np.array([5, 3])]  # column 4 is in no group
GATE, BETA, GAMMA = 0.6, 0.9, 0.3
GRAMS = {"rbf": rbf(X, GAMMA), "poly": normalized(polynomial(X, GAMMA, 2))}
KERNELS = {"rbf": ("rbf", {"gamma": GAMMA}), "poly": ("poly", {"gamma": GAMMA, "degree": 2})}


def _start():
    """A start that is no projection, and W of each group such that W'W is its block of it."""
    rng, M, factors = np.random.default_rng(0), np.zeros((6, 6)), []
    for columns in GROUPS:
        W = np.linalg.qr(rng.normal(size=(len(columns), 2)))[0].T * [[2.0], [0.7]]
        M[np.ix_(columns, columns)] = W.T @ W
        factors.append(W)
    return M, factors


START, FACTORS = _start()
SPACES = {  # the parameters of each representation
    "projected": {"n_components": X.shape[1]},
    "kernel": {"kernel": "rbf", "kernel_params": {"gamma": GAMMA}},
    "kernels": {"kernels": list(KERNELS.values()), "normalize": True, "beta": BETA},
    "one gate": {"groups": GROUPS, "gate": "combined", "gate_margin": GATE, "beta": BETA},
    "own gates": {"groups": GROUPS, "gate": "own", "beta": BETA},
    "low rank": {"groups": GROUPS, "gate": "combined", "gate_margin": GATE, "beta": BETA, "rank": 2, "init": START},
}


# --- products ----------------------------------------------------------------------------------------------


def points(**only):
    """All valid points; `only` restricts axes to some values, e.g. rule=("pa1",)."""
    for name, row in TABLE.items():
        axes = zip(Case._fields, ((name,), *_in_order(row)), strict=True)
        values = [[v for v in axis if v in only.get(field, axis)] for field, axis in axes]
        yield from (case for case in itertools.starmap(Case, itertools.product(*values)) if case.valid)


def _in_order(row):
    return row.measures, row.localities, row.spaces, row.policies, row.rules, row.kinds, row.dtypes, row.blocks


def product(each_learner=False, where=lambda case: True, **only):
    """Points as parameters of a test: a covering subset, and the rest marked `long`.

    each_learner : every two values of two axes meet for each learner, else at least once over all learners.
    where : which points at all.
    """
    every = [case for case in points(**only) if where(case)]
    chosen = set(_covering(every, each_learner))
    return [pytest.param(c, id=_id(c), marks=() if c in chosen else pytest.mark.long) for c in every]


def tuples(*values):
    """The product of some axes as tuples: a covering subset, and the rest marked `long`."""
    every = list(itertools.product(*values))
    chosen = set(_covering(every, each_learner=False))
    return [pytest.param(*c, id=_id(c), marks=() if c in chosen else pytest.mark.long) for c in every]


def _id(case):
    return "-".join(str(value).replace(" ", "_") for value in case)


def _covering(cases, each_learner):
    """Greedily, first those that bring many new pairs of values."""
    cases, met = random.Random(0).sample(cases, len(cases)), set()
    for least in (24, 12, 6, 3, 1):
        for case in cases:
            pairs = set(itertools.combinations(enumerate(case), 2))
            if each_learner:
                pairs = {(case.name, pair) for pair in pairs}
            if len(pairs - met) >= least:
                met |= pairs
                yield case


# --- the four learners of dense matrices, and the kernel learners, by themselves ---------------------------

DENSE = {name: row.measures[0] for name, row in TABLE.items() if row.spaces == ("dense",)}
GLOBAL = {DENSE[name]: name for name in DENSE if TABLE[name].localities == ("global",)}
LOCAL = {DENSE[name]: name for name in DENSE if name not in GLOBAL.values()}


def learner(name, **params):
    """An estimator whose `shared_` and `local_` are the plain iterates: no scale, no projection, one pass."""
    if name in GLOBAL.values():
        params.pop("lam", None)
    return getattr(paloma, name)(**{"scale": None, "psd": "never", "n_epochs": 1, **params})


def weights_of(name, lam):
    """(lam, mu) that a learner of this name uses."""
    return (1.0, 0.0) if name in GLOBAL.values() else (lam, 1.0 - lam)


def oks(kernel="rbf", **params):
    function, kernel_params = KERNELS.get(kernel, (kernel, None))
    plain = {"scale": None, "n_epochs": 1, "C": C, "normalize": kernel == "poly"}
    return paloma.OKS(kernel=function, kernel_params=kernel_params, **{**plain, **params})


def omks(names=("rbf", "poly"), **params):
    plain = {"scale": None, "n_epochs": 1, "C": C, "normalize": True}
    return paloma.OMKS(kernels=[KERNELS[name] for name in names], **{**plain, **params})
