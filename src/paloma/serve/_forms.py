"""What clients send, as OpenAPI describes it: every field bounded, numbers finite, nothing unknown."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from ._items import LARGEST, LONGEST_ID

Finite = Annotated[float, Field(allow_inf_nan=False)]
Number = Annotated[float, Field(allow_inf_nan=False, ge=-LARGEST, le=LARGEST)]
Key = Annotated[str, StringConstraints(min_length=8, max_length=200, pattern=r"^[\x21-\x7e]+$")]
Id = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_ID)]
User = Annotated[str, StringConstraints(max_length=200)]
Vector = Annotated[list[Number], Field(min_length=1, max_length=8192)]
Ids = Annotated[list[Id], Field(min_length=1, max_length=1000)]
After = Annotated[int, Field(ge=0, le=2**62, description="Wait until this statement is part of the model.")]
Payload = Annotated[
    dict[Annotated[str, StringConstraints(max_length=200)], str | Finite | bool | None], Field(max_length=100)
]


class Form(BaseModel):
    """Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Query(Form):
    """What is compared with: an item, several items, or a vector; one of the three."""

    item: Id | None = None
    items: Ids | None = None
    vector: Vector | None = None
    user: User = ""
    after: After = 0


class Search(Query):
    """The k nearest items of a query; `where` keeps items whose payload has these values.

    metric: of whoever asks, as it is now, as it was before the last statement, as it was published; start: no feedback.
    """

    k: Annotated[int, Field(ge=1, le=1000)] = 24
    metric: Literal["now", "before", "published", "start"] = "now"
    where: Payload = {}


class Explain(Query):
    """Which features make `other` near or far."""

    other: Id
    most: Annotated[int, Field(ge=1, le=100)] = 12


class Statement(Form):
    """Feedback. mark: results of a query that are right or wrong; compare: nearer and farther; together: items;
    label: items and their labels. grades: one number for each relevant item of a mark, larger is nearer."""

    key: Key
    user: User = ""
    kind: Literal["mark", "compare", "together", "label"]
    item: Id | None = None
    items: Ids | None = None
    vector: Vector | None = None
    relevant: Annotated[list[Id], Field(max_length=1000)] = []
    irrelevant: Annotated[list[Id], Field(max_length=1000)] = []
    grades: Annotated[list[Finite], Field(max_length=1000)] = []
    nearer: Id | None = None
    farther: Id | None = None
    labels: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=200)]], Field(max_length=1000)
    ] = []


class Statements(Form):
    """Several statements, acknowledged together."""

    statements: Annotated[list[Statement], Field(min_length=1, max_length=256)]


class Undo(Form):
    """Take back a statement, everything a user said, or everything said in a span of time (seconds since 1970)."""

    key: Key
    user: User = ""
    statement: Annotated[int, Field(ge=1, le=2**62)] | None = None
    of_user: User | None = None
    since: Finite | None = None
    until: Finite | None = None


class Item(Form):
    """One item."""

    id: Id
    vector: Vector
    label: Annotated[str, StringConstraints(max_length=200)] | None = None
    text: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    payload: Payload = {}


class Items(Form):
    """New items."""

    key: Key
    items: Annotated[list[Item], Field(min_length=1, max_length=1000)]


class Removal(Form):
    """Items that are to be found no more."""

    key: Key
    ids: Ids


class Publication(Form):
    """Publish the model as it is after a statement; by default after everything that was said so far."""

    key: Key
    seq: Annotated[int, Field(ge=0, le=2**62)] | None = None


class Rollback(Form):
    """Return to the model as it was after a statement."""

    key: Key
    seq: Annotated[int, Field(ge=0, le=2**62)]


def plain(form: Form) -> dict[str, Any]:
    """A form as the journal keeps it: fields that were left out stay out."""
    return form.model_dump(exclude={"key", "user"}, exclude_unset=True, exclude_none=True)
