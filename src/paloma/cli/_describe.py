"""Description of a model as values, text and plots, for ``paloma info``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from .._optional import optional
from .._typing import Array
from ..estimators import changed_parameters, learner_of, measure_of, parted, tallies_of

# Heights of a bar, and how many bars are shown at most.
_BARS, _WIDTH = "▁▂▃▄▅▆▇█", 24
# The matrices are not examined if they have more entries than this in total.
_ENTRIES = 200_000_000


def described(model: Any, n_classes: int, n_features: int) -> dict[str, Any]:
    """The contents of a model, as plain values."""
    learner = learner_of(model)
    before = model[:-1] if isinstance(model, Pipeline) and len(model) > 1 else None
    names = _names(model, before, learner.n_features_in_)
    return {
        "model": " > ".join(type(step).__name__ for _, step in model.steps) if before else type(model).__name__,
        "learner": type(learner).__name__,
        "parameters": changed_parameters(learner),
        "classes": learner.classes_.tolist(),
        "n_features": learner.n_features_in_,
        "features": names,
        "scale": np.asarray(learner.scale_).tolist(),
        "triplets": int(learner.n_triplets_),
        "updates": int(learner.n_updates_),
        **_losses(learner),
        "rows_kept": len(getattr(parted(model)[1], "labels_", ())),
        "rows_streamed": getattr(parted(model)[1], "n_streamed_", 0),
        "parts": _matrices(learner, names, n_classes, n_features),
    }


def _losses(learner: Any) -> dict[str, Any]:
    """Mean loss of all triplets of classes, each when it was first met; without classes, of the last pass."""
    sums = np.sum([*tallies_of(learner).values(), np.zeros(3)], axis=0)
    if not sums[0]:
        return {"loss": float(learner.loss_), "loss_of": "the last pass"}
    recent = learner.recent_loss_[np.isfinite(learner.recent_loss_)]
    latest = {"recent_loss": float(recent.mean())} if len(recent) else {}
    return {"loss": float(sums[2] / sums[0]), "loss_of": f"{int(sums[0]):,} triplets when first met", **latest}


def _names(model: Any, before: Pipeline | None, d: int) -> list[str]:
    """Names of the features that the learner sees."""
    known = (getattr(model, "columns_", None) or {}).get("features") or getattr(model, "feature_names_in_", None)
    names = [f"x{k}" for k in range(d)] if known is None else list(known)
    if before is not None and known is not None:
        names = [str(name) for name in before.get_feature_names_out(np.array(names, object))]
    return names if len(names) == d else [f"x{k}" for k in range(d)]


def _matrices(learner: Any, names: list[str], n_classes: int, n_features: int) -> list[dict[str, Any]]:
    """U and the L_c farthest from their start: distance from the start, spectrum, features of largest weight."""
    d, k = learner.n_features_in_, len(learner.classes_)
    if d * d * (k + 1) > _ENTRIES or np.shape(getattr(learner, "shared_", 0)) != (d, d):
        return []
    local, symmetric = learner.local_, measure_of(learner).is_distance
    out = [_one("shared", learner.shared_, learner.metric_matrix(), symmetric, names, n_features)]
    moved = [float(np.linalg.norm(matrix - np.eye(d))) for matrix in local]
    strongest = np.argsort(moved)[::-1][:n_classes].tolist() if any(moved) else []
    for number in strongest:
        label = learner.classes_[number]
        out.append(_one(str(label), local[number], learner.metric_matrix(label), symmetric, names, n_features))
    return out


def _one(name: str, part: Array, metric: Array, symmetric: bool, names: list[str], n_features: int) -> dict[str, Any]:
    spectrum = np.linalg.eigvalsh(part) if symmetric else np.linalg.svd(part, compute_uv=False)
    weights = np.diag(metric)
    heavy = np.argsort(-weights, kind="stable")[:n_features]
    return {
        "name": name,
        "moved": float(np.linalg.norm(part - np.eye(len(part)))),
        "spectrum": np.sort(spectrum)[::-1].tolist(),
        "heaviest": [[names[j], float(weights[j] / max(weights.mean(), 1e-300))] for j in heavy],
    }


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The same as text, with spectra drawn as bars."""
    share = found["updates"] / max(found["triplets"], 1)
    yield f"{found['file']}: {found['model']}, {found['bytes']:,} bytes"
    yield f"  learner     {found['learner']}({', '.join(f'{k}={v!r}' for k, v in found['parameters'].items())})"
    recently = f", {found['recent_loss']:.4f} recently" if "recent_loss" in found else ""
    yield f"  learned     {found['triplets']:,} triplets, updates on {share:.1%}"
    yield f"  mean loss   {found['loss']:.4f} of {found['loss_of']}{recently}"
    yield f"  classes     {len(found['classes'])}: {_few(found['classes'])}"
    yield f"  features    {found['n_features']}: {_few(found['features'])}; scale {found['scale']}"
    if found["rows_kept"]:
        later = f", {found['rows_streamed']:,} of them from updates" if found["rows_streamed"] else ""
        yield f"  rows        {found['rows_kept']:,}, for voting and search{later}"
    if not found["parts"]:
        return
    yield "  spectra in descending order; features of largest weight (diagonal of the metric, relative to its mean)"
    for part in found["parts"]:
        values = part["spectrum"]
        heavy = ", ".join(f"{name} {weight:.2f}" for name, weight in part["heaviest"])
        where = "U" if part is found["parts"][0] else f"L {part['name']}"
        spectrum = f"{bars(values)}  {values[0]:.3g} to {values[-1]:.3g}, {part['moved']:.3g} from its start"
        yield f"    {where:<10} {spectrum}; {heavy}"


def _few(values: list[Any]) -> str:
    return ", ".join(map(str, values[:12])) + (", ..." if len(values) > 12 else "")


def bars(values: list[float]) -> str:
    """Values as at most 24 bars of block characters.

    Examples
    --------
    >>> bars([8.0, 4.0, 2.0, 1.0])
    '█▄▂▁'
    """
    shown = np.array([part.mean() for part in np.array_split(np.asarray(values), min(_WIDTH, len(values)))])
    low, high = min(shown.min(), 0.0), max(shown.max(), 1e-300)
    return "".join(_BARS[int(np.ceil((v - low) / (high - low) * 8 - 1e-9)) - 1 if v > low else 0] for v in shown)


def draw(found: dict[str, Any], path: Path) -> None:
    """Plot the spectra and the features of largest weight."""
    figure = optional("matplotlib.figure", "plot").Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for part in found["parts"]:
        left.plot(np.arange(1, len(part["spectrum"]) + 1), part["spectrum"], label=part["name"])
    left.set(xlabel="index", ylabel="eigenvalue or singular value", title="Spectra of U and of the strongest L")
    left.legend()
    names = list(dict.fromkeys(name for part in found["parts"] for name, _ in part["heaviest"]))
    table = np.full((len(found["parts"]), len(names)), np.nan)
    for k, part in enumerate(found["parts"]):
        for name, weight in part["heaviest"]:
            table[k, names.index(name)] = weight
    image = right.imshow(table, aspect="auto")
    right.set_xticks(range(len(names)), names, rotation=60)
    right.set_yticks(range(len(table)), [part["name"] for part in found["parts"]])
    right.set_title("Features of largest weight, relative to the mean")
    figure.colorbar(image, ax=right)
    figure.savefig(path)
