"""`waterclock reset` starts a table over. No Spark."""

from __future__ import annotations

import json

from tests.unit.cli.conftest import Shop


def test_reset_reports_lost_labels_and_readers_before_confirmation_and_works_only_once(busy_shop: Shop) -> None:
    asked = busy_shop.ask("reset", "web.visits")
    assert asked.exit_code == 1
    assert "E902" in asked.output
    assert "web.visits no longer contains 3 labels" in asked.output
    assert "rows that its source no longer has are not collected again; files in archive/ are" in asked.output
    assert "read by" in asked.output
    assert busy_shop.ask("reset", "web.visits@20130117").exit_code == 2
    said = busy_shop.ask("reset", "web.visits", "--yes", "--why", "another source", "--json")
    assert said.exit_code == 0, said.output
    told = json.loads(said.stdout)
    assert (told["table"], told["labels"], told["why"]) == ("web.visits", 3, "another source")
    [event] = [each for each in busy_shop.ledger.past.rows("events") if each["kind"] == "reset"]
    assert event["table"] == "web.visits"
    again = busy_shop.ask("reset", "web.visits", "--yes")
    assert "web.visits has no batches: there is nothing to reset" in again.output


def test_a_declaration_that_was_refused_is_followed_then(busy_shop: Shop) -> None:
    collect = busy_shop.folder / "flows" / "1_collect.dpl"
    collect.write_text(collect.read_text().replace("EVERY DAY", "EVERY HOUR"))
    found = busy_shop.ask("reset", "web.visits", "--yes")
    assert found.exit_code == 0, found.output
    assert "cadence: DAY → HOUR" in found.output
    assert "web.visits has changed, and its batches" not in busy_shop.ask("check").output
