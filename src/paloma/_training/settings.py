"""The parameters of a learner once they are checked: what every call of one fit shares."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._core.choice import Choice
from .._core.space import Representation
from .parts import Guarding, Mining, Scaling, Unlabeled


@dataclass(frozen=True)
class Settings:
    """A choice on each axis, how Theta is held, the parts of training; see the learners for what each means."""

    who: str
    choice: Choice
    space: Representation
    mining: Mining
    scaling: Scaling
    guard: Guarding | None
    averaging: bool | str
    project: str
    regions: Any
    soft_regions: bool
    unlabeled: Any
    semi: Unlabeled
    n_epochs: int
    remine: bool
    early_stopping: bool
    validation_fraction: float
    reservoir_size: int
    window: bool
    balanced: bool
    pair_threshold: float | str
    block_size: int | str
    random_state: Any
    n_jobs: int | None
    verbose: int

    def bound(self, d: int, names: Any) -> "Settings":
        """The same for rows of d features, called by `names` if they have any; refuses what does not fit them."""
        space = self.space.bound(self.who, self.choice, d, names)
        if space is self.space:
            return self
        mining = self.mining.on(space)
        return replace(self, space=space, mining=mining, scaling=self.scaling.on(mining))

    def generator(self) -> np.random.Generator:
        """Fresh randomness from random_state."""
        return np.random.default_rng(int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)))
