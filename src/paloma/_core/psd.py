"""The p.s.d. axis: when and how matrices are kept positive semidefinite (theory 3 and 6.2).

never   no projection                       end     at read-out only; the learning state stays raw
n       after every n triplets              step    after each step, by one eigenpair
exact   each step is the exact minimizer of the constrained problem, by its one-dimensional dual
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Psd:
    """A p.s.d. policy: `word` is never, end, every, step or exact; `every` counts triplets (0: not used).

    sequential : whether each triplet needs an eigenproblem, which no block can do.
    """

    word: str
    every: int = 0
    sequential: bool = False

    @classmethod
    def parse(cls, policy: str | int, step: str) -> "Psd":
        """Check a policy's word against the step rule it is combined with."""
        if isinstance(policy, int | np.integer) and not isinstance(policy, bool):
            if policy < 1:
                raise ValueError(f"psd as a number of triplets must be at least 1, got {policy}.")
            return cls("every", int(policy))
        if policy not in ("never", "end", "step", "exact"):
            raise ValueError(f"psd must be 'never', 'end', 'step', 'exact' or a positive int, got {policy!r}.")
        if policy == "exact" and step not in ("pa", "pa1"):
            raise ValueError(f"psd='exact' is derived for step='pa' and 'pa1' only, got step={step!r}.")
        return cls(policy, sequential=policy in ("step", "exact"))
