"""What a claim leaves beside its slices before it commits: all that the ledger knows of it, so that it can be rebuilt.

A commit says that a claim's data came; who claimed what, with which inputs, and what the audit measured, say the
records: `_claim.json` beside the manifest of the claim's first slice, written after the audit and never again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from waterclock.batches.records import BatchResult, Claim, ClaimRequest, Input
from waterclock.filesystem import at, put_if_absent, read_bytes

CLAIM = "_claim.json"
_INSTANTS = frozenset({"label", "end", "stands_from", "low", "high", "now"})


def put_claim_record(folder: str, claim: Claim, results: Sequence[BatchResult]) -> None:
    """Leave the record of a claim whose slices are sealed and audited; one that is there stays."""
    request = asdict(
        replace(claim.request, inputs={}, seen={}, closed={}, held={}, owned={})
    )  # what was seen mattered to its taker, and what is owned stands with the results
    request["labels"] = [label.isoformat() for label in claim.request.labels]
    request["inputs"] = [
        [label.isoformat(), [asdict(read) for read in reads]] for label, reads in claim.request.inputs.items()
    ]
    said = {"claim": claim.number, "request": request, "results": [asdict(result) for result in results]}
    text = json.dumps(said, separators=(",", ":"), default=_text)
    put_if_absent(at(folder, results[0].slice_path, CLAIM), text)


def read_claim_record(folder: str, slice_path: str) -> tuple[ClaimRequest, tuple[BatchResult, ...]] | None:
    """Read the record that lies beside a slice; None where there is none that can be read.

    The version of the results is not known: it is the commit's.
    """
    try:
        return _read(json.loads(read_bytes(at(folder, slice_path, CLAIM))))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read(said: Mapping[str, Any]) -> tuple[ClaimRequest, tuple[BatchResult, ...]]:
    request = said["request"]
    labels = tuple(map(datetime.fromisoformat, request["labels"]))
    inputs = {
        datetime.fromisoformat(label): tuple(Input(**_timed(read)) for read in reads)
        for label, reads in request["inputs"]
    }
    parts = _timed(request) | {"labels": labels, "inputs": inputs}
    return ClaimRequest(**parts), tuple(BatchResult(**_timed(result)) for result in said["results"])


def _timed(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: datetime.fromisoformat(value) if key in _INSTANTS and value is not None else value
        for key, value in parts.items()
    }


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
