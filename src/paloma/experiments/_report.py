"""The report: Markdown, CSV files, pictures, and one self-contained HTML page."""

import csv
import io
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ._figures import figures
from ._findings import findings
from ._journal import Journal
from ._runner import in_words
from ._tables import Results, Table, tables

TITLE = "The paper, reproduced"
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 88rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 12.5px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .45rem; text-align: right; vertical-align: top; white-space: nowrap; }
th, td { border-bottom: 1px solid #e4e4e4; }
th { border-bottom: 2px solid #999; } td:first-child, th:first-child { text-align: left; white-space: normal; }
.paper { display: block; color: #777; font-size: 11.5px; font-weight: normal; }
td.met { color: #05713d; } td.missed { color: #b00020; font-weight: bold; }
p.note { color: #555; font-size: 13px; max-width: 60rem; } figure { margin: 1.5rem 0; } img { max-width: 100%; }
figcaption { color: #555; font-size: 13px; }
"""


def write_report(journal: Journal, folder: Path, quick: bool, command: str) -> list[Path]:
    """Write report.md, report.html, one CSV per table, runs.csv and the pictures; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    results = Results(journal, quick)
    made, facts = tables(results), _facts(results, command, quick)
    try:
        drawn = figures(results)
    except ImportError as error:
        drawn, facts = {}, [*facts, f"No pictures: {error}"]
    said = findings(results)
    files = {f"{table.name}.csv": table.csv() for table in made}
    files |= {f"{name}.svg": svg for name, (_, svg) in drawn.items()}
    files |= {
        "runs.csv": _runs(results),
        "report.md": _markdown(made, drawn, facts, said),
        "report.html": _html(made, drawn, facts, said),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def _facts(results: Results, command: str, quick: bool) -> list[str]:
    """When, with what and how the results were made."""
    about = [record["about"] for record in results.all]
    if not about:
        return [f"`{command}`", "The journal holds no results yet."]
    dates = sorted({a["date"] for a in about})
    names = [name for name in about[0] if name not in ("date", "seconds")]
    versions = ", ".join(f"{name} {'/'.join(sorted({a[name] for a in about if name in a}))}" for name in names)
    kinds = Counter(record["task"]["kind"] for record in results.all)
    counts = ", ".join(f"{kind} {n}" for kind, n in sorted(kinds.items()))
    seeds = sorted({record["task"]["seed"] for record in results.all})
    total = sum(a.get("seconds", 0.0) for a in about)
    facts = [
        f"`{command}`",
        f"Made {dates[0]}{'' if len(dates) == 1 else ' to ' + dates[-1]} with {versions}.",
        f"{len(about)} tasks ({counts}), seeds {seeds[0]} to {seeds[-1]}, {in_words(total)} of CPU time.",
    ]
    return facts + (["A quick run: one split, a coarse search. Not for comparison."] if quick else [])


def _runs(results: Results) -> str:
    """Every run of Table 2 on a line of its own."""
    records = [record for record in results.all if record["task"]["kind"] == "table2"]
    columns: list[str] = []
    for record in records:
        columns += [key for key in (*record["task"], *record["result"]) if key not in columns]
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({**record["task"], **record["result"]} for record in records)
    return out.getvalue()


def _markdown(made: list[Table], drawn: dict[str, tuple[str, str]], facts: list[str], said: list[str]) -> str:
    parts = [f"# {TITLE}\n", _items(facts)]
    if said:
        parts += ["## What the results say\n", _items(said)]
    parts += [table.markdown() for table in made]
    parts += [f"![{caption}]({name}.svg)\n\n{caption}\n" for name, (caption, _) in drawn.items()]
    return "\n".join(parts)


def _html(made: list[Table], drawn: dict[str, tuple[str, str]], facts: list[str], said: list[str]) -> str:
    body = [f"<h1>{TITLE}</h1>", *_html_items(facts)]
    if said:
        body += ["<h2>What the results say</h2>", *_html_items(said)]
    for table in made:
        body.append(_html_table(table))
    for name, (caption, svg) in drawn.items():
        source = b64encode(svg.encode()).decode()
        image = f'<img alt="{escape(caption)}" src="data:image/svg+xml;base64,{source}">'
        body.append(f'<figure id="{name}">{image}<figcaption>{escape(caption)}</figcaption></figure>')
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{TITLE}</title>'
    text = "\n".join(body)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n{text}\n</body></html>\n'
    )


def _items(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines) + "\n"


def _html_items(lines: list[str]) -> list[str]:
    return ["<ul>", *(f"<li>{_code(line)}</li>" for line in lines), "</ul>"]


def _code(text: str) -> str:
    return f"<code>{escape(text[1:-1])}</code>" if text.startswith("`") else escape(text)


def _html_table(table: Table) -> str:
    def line(tag: str, row: Sequence[str]) -> str:
        cells = list[str]()
        for column, cell in zip(table.columns, row, strict=True):
            if column == "paper":  # below ours
                cells[-1] += f'<span class="paper">{escape(cell)}</span>'
            else:
                cells.append(f"<{tag}{_class(cell)}>{escape(cell)}")
        return "<tr>" + "".join(f"{cell}</{tag}>" for cell in cells) + "</tr>"

    rows = [line("td", row) for row in table.rows]
    notes = [f'<p class="note">{escape(note.replace(chr(92), ""))}</p>' for note in table.notes]
    head = [
        f"<h2>{escape(table.heading)}</h2>",
        '<div class="scroll"><table>',
        f"<thead>{line('th', table.columns)}</thead>",
    ]
    return "\n".join([*head, "<tbody>", *rows, "</tbody></table></div>", *notes])


def _class(cell: str) -> str:
    return f' class="{cell.lower()}"' if cell in ("met", "MISSED") else ""
