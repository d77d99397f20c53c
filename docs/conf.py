"""Settings of Sphinx: `make docs` builds the site from the pages, the notebooks and the generated pages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

project = "mygym"
author = "the mygym authors"
root_doc = "docs/index"  # pages keep their folders in the repository, so that their links work there and in the site
include_patterns = [
    "docs/*.md",
    "docs/generated/**.md",
    "notebooks/*.ipynb",
    "benchmarks/README.md",
    "benchmarks/results/*.md",
    "benchmarks/tables/*/table.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]
exclude_patterns = [".*", "runs", "build", "docs/_build"]
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_nb"]
default_role = "code"
pygments_style = "friendly"

nb_execution_mode = "off"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "separated"
napoleon_numpy_docstring = False
napoleon_attr_annotations = False

html_theme = "furo"
html_title = "mygym"
html_baseurl = ""
html_copy_source = False
html_show_sphinx = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["static/index.html"]


def setup(app: Any) -> None:
    """Write the generated pages before Sphinx looks for pages."""
    from ipython_pygments_lexers import IPython3Lexer

    from docs.generate import write_pages

    app.add_lexer("python", IPython3Lexer)  # cells of notebooks have commands that begin with `!`
    app.connect("config-inited", lambda app, config: write_pages(ROOT / "docs" / "generated"))
