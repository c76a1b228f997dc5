"""Entries of the journal as statements of `paloma.feedback`, and in words."""

from typing import Any

from ..feedback import Statement


def statement(seq: int, body: dict[str, Any], user: str, at: float) -> Statement:
    """What an entry says; ValueError if it says nothing that can be learned."""
    own: dict[str, Any] = {"id": seq, "time": at, "user": user or None}
    kind, items = body["kind"], body.get("items", [])
    if kind == "together":
        if len(items) < 2:
            raise ValueError("together needs at least two items.")
        return Statement.from_dict({**own, "sets": [items]})
    if kind == "label":
        labels = body.get("labels", [])
        if not items or len(labels) != len(items):
            raise ValueError("label needs items, and labels: one for each of them.")
        groups = {label: [id for id, other in zip(items, labels, strict=True) if other == label] for label in labels}
        return Statement.from_dict({**own, "sets": [groups[label] for label in sorted(groups)]})
    if ("item" in body) == ("vector" in body):
        raise ValueError(f"{kind} needs one of item, items and vector.")
    query = body["item"] if "item" in body else body["vector"]
    if kind == "compare":
        if "nearer" not in body or "farther" not in body:
            raise ValueError("compare needs nearer and farther.")
        sides = {"relevant": [body["nearer"]], "irrelevant": [body["farther"]]}
    else:
        sides = {name: body.get(name, []) for name in ("relevant", "irrelevant", "grades")}
    return Statement.from_dict({**own, "query": query, **sides})


def mentioned(body: dict[str, Any]) -> list[str]:
    """Items that a statement speaks of."""
    single = [body[name] for name in ("item", "nearer", "farther") if name in body]
    return [*single, *(id for name in ("items", "relevant", "irrelevant") for id in body.get(name, []))]


def in_words(body: dict[str, Any]) -> str:
    """An entry as people read it."""
    kind = body["kind"]
    if kind == "publish":
        return "published the model"
    if kind == "undo":
        what = {"statement": "a statement", "of_user": "everything of {}", "after": "everything after {}"}
        said = [text.format(body[name] or "everyone") for name, text in what.items() if name in body]
        return "took back " + (", ".join(said) or "a span of time")
    if kind in ("together", "label"):
        return f"{len(body['items'])} items {'belong together' if kind == 'together' else 'labeled'}"
    if kind == "compare":
        parts = [f"{body['nearer']} nearer than {body['farther']}"]
    else:
        words = {"relevant": "right", "irrelevant": "wrong"}
        parts = [f"{_some(body[name])} {word}" for name, word in words.items() if body.get(name)]
    return f"{' and '.join(parts)} for {body.get('item') or 'a vector'}"


def _some(ids: list[str]) -> str:
    return ids[0] if len(ids) == 1 else str(len(ids))
