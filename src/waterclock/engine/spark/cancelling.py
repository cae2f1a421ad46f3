"""Cancels the jobs of one query: by their tag, or all jobs of a session at a Spark Connect server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.engine.spark.connect import is_remote
from waterclock.engine.spark.session import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def mark_jobs(session: SparkSession, tag: str) -> None:
    """Tag all jobs that this thread starts from now on.

    If the jobs are cancelled, the threads of their tasks are interrupted.
    """
    if is_remote(session):
        return
    session.sparkContext.setInterruptOnCancel(True)
    session.sparkContext.addJobTag(tag)


def cancel_jobs(sessions: Sessions, tag: str) -> None:
    """Cancel the running jobs with a tag. At a Spark Connect server, cancel all jobs of all open sessions."""
    try:
        for session in sessions.open_sessions():
            if is_remote(session):
                session.interruptAll()
            else:
                session.sparkContext.cancelJobsWithTag(tag)
                return
    except Exception:  # noqa: BLE001 - a JVM or a server that is gone has nothing left to cancel
        return
