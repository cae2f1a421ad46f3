"""Defines the styles of the parts of an SVG drawing: CSS classes within a page, attributes in a standalone file."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from markupsafe import Markup

_INK, _SOFT, _EDGE, _GROUND = "#16202b", "#566372", "#c9d0d8", "#ffffff"
_WARN, _FAIL, _RUN, _IDLE = "#b87700", "#a3123a", "#2f6fed", "#6f7b8b"
_OK_QUIET = "#a1cec3"
_MONO = {"font-family": "ui-monospace, 'DejaVu Sans Mono', monospace", "font-size": "12"}

# the light colours of the stylesheet: a file is used on paper and in documents
PAINTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "edge": {"fill": "none", "stroke": _EDGE, "stroke-width": "1.4"},
        "edge-bad": {"stroke": _FAIL, "stroke-width": "2.4"},
        "edge-stub": {"stroke-dasharray": "2 3"},
        "box": {"fill": _GROUND, "stroke": _EDGE, "stroke-width": "1"},
        "box-failed": {"stroke": _FAIL, "stroke-width": "2.4"},
        "box-blocked": {"stroke": _FAIL, "stroke-width": "1.6", "stroke-dasharray": "5 3"},
        "box-expired": {"stroke": _FAIL, "stroke-width": "1.6", "stroke-dasharray": "1 3"},
        "box-held": {"stroke": _WARN, "stroke-width": "2.4"},
        "box-running": {"stroke": _RUN, "stroke-width": "2"},
        "box-here": {"fill": "#f6f7f9"},
        "ring-here": {"fill": "none", "stroke": _INK, "stroke-width": "1.5"},
        "box-more": {"fill": "none", "stroke": "none"},
        "name": {**_MONO, "fill": _INK, "font-weight": "600"},
        "small": {"font-family": "system-ui, 'DejaVu Sans', sans-serif", "font-size": "10.5", "fill": _SOFT},
        "made": {**_MONO, "font-size": "10.5", "fill": _SOFT},
        "more": {"font-family": "system-ui, 'DejaVu Sans', sans-serif", "font-size": "11", "fill": _SOFT},
        "glyph": {"font-family": "sans-serif", "font-size": "10", "font-weight": "700", "text-anchor": "middle"},
        "glyph-failed": {"fill": _GROUND},
        "glyph-blocked": {"fill": _FAIL},
        "glyph-expired": {"fill": _FAIL},
        "glyph-held": {"fill": "#000000"},
        "glyph-running": {"fill": _GROUND},
        "mark": {"fill": "none"},
        "mark-failed": {"fill": _FAIL},
        "mark-blocked": {"stroke": _FAIL, "stroke-width": "1.5"},
        "mark-expired": {"stroke": _FAIL, "stroke-width": "1.5"},
        "mark-held": {"fill": _WARN},
        "mark-running": {"fill": _RUN},
        "is-failed": {"fill": _FAIL},
        "is-blocked": {"fill": _FAIL},
        "is-expired": {"fill": _FAIL},
        "is-held": {"fill": "#8a5a00"},
        "is-due": {"fill": "#8a5a00"},
        "fill-ok": {"fill": _OK_QUIET},
        "fill-stale": {"fill": _WARN},
        "fill-behind": {"fill": _WARN},
        "fill-warned": {"fill": _WARN},
        "fill-held": {"fill": _WARN},
        "fill-skipped": {"fill": _WARN},
        "fill-failed": {"fill": _FAIL},
        "fill-blocked": {"fill": _FAIL},
        "fill-expired": {"fill": _FAIL},
        "fill-running": {"fill": _RUN},
        "fill-paused": {"fill": _IDLE},
        "fill-due": {"fill": _IDLE, "fill-opacity": "0.4"},
        "fill-stood-for": {"fill": _IDLE},
        "fill-not-needed": {"fill": _IDLE},
    }
)


def classes(*names: str) -> Markup:
    """Return the non-empty names as the class attribute of an element."""
    return Markup(' class="{}"').format(" ".join(name for name in names if name))


def attributes(*names: str) -> Markup:
    """Return the styles of CSS classes, later over earlier ones, as SVG attributes for a file without a stylesheet."""
    paint: dict[str, str] = {}
    for name in names:
        paint |= PAINTS.get(name, {})
    return Markup("").join(Markup(' {}="{}"').format(key, value) for key, value in paint.items())
