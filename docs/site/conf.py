"""Sphinx's settings for the documentation site; scripts/docs.sh runs it."""
import os
import re
from pathlib import Path

root = Path(__file__).resolve().parents[2]

project = "XCVM"
author = "the XCVM authors"
version = release = ".".join(re.findall(r"^#define XCVM_VERSION_\w+ (\d+)", (root / "include/xcvm/xcvm.h").read_text(), re.M))

extensions = ["myst_parser", "breathe"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["site"]
master_doc = "index"
myst_heading_anchors = 3

breathe_projects = {"xcvm": os.environ["XCVM_DOXYGEN_XML"]}
breathe_default_project = "xcvm"
breathe_domain_by_extension = {"h": "c"}
breathe_default_members = ()
primary_domain = "c"
highlight_language = "text"
c_id_attributes = ["XCVM_API", "XCVM_MUST_USE"]

html_theme = "alabaster"


def link_pages_of_the_root(app, docname, source):
    """Pages outside docs/ are included by docs/<lower case>.md, so links to them become links to those pages."""
    source[0] = re.sub(r"\]\(\.\./(SECURITY|CONTRIBUTING|CHANGELOG)\.md", lambda m: f"]({m[1].lower()}.md", source[0])


def setup(app):
    app.connect("source-read", link_pages_of_the_root)
