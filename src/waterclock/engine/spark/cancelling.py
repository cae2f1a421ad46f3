"""Cancels the jobs of one query: by a tag that they carry, or all of a session at a Spark Connect server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.engine.spark.connect import is_remote
from waterclock.engine.spark.session import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def mark_jobs(session: SparkSession, tag: str) -> None:
    """Have all jobs that this thread starts from now on carry a tag; their tasks are interrupted when cancelled."""
    if is_remote(session):
        return
    session.sparkContext.setInterruptOnCancel(True)
    session.sparkContext.addJobTag(tag)


def cancel_jobs(sessions: Sessions, tag: str) -> None:
    """Cancel what runs by a tag now; at a server, all that runs in the sessions of batches and queries."""
    try:
        for session in sessions.opened():
            if is_remote(session):
                session.interruptAll()
            else:
                session.sparkContext.cancelJobsWithTag(tag)
                return
    except Exception:  # noqa: BLE001 - a JVM or a server that is gone has nothing left to cancel
        return
