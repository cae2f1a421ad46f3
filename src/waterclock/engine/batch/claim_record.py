"""Writes and reads claim records: files next to slices from which a lost ledger can be rebuilt.

A commit proves that a claim's data was committed. The record `_claim.json` adds who claimed the batch, its inputs and
the audit's measures. It is next to the manifest of the claim's first slice, and is written after the audit. It changes
only if rows of persons are erased from a held slice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from waterclock.batches.records import BatchResult, Claim, ClaimRequest, Input
from waterclock.files.filesystem import entry_path, put_if_absent, read_bytes, replace_text

CLAIM = "_claim.json"
_INSTANTS = frozenset({"label", "end", "stands_from", "low", "high", "now"})


def write_claim_record(folder: str, claim: Claim, results: Sequence[BatchResult]) -> None:
    """Write the record of a claim whose slices are sealed and audited. An existing record is kept."""
    text = _record_text(claim.number, claim.request, results)
    put_if_absent(entry_path(folder, results[0].slice_path, CLAIM), text)


def replace_claim_record(
    folder: str, slice_path: str, number: int, request: ClaimRequest, results: Sequence[BatchResult]
) -> None:
    """Replace the record of a held claim whose slices were written again."""
    replace_text(entry_path(folder, slice_path, CLAIM), _record_text(number, request, results))


def _record_text(number: int, of: ClaimRequest, results: Sequence[BatchResult]) -> str:
    request = asdict(
        replace(of, inputs={}, seen={}, closed={}, held={}, owned={})
    )  # `seen` mattered only when claiming; `owned` is part of the results
    request["labels"] = [label.isoformat() for label in of.labels]
    request["inputs"] = [[label.isoformat(), [asdict(read) for read in reads]] for label, reads in of.inputs.items()]
    record = {"claim": number, "request": request, "results": [asdict(result) for result in results]}
    return json.dumps(record, separators=(",", ":"), default=_to_json_text)


def read_claim_record(folder: str, slice_path: str) -> tuple[ClaimRequest, tuple[BatchResult, ...]] | None:
    """Read the claim request and the results that a slice's claim recorded. None if the record is unreadable.

    The results have no Delta version (-1): they are written before the commit.
    """
    try:
        return _parse_record(json.loads(read_bytes(entry_path(folder, slice_path, CLAIM))))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _parse_record(record: Mapping[str, Any]) -> tuple[ClaimRequest, tuple[BatchResult, ...]]:
    request = record["request"]
    labels = tuple(map(datetime.fromisoformat, request["labels"]))
    inputs = {
        datetime.fromisoformat(label): tuple(Input(**_parse_instants(read)) for read in reads)
        for label, reads in request["inputs"]
    }
    parts = _parse_instants(request) | {"labels": labels, "inputs": inputs}
    return ClaimRequest(**parts), tuple(BatchResult(**_parse_instants(result)) for result in record["results"])


def _parse_instants(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: datetime.fromisoformat(value) if key in _INSTANTS and value is not None else value
        for key, value in parts.items()
    }


def _to_json_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
