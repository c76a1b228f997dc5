"""A model card: what a model file is, in Markdown that people and model hubs read."""

from typing import Any

from sklearn.pipeline import Pipeline

from ..estimators import changed_parameters, learner_of, measure_of

LISTED = 30


def card_of(model: Any, name: str) -> str:
    """See `paloma.export.card`."""
    learner = learner_of(model)
    steps = [type(step).__name__ for _, step in model.steps] if isinstance(model, Pipeline) else [type(model).__name__]
    seen, updates = int(learner.n_triplets_), int(learner.n_updates_)
    rows = [
        ("Model", " > ".join(steps)),
        ("Learner", f"{type(learner).__name__}, a {measure_of(learner).name}"),
        ("Features", f"{learner.n_features_in_:,}"),
        ("Classes", f"{len(learner.classes_):,}{_listed(learner.classes_)}"),
        ("Triplets learned", f"{seen:,}, updates on {updates / max(seen, 1):.1%} of them"),
        ("Mean loss of the last pass", f"{float(learner.loss_):.4f}"),
    ]
    changed = changed_parameters(learner)
    parameters = "\n".join(f"- `{k}={_brief(v)}`" for k, v in changed.items()) or "All at their defaults."
    table = "\n".join(f"| {key} | {_cell(value)} |" for key, value in rows)
    return TEXT.format(name=name, table=table, parameters=parameters)


TEXT = """---
library_name: paloma
tags:
- metric-learning
- similarity-search
---

# {name}

A metric learned with [paloma](https://arxiv.org/abs/1804.01900): which rows are near which, learned from examples of
what should be nearer.

| | |
|---|---|
{table}

## Parameters

{parameters}

## Use

```python
import paloma

model = paloma.load("{name}")
```

The file holds no code: loading it executes nothing.

## To be filled in by whoever publishes it

- Data: where the rows are from, under which license, and who is in them.
- Quality: accuracy or precision on rows that the model has not seen, beside that of the plain distance on them.
- Limits: for what it must not be used.
"""


def _listed(classes: Any) -> str:
    if not len(classes):
        return ""
    return ": " + ", ".join(map(str, classes[:LISTED].tolist())) + (", ..." if len(classes) > LISTED else "")


def _brief(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 200 else text[:200] + "..."


def _cell(text: str) -> str:
    """Labels come from data: what would end a cell or begin a tag is written as such."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
