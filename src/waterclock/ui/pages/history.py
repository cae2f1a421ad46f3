"""The page of a statement's history: the versions of its code, with their dates, batches and changes."""

from __future__ import annotations

from difflib import unified_diff

from waterclock.batches.audit_records import CodeVersion
from waterclock.flow.declarations import Table
from waterclock.operations.formatting import local_range, page_time
from waterclock.operations.json import instant_text
from waterclock.operations.project_opening import OpenedProject
from waterclock.ui.page_query import Content

_MOST = 50
_MOST_LINES = 2_000  # of a statement that is compared with another: a tenth of a second
_LINE_KINDS = {"+": "added", "-": "gone", "@": "soft"}


def history(at: OpenedProject, declared: Table) -> list[Content]:
    """Return the newest versions of a table's code, newest first, with their changes. Cost: a ledger query."""
    found = [] if at.ledger is None else at.ledger.past.codes(declared.name, _MOST + 1)
    before = [*found[1:], None]
    codes = [_describe_version(declared, each, earlier) for each, earlier in zip(found, before, strict=True)][:_MOST]
    for index, each in enumerate(codes):
        each["is_current"] = not index and found[0].code == declared.fingerprint
    return codes


def _describe_version(declared: Table, each: CodeVersion, before: CodeVersion | None) -> Content:
    zone = declared.cadence.zone
    labels = "" if each.first is None or each.last is None else local_range(each.first, each.last, declared.cadence)
    return {
        "code": each.code[:8],
        "declared": "" if each.declared_at is None else page_time(each.declared_at, zone),
        "declared_at": None if each.declared_at is None else instant_text(each.declared_at),
        "who": each.who,
        "count": each.count,
        "labels": labels,
        "statement": each.statement,
        "is_same": before is not None and before.statement is not None and before.statement == each.statement,
        "changes": _diff_lines(None if before is None else before.statement, each.statement),
    }


def _diff_lines(before: str | None, after: str | None) -> list[Content]:
    """Return the lines of a unified diff without its header. Empty if a text is unknown or too long."""
    if before is None or after is None:
        return []
    texts = before.splitlines(), after.splitlines()
    if max(map(len, texts)) > _MOST_LINES:
        return []
    lines = list(unified_diff(*texts, lineterm="", n=3))[2:]
    return [{"kind": _LINE_KINDS.get(line[:1], "same"), "text": line} for line in lines]
