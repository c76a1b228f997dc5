"""Regions: the clusters of scikit-learn as centers and counters of our own, from which new ones are made.

Nothing that scikit-learn keeps for itself is in a file. A restored clustering is a new one that was fitted on a single
point, so that everything it needs is there whatever the version, and that then gets its centers and counters.
"""

from typing import Any

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans

from .._core.fields import Field, Part, Schema
from .._core.regions import Regions
from ..exceptions import ModelFileError
from ._flat import Reader, Writer
from ._plain import described, read, written
from ._random import KEY, legacy_of, legacy_state

KINDS: dict[str, Any] = {"KMeans": KMeans, "MiniBatchKMeans": MiniBatchKMeans}
LARGEST = 1e70  # beyond which squares leave the precision
_COUNTERS = {"batch": "_batch_size", "since": "_n_since_last_reassign"}

FITTED = Schema(
    Field("centers", "floats", "regions d", -LARGEST, LARGEST),
    Field("steps", "int", low=0, optional=True),
    Field("counts", "floats", "regions", 0.0, optional=True),
    Field("batch", "int", low=1, optional=True),
    Field("since", "int", low=0, optional=True),
    Field("random", "u8", str(KEY + 3), optional=True),
    rule=lambda state: _fits(state),
)
REGIONS = Schema(
    Field("seed", "int", low=0, high=2**31),
    Field("spread", "float", low=0.0),
    Field("ready", "flag"),
    Field("waiting", "rows", "w d", optional=True),
    Part("fitted", FITTED, optional=True),
)


def _fits(state: dict[str, Any]) -> str | None:
    online = [state[name] is not None for name in ("steps", "counts", "batch", "since")]
    if any(online) and not all(online):
        return "counters are missing"
    return "counts must be of the type of the centers" if all(online) and (
        state["counts"].dtype != state["centers"].dtype) else None  # fmt: skip


# -- clusters ----------------------------------------------------------------------------------------------------------


def _fitted_state(clusters: Any, where: str) -> dict[str, Any] | None:
    """What a clustering has learned; None before that."""
    if not hasattr(clusters, "cluster_centers_"):
        return None
    out: dict[str, Any] = dict.fromkeys(entry.name for entry in FITTED.entries)
    out["centers"] = clusters.cluster_centers_
    if isinstance(clusters, MiniBatchKMeans):
        out["steps"], out["counts"] = int(clusters.n_steps_), clusters._counts
        out |= {name: int(getattr(clusters, attribute)) for name, attribute in _COUNTERS.items()}
        source = getattr(clusters, "_random_state", None)
        out["random"] = None if source is None else legacy_state(source, where)
    return out


def _fill(clusters: Any, state: dict[str, Any]) -> None:
    """Give a new clustering what another has learned."""
    online = isinstance(clusters, MiniBatchKMeans)
    if online != (state["counts"] is not None):
        raise ModelFileError("the counters of regions do not go with their kind")
    point = np.zeros((1, 1), state["centers"].dtype)
    model = type(clusters)(n_clusters=1, n_init=1, random_state=0)
    learned = vars(model.partial_fit(point) if online else model.fit(point))
    kept = set(clusters.get_params(deep=False)) | {"labels_", "inertia_", "_random_state"}
    vars(clusters).update({name: value for name, value in learned.items() if name not in kept})
    clusters.cluster_centers_, clusters.n_features_in_ = state["centers"], state["centers"].shape[1]
    clusters._n_features_out = len(state["centers"])
    if online:
        clusters.n_steps_, clusters._counts = state["steps"], state["counts"]
        for name, attribute in _COUNTERS.items():
            setattr(clusters, attribute, state[name])
        if state["random"] is not None:
            clusters._random_state = legacy_of(state["random"])


def write_clusters(writer: Writer, clusters: Any, where: str) -> dict[str, Any]:
    """A clustering that is given as the parameter `regions`, fitted or not."""
    name = type(clusters).__name__
    if KINDS.get(name) is not type(clusters):
        raise ModelFileError(f"{where} is {described(clusters)}, which a model file cannot hold.")
    parameters = {k: written(writer, v, f"{where}.{k}") for k, v in clusters.get_params(deep=False).items()}
    fitted = _fitted_state(clusters, where)
    known = {"regions": clusters.n_clusters} | ({} if fitted is None else {"d": fitted["centers"].shape[1]})
    state = None if fitted is None else writer.state(FITTED, fitted, known, f"{where}.fitted")
    return {"class": name, "parameters": parameters, "fitted": state}


def read_clusters(reader: Reader, node: Any, where: str) -> Any:
    """The clustering of such an entry."""
    kind = KINDS[node["class"]]
    parameters = {name: read(reader, value, f"{where}.{name}") for name, value in node["parameters"].items()}
    if set(node) != {"class", "parameters", "fitted"} or set(parameters) - set(kind()._get_param_names()):
        raise ModelFileError(f"{where} has unknown entries")
    clusters = kind(**parameters)
    clusters._validate_params()
    if clusters.n_clusters > reader.room:
        raise ModelFileError(f"{where} has too many regions")
    if node["fitted"] is not None:
        known = {"regions": int(clusters.n_clusters)}
        _fill(clusters, reader.state(FITTED, node["fitted"], known, f"{where}.fitted"))
    return clusters


# -- regions of a model ------------------------------------------------------------------------------------------------


def regions_state(regions: Regions, where: str) -> dict[str, Any]:
    """What regions hold by REGIONS; clusters that were given are in the parameters of the learner."""
    if not regions.given and type(regions.clusters) not in KINDS.values():
        raise ModelFileError(f"{where} is {described(regions.clusters)}, which a model file cannot hold.")
    return {
        "seed": _seed(regions),
        "spread": float(regions.spread),
        "ready": bool(regions.ready),
        "waiting": regions.waiting,
        "fitted": None if regions.given else _fitted_state(regions.clusters, where),
    }


def _seed(regions: Regions) -> int:
    seed = getattr(regions.clusters, "random_state", None)
    return int(seed) if isinstance(seed, int | np.integer) else 0


def regions_of(how: Any, soft: bool, state: dict[str, Any]) -> Regions:
    """Regions from a state that was checked; `how` is the parameter of the learner."""
    out = Regions(how, soft, state["seed"])
    if _seed(out) != state["seed"]:
        raise ModelFileError("the seed of regions is not that of the parameters")
    if out.given:
        if state["fitted"] is not None or not state["ready"]:
            raise ModelFileError("regions that are given cannot be learned as well")
    elif (state["fitted"] is not None) != state["ready"]:
        raise ModelFileError("regions are ready if they have centers, and only then")
    elif state["fitted"] is not None:
        _fill(out.clusters, state["fitted"])
    out.spread, out.ready, out.waiting = state["spread"], state["ready"], state["waiting"]
    return out
