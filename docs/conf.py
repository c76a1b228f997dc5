"""Sphinx: Markdown pages, an API reference from the docstrings, executed examples, no request to another origin."""

import re
from importlib.metadata import version as version_of
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists())

project, author = "paloma", "the paloma developers"
copyright = author  # noqa: A001 - the name that Sphinx reads
version = release = version_of("paloma")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_mathjax_offline",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["results/report.md"]
html_theme = "furo"
html_title = f"paloma {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
templates_path: list[str] = []

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "inherited-members": False, "show-inheritance": False}
napoleon_google_docstring = False
napoleon_use_rtype = False

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "min_reported_time": 10_000,
    "abort_on_example_error": True,
    "nested_sections": False,
}


def plain(app, what, name, obj, options, lines):
    """Docstrings are written for `help`: names such as classes_ and bars such as |x| are no markup."""
    del app, what, name, obj, options
    for number, line in enumerate(lines):
        outside = line.split("`")
        for part in range(0, len(outside), 2):
            outside[part] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", outside[part]).replace("|", r"\|").replace("*", r"\*")
        lines[number] = "`".join(outside)


def setup(app):
    app.connect("autodoc-process-docstring", plain, priority=900)
