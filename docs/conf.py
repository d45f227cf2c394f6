"""Configuration of Sphinx; ``make docs`` builds the pages into results/docs."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "scripts"))

project = "kmdr"
author = "The kmdr developers"
copyright = author  # noqa: A001  Sphinx's name
version = release = version_of("kmdr")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "sphinx_gallery.gen_gallery"]
root_doc = "index"
exclude_patterns = ["examples", "paper", "generated/bench-table.md"]

myst_heading_anchors = 3

# Types are in the Parameters sections; in signatures they would hide the names.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = False
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1,
    "abort_on_example_error": True,
    "image_scrapers": ("docs_gallery.save_figures",),
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = "kmdr"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "navbar_persistent": ["search-button"],
    "search_bar_text": "Search the documentation",
}
html_sidebars = {"tutorial": [], "bench": []}  # they have no neighbours in their section
html_show_sourcelink = False
html_copy_source = False


def write_generated_pages(app: Sphinx) -> None:
    """Write the pages that are made from the code, the configurations and the registry."""
    from docs_pages import write_pages

    write_pages(Path(app.srcdir) / "generated")


def setup(app: Sphinx) -> None:
    """Connect the generated pages."""
    app.connect("config-inited", lambda app, _: write_generated_pages(app))
