"""Search that learns, as a service with a page: everything that is said is kept, and can be taken back."""

from ._database import Database
from ._items import Items, digits
from ._serve import answer, is_new, serve
from ._sources import from_database, from_images, from_table

__all__ = ["Database", "Items", "answer", "digits", "from_database", "from_images", "from_table", "is_new", "serve"]
