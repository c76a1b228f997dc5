"""The source of the site: docs/ and the pages of the root, with links that fit. python release/site_source.py FOLDER"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Pages of the root and their names on the site.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "ARCHITECTURE.md": "architecture.md",
    "SECURITY.md": "security.md",
}
# Sphinx has a page of its own called search.
SEARCH = "metric-search.md"
PLACE = "<!-- README: Measured results -->"


def linked(text: str) -> str:
    """Links from the root into docs/, and to pages of the root, as links within the site."""
    text = re.sub(r"\]\(docs/", "](", text)
    text = text.replace("](search.md", f"]({SEARCH}")
    for old, new in PAGES.items():
        text = re.sub(rf"\]\((\.\./)?{re.escape(old)}", f"]({new}", text)
    return re.sub(r"\]\((\.\./)*README\.md(#[^)]*)?\)", "](benchmarks.md)", text)


def trimmed(text: str) -> str:
    """Doctests end with an empty line, which would show."""
    return re.sub(r"\n\n```$", "\n```", text, flags=re.MULTILINE)


def measured() -> str:
    """The tables of the README, which is the only place that has them, without its link to the page they go to."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Measured results\n")[2].partition("\n## ")[0].strip()
    return "\n\n".join(part for part in section.split("\n\n") if "](docs/benchmarks.md)" not in part)


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "search.md").rename(folder / SEARCH)
    for old, new in PAGES.items():
        (folder / new).write_text((ROOT / old).read_text(encoding="utf-8"), encoding="utf-8")
    page = folder / "benchmarks.md"
    page.write_text(page.read_text(encoding="utf-8").replace(PLACE, measured()), encoding="utf-8")
    for page in folder.rglob("*.md"):
        page.write_text(trimmed(linked(page.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
