"""Error codes of alerts."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

ALERTS: Mapping[str, Code] = {
    "E457": Code("unknown alert", "No alert has this number. `waterclock alerts` lists the numbers of open alerts."),
    "E458": Code("closed alert", "The alert is already over. It is not repeated, so it needs no acknowledgment."),
    "E911": Code(
        "invalid alert configuration",
        "The section contains an unknown key or an invalid value. [alerts.targets.NAME] accepts apprise or webhook. "
        "[alerts.rules.NAME] accepts to, select, severity, repeat, quiet and zone. The last three can also be set in "
        "[alerts], for all rules.",
    ),
    "E912": Code(
        "unknown severity",
        "The severity must be `critical`, `error` or `warning`. Damage is `critical`. Batches that failed, are held, "
        "expired, stopped or missed a deadline are an `error`. Warnings of rules, near deadlines and silent sources "
        "are a `warning`. A rule reports its severity and all higher ones.",
    ),
    "E913": Code(
        "alert rule without a target",
        "The rule has no valid target. It must name targets that [alerts.targets] defines.",
    ),
    "E914": Code(
        "invalid target address",
        "The address of the target is not valid. apprise identifies a target by an address such as mailtos://, "
        "slack:// or json://. A webhook needs an http or https address. Addresses are never shown, because they "
        "contain passwords.",
    ),
    "E915": Code(
        "missing apprise library", "Targets of apprise need the apprise library, which is an extra of Waterclock."
    ),
    "E916": Code(
        "invalid repeat or quiet",
        "The value is not valid. Use a duration of at least a minute for `repeat`, and a time range such as "
        "22:00-07:00 for `quiet`. Both also accept `never`.",
    ),
    "E918": Code(
        "no alert or alert target",
        "The environment has alerts turned off, or the command names no existing target or alert. `waterclock alerts` "
        "lists both.",
    ),
}
