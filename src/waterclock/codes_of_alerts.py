"""Error codes of alerts."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

ALERTS: Mapping[str, Code] = {
    "E457": Code("no such alert", "Alerts have numbers, which `waterclock alerts` lists while they are open."),
    "E458": Code("an alert that is over", "What is over is not repeated, so nobody needs to acknowledge it."),
    "E911": Code(
        "alerts that cannot be read",
        "[alerts.targets.NAME] takes apprise or webhook, [alerts.rules.NAME] takes to, select, severity, repeat, quiet "
        "and zone; the last three stand below [alerts] for all rules.",
    ),
    "E912": Code(
        "an unknown severity",
        "critical is damage, error is what failed, is held, expired, stopped or missed a deadline, warning is what "
        "rules warn of, deadlines that are near, and sources that are silent. A rule tells of its severity and of all "
        "that is louder.",
    ),
    "E913": Code("a rule that tells nobody", "A rule names the targets that it tells, as [alerts.targets] has them."),
    "E914": Code(
        "an address that leads nowhere",
        "apprise knows a target by its address, such as mailtos://, slack:// or json://. A webhook has an address of "
        "the web. Addresses are never shown: they hold passwords.",
    ),
    "E915": Code("apprise is not installed", "Targets of apprise need the library, which is an extra of Waterclock."),
    "E916": Code(
        "hours that cannot be",
        "repeat is a duration of a minute or more, or never; quiet is from when to when, as 22:00-07:00, or never.",
    ),
    "E918": Code(
        "nobody to be told, or nothing to tell",
        "The environment tells nobody, or no such target or alert was named. `waterclock alerts` lists both.",
    ),
}
