"""Renders the content of a page as HTML with its template. All text is escaped."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from waterclock.operations.display_states import State
from waterclock.operations.formatting import count_words, number_words
from waterclock.operations.proposals import Verb, right_of
from waterclock.permissions.users_and_roles import Person
from waterclock.printable import mark_hidden, printable
from waterclock.ui.page_query import batch_address, table_address
from waterclock.ui.svg_paints import attributes, classes

GLYPHS = {
    State.FAILED: "✕", State.HELD: "‖", State.BLOCKED: "–", State.EXPIRED: "∅", State.RUNNING: "↻", State.STALE: "",
    State.PAUSED: "P", State.DUE: "·", State.BEHIND: "", State.WARNED: "!", State.SKIPPED: "»", State.OK: "",
    State.STOOD_FOR: "", State.NOT_NEEDED: "",
}  # fmt: skip


@cache
def environment() -> Environment:
    """Return the Jinja environment of the templates, with its filters and globals."""
    made = Environment(
        loader=PackageLoader("waterclock.ui"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": number_words, "count": count_words, "slug": slug, "glyph": glyph, "at": quote, "cut": cut,
        "shown": shown,
    }  # fmt: skip
    made.tests["hiding"] = lambda text: printable(text) != text
    made.globals |= {"table_address": table_address, "batch_address": batch_address, "static": static}
    made.globals |= {"classes": classes, "attributes": attributes, "cut": cut, "can": can}
    return made


def render(template: str, **values: Any) -> str:
    """Render a template with the given values."""
    return environment().get_template(template).render(**values)


def can(person: Person, verb: str) -> bool:
    """Return whether a person has the right for an action on batches."""
    return person.may(right_of(Verb(verb)))


def slug(state: str) -> str:
    """Return a state as a CSS class name: `not-needed`."""
    return state.replace(" ", "-")


def cut(text: str, most: int) -> str:
    """Shorten a text to at most `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shown(text: str) -> Markup:
    """Escape a value as HTML, and mark its control and invisible characters, such as those of text direction.

    The style sheet shows the mark. The character stays in the text, so that copies have the value.
    """
    return Markup(mark_hidden(str(escape(text)), _mark))  # noqa: S704  # escaped before


def _mark(character: str, code: str) -> str:
    return f'<span class="hid" data-code="{code}">{character if character >= " " else ""}</span>'


def glyph(state: str) -> str:
    """Return the glyph of a state, or "" for states that are shown only by their background."""
    return GLYPHS[State(state)]


@cache
def static(name: str) -> str:
    """Return the address of a static file. It changes with the content of the file."""
    content = files("waterclock.ui").joinpath("static", name).read_bytes()
    return f"/static/{name}?{sha256(content).hexdigest()[:12]}"
