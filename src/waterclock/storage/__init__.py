"""What rests: sealed slices and manifests, Delta commits, and the log read as files.

Names are loaded when they are asked for: reading manifests and logs needs neither Spark nor delta-rs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from waterclock.storage.change import NeedsSpark
    from waterclock.storage.commit import commit_nothing, commit_older, commit_slices, kill
    from waterclock.storage.confs import SESSION_CONFS
    from waterclock.storage.counting import version_counts
    from waterclock.storage.creation import create_table, require_owner
    from waterclock.storage.digest import digest_columns, digest_of_row, digests, row_hash
    from waterclock.storage.empty import brought_schema, empty_schema, state_schema
    from waterclock.storage.folding import fold, with_all_columns
    from waterclock.storage.history import frame_of_resolved, state_of
    from waterclock.storage.identity import Identity, Killed
    from waterclock.storage.keys import duplicate_keys
    from waterclock.storage.lake import Lake, require_latch
    from waterclock.storage.link import link_slice
    from waterclock.storage.live import is_readable, live_bytes
    from waterclock.storage.log import (
        ForeignCommit,
        Outcome,
        foreign_commits,
        head,
        is_older_than,
        is_unfinished,
        outcome,
        records_in_log,
        table_exists,
    )
    from waterclock.storage.manifest import DataFile, Manifest, is_sealed, read_manifest
    from waterclock.storage.merge import merge_slice, restate_slice
    from waterclock.storage.read import FILES_READ_DIRECTLY, frame_at, frame_of_slices, frame_of_version, table_schema
    from waterclock.storage.resolving import NO_VERSION, CommitRecord, Resolved, Step, resolve
    from waterclock.storage.rewrite import commit_by_spark
    from waterclock.storage.schema import Conformed, conform, row_error
    from waterclock.storage.stage import Written, write_slices
    from waterclock.storage.timelines import lacking_sql, raw_known, require_fit, require_instant, table_schema_of
    from waterclock.storage.touching import place_slice
    from waterclock.storage.types import check_files, spark_columns
    from waterclock.storage.undone import is_undone

_MODULES = {
    "change": ("NeedsSpark",),
    "commit": ("commit_nothing", "commit_older", "commit_slices", "kill"),
    "confs": ("SESSION_CONFS",),
    "creation": ("create_table", "require_owner"),
    "digest": ("digest_columns", "digest_of_row", "digests", "row_hash"),
    "empty": ("brought_schema", "empty_schema", "state_schema"),
    "folding": ("fold", "with_all_columns"),
    "history": ("frame_of_resolved", "state_of"),
    "identity": ("Identity", "Killed"),
    "keys": ("duplicate_keys",),
    "lake": ("Lake", "require_latch"),
    "link": ("link_slice",),
    "live": ("is_readable", "live_bytes"),
    "log": (
        "ForeignCommit",
        "Outcome",
        "foreign_commits",
        "head",
        "is_older_than",
        "is_unfinished",
        "outcome",
        "records_in_log",
        "table_exists",
    ),
    "manifest": ("DataFile", "Manifest", "is_sealed", "read_manifest"),
    "merge": ("merge_slice", "restate_slice"),
    "read": ("FILES_READ_DIRECTLY", "frame_at", "frame_of_slices", "frame_of_version", "table_schema"),
    "resolving": ("NO_VERSION", "CommitRecord", "Resolved", "Step", "resolve"),
    "rewrite": ("commit_by_spark",),
    "schema": ("Conformed", "conform", "row_error"),
    "stage": ("Written", "write_slices"),
    "types": ("check_files", "spark_columns"),
    "timelines": ("lacking_sql", "raw_known", "require_fit", "require_instant", "table_schema_of"),
    "touching": ("place_slice",),
    "undone": ("is_undone",),
    "counting": ("version_counts",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "FILES_READ_DIRECTLY",
    "NO_VERSION",
    "SESSION_CONFS",
    "CommitRecord",
    "Conformed",
    "DataFile",
    "ForeignCommit",
    "Identity",
    "Killed",
    "Lake",
    "Manifest",
    "NeedsSpark",
    "Outcome",
    "Resolved",
    "Step",
    "Written",
    "brought_schema",
    "check_files",
    "commit_by_spark",
    "commit_nothing",
    "commit_older",
    "commit_slices",
    "conform",
    "create_table",
    "digest_columns",
    "digest_of_row",
    "digests",
    "duplicate_keys",
    "empty_schema",
    "fold",
    "foreign_commits",
    "frame_at",
    "frame_of_resolved",
    "frame_of_slices",
    "frame_of_version",
    "head",
    "is_older_than",
    "is_readable",
    "is_sealed",
    "is_undone",
    "is_unfinished",
    "kill",
    "lacking_sql",
    "link_slice",
    "live_bytes",
    "merge_slice",
    "outcome",
    "place_slice",
    "raw_known",
    "read_manifest",
    "records_in_log",
    "require_fit",
    "require_instant",
    "require_latch",
    "require_owner",
    "resolve",
    "restate_slice",
    "row_error",
    "row_hash",
    "spark_columns",
    "state_of",
    "state_schema",
    "table_exists",
    "table_schema",
    "table_schema_of",
    "version_counts",
    "with_all_columns",
    "write_slices",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
