"""What a method sees of the data: row-wise and column-wise scaling, principal components, whitening, unit length.

Everything that looks at data is fitted on the training part and applied to both.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler, normalize

from .._typing import Array
from ..preprocessing import UnitRows
from ..triplets import Mined, mine


@dataclass(frozen=True)
class Recipe:
    """How rows are made: at unit length, columns standardized, and/or projected on principal components.

    Parameters
    ----------
    unit_length : divide each row by its Euclidean length first.
    standardize : bring each column to mean 0 and variance 1.
    n_components : principal components to keep, at most as many as there are; None: leave the columns alone.
    powers : candidates for whitening. Component k is divided by its standard deviation to this power: 0 leaves
        principal components as they are, 1 whitens them. Cross-validation chooses; needs n_components.
    """

    unit_length: bool = False
    standardize: bool = False
    n_components: int | None = None
    powers: tuple[float, ...] = (0.0,)

    def __post_init__(self) -> None:
        if self.n_components is None and self.powers != (0.0,):
            raise ValueError("Recipe: powers whiten principal components; set n_components as well.")

    def fit(self, train: Array, labels: Array, test: Array) -> "Parts":
        """Both parts, prepared by what the training part says."""
        spread = np.ones(1)
        if self.unit_length:
            train, test = normalize(train), normalize(test)
        if self.standardize:
            scaler = StandardScaler().fit(train)
            train, test = scaler.transform(train), scaler.transform(test)
        if self.n_components is not None:
            pca = PCA(min(self.n_components, *train.shape), svd_solver="auto", random_state=0).fit(train)
            train, test = pca.transform(train), pca.transform(test)
            spread = np.sqrt(np.maximum(pca.explained_variance_, 1e-12 * pca.explained_variance_[0]))
        return Parts(np.ascontiguousarray(train), labels, np.ascontiguousarray(test), spread)


class Parts:
    """Training and test rows of one split; whitened versions and mined triplets are made once and kept."""

    def __init__(self, train: Array, labels: Array, test: Array, spread: Array) -> None:
        self.train, self.labels, self.test, self.spread = train, labels, test, spread
        self.rows = cache(self._rows)
        self.mined = cache(self._mined)

    def _rows(self, power: float, similarity: bool) -> tuple[Array, Array]:
        """(train, test) whitened to a power; for a similarity, on the unit sphere (`UnitRows`)."""
        divisor = (self.spread**power).astype(self.train.dtype)
        train, test = self.train / divisor, self.test / divisor
        if not similarity:
            return train, test
        unit = UnitRows().fit(train)
        return unit.transform(train), unit.transform(test)

    def _mined(self, power: float) -> Mined:
        """The one triplet set of these rows, by the paper's rule, which every method shares."""
        codes = np.unique(self.labels, return_inverse=True)[1].astype(np.int32)
        return mine(self.rows(power, False)[0], codes, least=0)
