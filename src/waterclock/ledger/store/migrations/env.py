"""Alembic's entry point: runs revisions on the connection, and in the transaction, passed to `migrate`."""

from __future__ import annotations

from alembic import context

from waterclock.ledger.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
