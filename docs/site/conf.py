"""Settings of Sphinx for the site that `bin/docs` builds.

The pages are the Markdown files of `docs/`, which also read well as they are. This file adds only what a site needs:
navigation from the lists of links in the READMEs, the API reference from docstrings, and `llms.txt`.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
_PAGE = re.compile(r"\(([\w/.-]+)\.md\)")
_LINK = re.compile(r"\[([^\]]+)\]\(([\w/.-]+)\.md\)(?:: ([^\n,]+))?")
_OF_ROOT = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([A-Z]+\.md)(?:#[\w-]+)?\)")
_FURTHER = {"Reference": ["site/api"], "Background": ["decisions/README"]}
"""Pages that a section of the first page gets in the navigation, besides those it links to in its own list."""

project = "Waterclock"
author = "The Waterclock maintainers"
project_copyright = author
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

root_doc = "README"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
default_role = "code"  # docstrings quote code with single backticks, as Markdown does
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # output of commands, marked as the language it resembles

autodoc_typehints_format = "short"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = f"Waterclock {release}"
html_copy_source = False
html_show_sphinx = False


def adapt_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Name files of the repository's root, which are not on the site, in place of a link to them.

    A README also gets hidden tables of contents: one for each section, with the pages that the section links to.
    """
    if not (Path(app.srcdir) / f"{name}.md").exists():
        return
    source[0] = _OF_ROOT.sub(lambda link: f"{link[1]} (`{link[2]}` of the repository)", source[0])
    if Path(name).name != "README":
        return
    known: set[str] = set()
    intro, *sections = source[0].split("\n## ")
    for section in [*sections, f"More\n{intro}"]:
        title = section.partition("\n")[0]
        pages = [page for page in _PAGE.findall(section) if page not in known and not re.search(r"README$|^\.", page)]
        known |= set(pages)
        pages += _FURTHER.get(title, []) if name == root_doc else []
        if pages:
            source[0] += "\n".join(["\n```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])


def write_llms_txt(app: Sphinx, error: Exception | None) -> None:
    """Write `llms.txt`, as llmstxt.org defines it: the list of pages with their addresses, for language models."""
    if error is not None:
        return
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    summary = next(block for block in readme.split("\n\n") if block[:1].isalpha())
    lines = ["# Waterclock", "", "> " + " ".join(summary.split()), ""]
    for section in (Path(app.srcdir) / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        lines += [f"## {section.partition(chr(10))[0]}", ""]
        for text, page, about in _LINK.findall(section):
            lines.append(f"- [{text}]({page}.html)" + (f": {about}" if about else ""))
        lines.append("")
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect the functions of this file to the steps of a build."""
    app.connect("source-read", adapt_page)
    app.connect("build-finished", write_llms_txt)
