"""The page of rules: each rule with its results in the newest batches and its notes, and suggested rules."""

from __future__ import annotations

from dataclasses import asdict

from waterclock.batches.audit_records import RuleNote
from waterclock.operations.display_states import State
from waterclock.operations.formatting import page_time, short_label
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.rule_results import LabelResult, RuleResults, rule_results, store_rule_note
from waterclock.operations.suggested_rules import has_rules, suggested_rules
from waterclock.permissions.users_and_roles import Person
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import Content, PageQuery, batch_address, table_address

NEWEST = 60


def quality(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the rules of the selected tables, broken ones first, and suggestions for tables that declare none.

    Cost: one ledger query, two more for each table with rules, and one for each of up to 20 tables without rules.
    """
    tables, _ = parameters.tables(at)
    found = rule_results(at, tables, NEWEST)
    broken = [rule for rule in found if rule.is_broken]
    return {
        "tabs": tabs("Rules", parameters),
        "rules": [rule_content(at, rule) for rule in found],
        "newest": NEWEST,
        "broken": len(broken),
        "newly_broken": [_rule_link(rule) for rule in broken if rule.is_newly_broken],
        "newly_mended": [_rule_link(rule) for rule in found if rule.was_broken and not rule.is_broken],
        "tables": len(tables),
        "without_rules": sum(not has_rules(table) for table in tables),
        "suggested": [asdict(each) for each in suggested_rules(at, tables, NEWEST)],
    }


def tabs(here: str, parameters: PageQuery) -> list[Content]:
    """Return the tabs of the quality pages, of which `here` is the current one."""
    every = (("Rules", "/quality"), ("Lag", "/lag"), ("Personal data", "/pii"))
    return [
        {"name": name, "address": f"{address}{parameters.query_string}", "is_here": name == here}
        for name, address in every
    ]


def store_note(at: OpenedProject, parameters: PageQuery, by: Person) -> None:
    """Store the note in a form, or remove it if its text is empty. Raises the errors of `store_rule_note`."""
    table, rule = (
        parameters.values.get(name, "") for name in ("table", "rule")
    )  # as they are declared, with their spaces
    text = " ".join(parameters.values.get("text", "").split())
    store_rule_note(at, table, rule, text[:2000], by)


def note_content(note: RuleNote, zone: str) -> Content:
    """Return a note on a rule, with its author and time."""
    return {"rule": note.rule, "text": note.text, "who": note.who, "at": page_time(note.at, zone)}


def _rule_link(rule: RuleResults) -> Content:
    return {"table": rule.table, "rule": rule.rule, "address": table_address(rule.table, "quality")}


def rule_content(at: OpenedProject, rule: RuleResults) -> Content:
    """Return a rule with its results in the newest batches, and how many batches have each result."""
    states = [answer.state for answer in rule.answers]
    cadence = at.flow.tables[rule.table].cadence
    last = next((answer for answer in reversed(rule.answers) if answer.message), None)
    return {
        "table": rule.table,
        "rule": rule.rule,
        "expression": rule.expression,
        "else": rule.action,
        "state": str(rule.answers[-1].state) if rule.answers else str(State.DUE),
        "since": "" if rule.since is None else short_label(rule.since, cadence, at.now),
        "message": "" if last is None else last.message,
        "message_at": "" if last is None else short_label(last.label, cadence, at.now),
        "message_address": "" if last is None else batch_address(rule.table, label_of(last.label)),
        "pieces": _join_results(rule.answers),
        "counts": {
            "kept": states.count(State.OK),
            "warned": states.count(State.WARNED),
            "refused": states.count(State.FAILED),
        },
        "address": table_address(rule.table, "quality"),
        "note": None if rule.note is None else note_content(rule.note, cadence.zone),
    }


def _join_results(answers: tuple[LabelResult, ...]) -> list[Content]:
    """Join adjacent batches with the same result into pieces of a strip."""
    pieces: list[Content] = []
    for column, answer in enumerate(answers, NEWEST - len(answers)):
        if pieces and pieces[-1]["state"] == str(answer.state):
            pieces[-1]["columns"] += 1
        else:
            pieces.append({"column": column, "columns": 1, "state": str(answer.state)})
    return pieces
