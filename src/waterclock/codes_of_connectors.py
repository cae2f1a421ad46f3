"""Codes of errors of the systems that are reached: logs by position, and each connector's own."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

CONNECTORS_AT_WORK: Mapping[str, Code] = {
    "E850": Code(
        "a range of a log that another label owns",
        "Between the look at the end of a log and the claim, another runner gave what comes next to another label. The "
        "log is looked at once more, so that nothing is taken twice.",
    ),
    "E851": Code(
        "a gap between two labels of a log",
        "Each label owns a range of the log, which begins where that of the label before ends. What the connector "
        "gives next leaves something out or reads it twice. Nothing was read.",
    ),
}
