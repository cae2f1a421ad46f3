"""Builds the certificate of an erasure, as JSON and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from waterclock.batches.erasures import COLUMNS
from waterclock.engine.erasing.erasing import PAUSE, ErasurePlan, ErasureResult

if TYPE_CHECKING:
    from waterclock.json_models.erasing import ErasureAnswer
    from waterclock.storage.search.byte_search import SearchResult

NOT_REACHED = (
    "sources and landing folders",
    "destinations, and copies made from them",
    "alerts, OpenLineage events and linked projects",
    "snapshots and backups of disks and buckets; after one is restored, erase the persons again",
    "other environments of the project, which have their own storage: erase there with --env",
    "files that users copied or exported",
)


def build_certificate(plan: ErasurePlan, result: ErasureResult | None = None) -> ErasureAnswer:
    """Build the certificate of an erasure, or with a plan alone the answer of a dry run."""
    from waterclock.json_models.erasing import ErasureAnswer

    request, erasure = plan.request, None if result is None else result.erasure
    return ErasureAnswer.build(
        number=None if erasure is None else erasure.number,
        subject=request.subject,
        persons=len(request.values),
        key=request.key if erasure is None else erasure.key,
        hashes=sorted(request.hashes if erasure is None else erasure.hashes),
        why="" if erasure is None else erasure.why,
        who="" if erasure is None else erasure.who,
        at=None if erasure is None else erasure.at,
        finished_at=None if erasure is None else erasure.finished_at,
        tables=[
            {
                "table": found.table,
                "kind": found.kind.value,
                "columns": list(found.columns),
                "rows": found.rows,
                "quarantined": found.aside_rows,
                "labels": [each.piece.label for each in found.touched],
                "older_slices": len(found.older),
                "older_rows": found.older_rows,
                "held": list(found.held),
            }
            for found in plan.tables
        ],
        originals=[{"table": of.table, "files": of.touched, "rows": of.rows} for of in plan.originals if of.touched],
        pseudonyms=[{"table": table, "column": column} for table, column in request.columns.pseudonyms.items()],
        search=None if result is None else _describe_search(result.search),
        steps=[
            {"step": step, "result": of}
            for step, of in ({} if erasure is None else erasure.steps).items()
            if not step.startswith((PAUSE, COLUMNS))
        ],
        left=[
            {"place": each.place, "why": each.why, "fix": each.fix}
            for each in (plan.left if result is None else result.left)
        ],
        not_reached=list(NOT_REACHED),
    )


def _describe_search(of: SearchResult) -> dict[str, int]:
    return {
        "files": of.files,
        "bytes": of.bytes,
        "hits": sum(hit.count for hit in of.hits),
        "possible": sum(hit.count for hit in of.possible),
    }


def certificate_text(of: ErasureAnswer) -> str:
    """Return the certificate as text."""
    return "\n".join([*_format(of), ""])


def _format(of: ErasureAnswer) -> Iterator[str]:
    yield f"Erasure {of.number}: {of.persons} of subject {of.subject}"
    yield f"Begun {of.at} by {of.who}: {of.why}"
    yield f"Finished: {of.finished_at}" if of.finished_at else "Not finished: places are left."
    yield ""
    yield "Done"
    for step in of.steps:
        yield f"  {step.step}: {', '.join(f'{count} {name}' for name, count in step.result.items()) or 'nothing'}"
    if of.search is not None:
        found = of.search
        yield f"  search of all files: {found.hits} values in {found.files} files with {found.bytes} bytes"
        if found.possible:
            yield f"  at least {found.possible} numbers or short values there may be others"
    yield ""
    if of.pseudonyms:
        yield "Kept with a pseudonym, which no table connects with the persons any more"
        yield from (f"  {each.table} ({each.column})" for each in of.pseudonyms)
        yield ""
    yield "Left"
    for each in of.left:
        yield f"  {each.place}: {each.why}. Fix: {each.fix}"
    if not of.left:
        yield "  nothing"
    yield ""
    yield "Not reached by any command"
    yield from (f"  {place}" for place in of.not_reached)
    yield ""
    yield f"Keyed hashes of the persons (HMAC-SHA256, key {of.key})"
    yield from (f"  {each}" for each in of.hashes)
