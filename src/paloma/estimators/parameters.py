"""The parameters of a learner, checked once for each fit, as the settings that training and reading share."""

from dataclasses import fields
from typing import Any

import numpy as np

from .. import _validation as check
from .._core.choice import Choice
from .._core.locality import Locality
from .._core.measure import Measure
from .._core.psd import Psd
from .._core.space import Representation
from .._core.step import Step
from .._device import resolved
from .._spaces.dense import Dense
from .._spaces.device import OnDevice
from .._spaces.projected import Projected
from .._training.guard import Guard
from .._training.mining import Miner
from .._training.scaling import Scaler
from .._training.semi import Semi
from .._training.settings import Settings


def parse(learner: Any, measure: Measure, locality: Locality, space: Representation) -> Settings:
    """Check every parameter of a learner that chose these parts."""
    who = type(learner).__name__
    _check_each(learner)
    guard, averaging = (check.check_word(w, getattr(learner, w), ("auto", True, False)) for w in ("guard", "average"))
    least = check.count_or_auto("least_impostors", learner.least_impostors, learner.n_targets)
    step = Step.parse(learner.step, learner.step_params)
    if step.name == "logistic" and not np.isfinite(learner.C):
        raise ValueError(f"step='logistic' always steps, up to C: C must be finite, got {learner.C!r}.")
    psd = Psd.parse(learner.psd, learner.step)
    if not measure.is_distance and psd.word not in ("never", "end"):
        raise ValueError(f"psd={learner.psd!r} is for distances; a similarity takes 'never' or 'end'.")
    if learner.forget and not space.decays:
        raise ValueError(f"{who} cannot forget and only supports forget=0.")
    if learner.forget and psd.word not in ("never", "end"):
        raise ValueError(f"forget={learner.forget} requires psd='never' or 'end', got psd={learner.psd!r}: decay "
                         "toward the start does not commute with projections inside the loop.")  # fmt: skip
    choice = Choice(measure, locality, step, psd, float(learner.C), float(learner.margin), float(learner.forget))
    if learner.device not in (None, "auto") and space.device is None:
        raise ValueError(
            f"{who} learns on the CPU alone and only supports device=None, got {learner.device!r}. OASIS, ODML, "
            "LOSL, LODML, L2OSL and L2ODML learn on a device."
        )
    regions, soft = getattr(learner, "regions", None), getattr(learner, "soft_regions", False)
    if regions is not None:
        space.refuse(who, "regions", *(("soft regions",) if soft else ()))
    if learner.remine:
        space.refuse(who, "remine")
    space.refuse(who, f"scale={learner.scale!r}", *(("guard",) if guard is True else ()))
    choice = space.adapted(who, choice)
    # Rows without labels teach nothing if rows are kernel values: their neighbors are unknown to mining.
    semi = Semi.parse("none" if space.pairwise else learner.semi, learner.semi_params)
    sizes = learner.n_targets, learner.n_impostors, learner.impostor_margin, least
    mining = Miner(space, learner.scale is not None, *sizes)
    # With scale=None the plain iterates are read.
    guarded = space.guarded and learner.scale is not None if guard == "auto" else guard
    return Settings(
        who=who, choice=choice, space=space, mining=mining, scaling=Scaler(who, learner.scale, choice, mining),
        guard=Guard() if guarded else None, averaging=averaging, regions=regions,
        soft_regions=soft, semi=semi,
        window=learner.memory == "window" or (learner.memory == "auto" and learner.forget > 0),
        **{name: getattr(learner, name) for name in _AS_THEY_ARE},
    )  # fmt: skip


_TAKEN = {
    "who", "choice", "space", "mining", "scaling", "guard", "averaging", "regions", "soft_regions", "semi", "window",
}  # fmt: skip
_AS_THEY_ARE = [field.name for field in fields(Settings) if field.name not in _TAKEN]


def _check_each(learner: Any) -> None:
    """Parameters by themselves."""
    check.check_real("C", learner.C, 0.0, open_low=True)
    check.check_real("margin", learner.margin, 0.0, 1e30, open_low=True)
    check.check_real("impostor_margin", learner.impostor_margin, 0.0, 1e30)
    check.check_real("validation_fraction", learner.validation_fraction, 0.0, 0.9, open_low=True)
    for name in ("n_targets", "n_impostors", "n_epochs", "reservoir_size"):
        check.check_count(name, getattr(learner, name))
    check.check_word("memory", learner.memory, ("auto", "sample", "window"))
    for name in ("balanced", "remine", "early_stopping"):
        check.check_word(name, getattr(learner, name), (True, False))
    plain = isinstance(learner.verbose, bool | np.bool_)
    check.check_count("verbose", int(learner.verbose) if plain else learner.verbose, 0)
    if learner.pair_threshold != "auto":
        check.check_real("pair_threshold", learner.pair_threshold, -1e300, 1e300)
    check.check_word("scale", learner.scale, ("auto", "full", "low-rank", "diagonal", "scalar", None))
    check.check_word("project", learner.project, ("auto", "components", "effective"))
    check.check_real("forget", learner.forget, 0.0, 0.999)
    regions, soft = getattr(learner, "regions", None), getattr(learner, "soft_regions", False)
    check.check_word("soft_regions", soft, (True, False))
    if not (regions is None or callable(regions) or hasattr(regions, "predict")):
        check.check_count("regions", regions)
    if soft and (regions is None or learner.psd in ("step", "exact")):
        raise ValueError("soft_regions=True needs regions, and psd other than 'step' and 'exact'.")
    check.check_jobs(learner.n_jobs)
    if learner.block_size != "auto":
        check.check_count("block_size", learner.block_size)


def dense(learner: Any) -> Dense:
    """Dense matrices on the device that the learner asks for, in NumPy on the CPU if it asks for none."""
    device = _device(learner)
    return Dense(learner.init) if device is None else OnDevice(learner.init, device=device)


def projected(learner: Any) -> Projected:
    """Dual random projection, its small matrices on the device that the learner asks for."""
    names = [field.name for field in fields(Projected) if field.name != "device"]
    return Projected(**{name: getattr(learner, name) for name in names}, device=_device(learner))


def _device(learner: Any) -> str | None:
    """The device that a learner asks for: its parameter; None: that of the tensors it learned from, if it was a GPU."""
    wanted = learner.device if learner.device is not None else vars(learner).get("_followed")
    device = None if wanted is None else resolved(type(learner).__name__, wanted)
    return None if device is None else str(device)
