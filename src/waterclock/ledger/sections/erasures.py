"""The section of the ledger for erasures of persons."""

from __future__ import annotations

from waterclock.ledger.read import erasures as known_erasures
from waterclock.ledger.sections.section import DatabaseMethod, Section
from waterclock.ledger.write import erased_texts, erasures


class ErasureSection(Section):
    """Records erasures of persons, and their steps."""

    begin = DatabaseMethod(erasures.begin_erasure)
    restore = DatabaseMethod(erasures.restore_erasures)
    record_step = DatabaseMethod(erasures.record_step)
    record_table = DatabaseMethod(erasures.record_erased_table)
    redact_texts = DatabaseMethod(erased_texts.redact_texts)
    finish = DatabaseMethod(erasures.finish_erasure)
    list = DatabaseMethod(known_erasures.list_erasures)
