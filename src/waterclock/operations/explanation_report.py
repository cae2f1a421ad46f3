"""Describes why a label differs: as JSON, and as a section of text for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from waterclock.operations.comparison_report import ARROW, TableReport, build_section
from waterclock.operations.difference_causes import Batch, Cause, CauseKind
from waterclock.operations.explaining import ExplainedCause, Explanation
from waterclock.operations.formatting import count_words, instant_words, local_label, number_words
from waterclock.printable import printable_line
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from waterclock.batches.earlier_revisions import EarlierRevision
    from waterclock.flow.declarations import Flow
    from waterclock.json_models.comparison import WhyAnswer
    from waterclock.ledger.read.revisions import CommittedRevision

_MOST_STEPS = 3  # batches of a path that are shown; --json has all
_WORDS = {
    CauseKind.RANGE: "the same code reads other labels",
    CauseKind.DIGEST: "no digest is known: the rows may be equal",
    CauseKind.ROWS: "other rows, although code and inputs are equal",
    CauseKind.UNKNOWN: "the rows of an input that the audit trail does not contain any more",
}


def report_explanation(explained: Explanation, flow: Flow) -> TableReport:
    """Describe the first differences of a label."""
    rows = [
        (_name_labels(flow, each.cause), _describe(each, explained), _times(flow, each.cause), _path(flow, each.cause))
        for each in explained.causes
    ]
    section = build_section(("first difference", "what differs", "made", "through"), rows)
    return TableReport(
        printable_line(_name_batch(flow, (explained.table, explained.label))),
        printable_line(_summary(explained)),
        explained.differs,
        tuple(_notes(explained)),
        () if section is None else (section,),
    )


def summarize_explanation(explained: Explanation) -> str:
    """Describe how much was compared, and the two sides."""
    compared = f"{count_words(explained.compared, 'batch', 'batches')} compared, without reading rows."
    return printable_line(f"{compared} Before: {explained.before}. After: {explained.after}.")


def _summary(explained: Explanation) -> str:
    old, new = explained.revisions
    if not explained.differs:
        return "equal"
    if old is None or new is None:
        return f"only {explained.after if old is None else explained.before}"
    return f"differs; {number_words(old.rows)} rows before, {number_words(new.rows)} after"


def _notes(explained: Explanation) -> Iterator[str]:
    if explained.differing > 1:
        yield f"{count_words(explained.differing, 'label')} differ; this is the oldest"
    if not explained.is_complete:
        yield f"stopped after {count_words(explained.compared, 'batch', 'batches')}; there may be more causes"


def _name_labels(flow: Flow, cause: Cause) -> str:
    first = _name_batch(flow, (cause.table, cause.labels[0]))
    return first if len(cause.labels) == 1 else f"{first} and {count_words(len(cause.labels) - 1, 'other label')}"


def _name_batch(flow: Flow, batch: Batch) -> str:
    name, label = batch
    return f"{name}@{local_label(label, flow.tables[name].cadence) if name in flow.tables else label_of(label)}"


def _describe(each: ExplainedCause, explained: Explanation) -> str:
    cause, request = each.cause, ""
    if each.request is not None:
        why = f": {each.request.why}" if each.request.why else ""
        request = f"; {each.request.what} by {each.request.by}{why}"
    if cause.kind is CauseKind.CODE:
        return f"code ({', '.join(each.parts)})" if each.parts else "code"
    if cause.kind is CauseKind.SOURCE:
        return f"source {each.source}{request}" if each.source else f"source{request}"
    if cause.kind is CauseKind.REVERT:
        return request.removeprefix("; ") or f"revert {explained.before}"
    if cause.kind is CauseKind.MISSING:
        return f"only {explained.after if cause.before is None else explained.before}"
    return f"{_WORDS[cause.kind]}{request}"


def _times(flow: Flow, cause: Cause) -> str:
    zone = flow.tables[cause.table].cadence.zone if cause.table in flow.tables else "UTC"
    times = [instant_words(each.recorded_at, zone) for each in (cause.before, cause.after) if each is not None]
    return f" {ARROW} ".join(times)


def _path(flow: Flow, cause: Cause) -> str:
    steps = [_name_batch(flow, each) for each in cause.path[:-1]]
    steps[_MOST_STEPS:] = ["…"] if len(steps) > _MOST_STEPS else []
    return f" {ARROW} ".join(steps)


def explanation_answer(explained: Explanation) -> WhyAnswer:
    """Build the JSON response of an explanation."""
    from waterclock.json_models.comparison import WhyAnswer

    old, new = explained.revisions
    return WhyAnswer.build(
        differs=explained.differs,
        env=explained.env,
        against=explained.against,
        as_known=explained.as_known,
        table=explained.table,
        label=explained.label,
        differing=explained.differing,
        equal=explained.equal,
        before=_revision_part(old),
        after=_revision_part(new),
        causes=[_cause_part(each) for each in explained.causes],
        compared=explained.compared,
        is_complete=explained.is_complete,
    )


def _cause_part(each: ExplainedCause) -> dict[str, Any]:
    cause = each.cause
    return {
        "kind": cause.kind.value,
        "table": cause.table,
        "labels": list(cause.labels),
        "parts": list(each.parts),
        "source": each.source,
        "request": each.request,
        "before": _revision_part(cause.before),
        "after": _revision_part(cause.after),
        "path": _path_part(cause.path),
    }


def _path_part(path: Sequence[tuple[str, datetime]]) -> list[dict[str, Any]]:
    return [{"table": table, "label": label} for table, label in path]


def _revision_part(revision: EarlierRevision | CommittedRevision | None) -> dict[str, Any] | None:
    if revision is None:
        return None
    return {
        "claim": revision.claim, "rows": revision.rows, "digest": revision.digest, "made_at": revision.recorded_at,
    }  # fmt: skip
