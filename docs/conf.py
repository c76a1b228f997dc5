"""Sphinx: Markdown pages, an API reference from the docstrings, executed examples, no request to another origin."""

import re
import shutil
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists())

project, author = "paloma", "the paloma developers"
copyright = author
version = release = version_of("paloma")
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
html_theme = "furo"
html_title = f"paloma {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = str(ROOT / "src/paloma/serve/page/icon.svg")
html_show_copyright = False
# MathJax comes from a package, not from another origin; what a page asks for is copied, see mathjax.
MATHJAX = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
mathjax_path = "mathjax/tex-chtml.js"

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3

default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True}
napoleon_google_docstring = False
napoleon_use_rtype = False

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,  # its page asks other origins for scripts
    "min_reported_time": 10_000,
    "abort_on_example_error": True,
    "capture_repr": (),
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


def skip(app, what, name, obj, skipped, options):
    """What scikit-learn adds to route metadata is described there."""
    del app, what, obj, options
    return True if re.fullmatch(r"set_\w+_request", name) else skipped


def mathjax(app, error):
    """The program and its fonts into the site."""
    if error is None and app.builder.format == "html":
        target = Path(app.outdir, "_static", "mathjax")
        (target / "output" / "chtml").mkdir(parents=True, exist_ok=True)
        shutil.copy(MATHJAX / "tex-chtml.js", target)
        shutil.copytree(MATHJAX / "output/chtml/fonts", target / "output/chtml/fonts", dirs_exist_ok=True)


def setup(app):
    app.connect("build-finished", mathjax)
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", plain, priority=900)
