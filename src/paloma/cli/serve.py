"""``paloma serve``."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer


def serve(
    source: Annotated[
        str | None,
        typer.Argument(
            help="Table (csv, tsv, parquet, npz, ...), folder of images, or postgresql://... with --table.",
            show_default="digits",
        ),
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="Folder that keeps what is said.", show_default="SOURCE.served")
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="Column of ids.", show_default="id, or row numbers; names of embedded pictures"),
    ] = None,
    vectors: Annotated[
        str | None, typer.Option(help="Column of vectors.", show_default="all columns of numbers")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Table of a PostgreSQL database, which needs --vectors.")] = None,
    label: Annotated[str | None, typer.Option("--label", help="Column that is shown as the name of an item.")] = None,
    text: Annotated[str | None, typer.Option("--text", help="Column of texts to show.")] = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder of the pictures; the column 'picture', or the id, names a file in it.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="efficientnet-lite2, or an ONNX model, that makes vectors of a folder of images.",
            show_default="pixels of small gray copies",
        ),
    ] = None,
    search_in: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="PostgreSQL with pgvector that finds candidates of searches: postgresql://...",
            show_default="memory; with --search-table, SOURCE",
        ),
    ] = None,
    search_table: Annotated[
        str | None, typer.Option(help="Table for it, which is written.", show_default="paloma_search")
    ] = None,
    search_graph: Annotated[
        bool, typer.Option("--search-graph", help="Give the table an HNSW index, for very many items.")
    ] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other than this machine's own needs --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("-p", "--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 8321,
    token: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE=TOKEN", help="read, feedback or admin, and a secret of 16 bytes or more; repeatable."
        ),
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option("--name", help="A further host name, behind a proxy; repeatable.")
    ] = None,
    metrics: Annotated[bool, typer.Option("--metrics", help="Answer /api/v1/metrics to admins.")] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    get: Annotated[
        str | None, typer.Option(metavar="PATH", help="Answer one request on standard output, and exit.")
    ] = None,
) -> None:
    """Search that learns: a page and an API on your own items.

    Without SOURCE, it serves scikit-learn's handwritten digits. Everything that is said is kept in a folder, and can be
    taken back.

    \b
    Example:
      paloma serve photos.npz --open
    """
    from ..serve import answer, is_new
    from ..serve import serve as run

    folder = state or Path(f"{table or Path(source or 'digits').absolute().stem}.served")
    shown = {"id_column": id_column, "label": label, "text": text, "images": images}
    new = is_new(folder)
    if new and get is not None and source is None:
        raise ValueError(f"--get: {folder} holds no items. Name a folder that was served, or a SOURCE of items.")
    items = _items(source, table, vectors, encoder, shown) if new else None
    if items is None and source is not None:
        shown_source = f"the table {table}" if "://" in source else source  # an address may hold a password
        typer.echo(
            f"{folder} has items already, so {shown_source} is not read; --state names another folder.", err=True
        )
    if get is not None:
        status, body = answer(folder, get, items)
        sys.stdout.buffer.write(body + b"\n")
        raise typer.Exit(0 if status < 400 else 1)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it ends as by Ctrl-C, with a last snapshot
    with suppress(KeyboardInterrupt):
        run(
            folder, items, host=host, port=port, tokens=_tokens(token), hosts=tuple(also or ()), metrics=metrics,
            database=_database(source, search_in, search_table, search_graph),
            ready=lambda address: _ready(address, folder, open_page),
        )  # fmt: skip


def _ready(address: str, folder: Path, open_page: bool) -> None:
    typer.echo(f"Open {address}\n(good for one login; everything said is kept in {folder}; stop with Ctrl-C)", err=True)
    if open_page:
        import webbrowser

        webbrowser.open(address)


def _database(source: str | None, address: str | None, table: str | None, graph: bool) -> Any:
    """Where candidates come from, if not from memory."""
    from ..serve import Database

    if address is None and table is None and not graph:
        return None
    address = address or (source if source is not None and "://" in source else None)
    if address is None:
        raise ValueError("--search-table and --search-graph need --search-in: the address of a PostgreSQL database.")
    return Database(address, table or "paloma_search", graph)


def _tokens(given: list[str] | None) -> dict[str, str]:
    found = {}
    for each in [*(given or []), *filter(None, [os.environ.get("PALOMA_TOKEN")])]:
        scope, sign, secret = each.partition("=")
        if not sign:
            raise ValueError(f"--token must be SCOPE=TOKEN, such as admin=..., got {len(each)} characters without '='.")
        found[secret] = scope
    return found


def _items(
    source: str | None, table: str | None, vectors: str | None, encoder: str | None, shown: dict[str, Any]
) -> Any:
    from ..serve import digits, from_database, from_images, from_table

    if source is None:
        return digits()
    if "://" in source:
        if table is None or vectors is None:
            raise ValueError("A database needs --table, and --vectors: the column of its vectors.")
        return from_database(source, table, vectors, **shown)
    if Path(source).is_dir():
        return from_images(Path(source), encoder)
    return from_table(Path(source), **shown, vectors=vectors)
