"""`revert` shows labels, revisions and consequences before it asks. A ledger written directly, no Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Runs, Shop, day
from tests.unit.engine.fakes import manifest
from waterclock.batches.earlier_revisions import EarlierRevision
from waterclock.cli.actions import revert
from waterclock.engine.run_listener import GroupReport
from waterclock.planner.plan import Group
from waterclock.storage.lake import Lake
from waterclock.storage.slices.manifest import seal

NAME, WHICH, READER = "shop.orders", "shop.orders@2024-11-18", "sales.by_country"
NOW = ("--now", "2024-11-20T08:00")


def made(shop: Shop, name: str = NAME, number: int = 18) -> tuple[EarlierRevision, ...]:
    return shop.ledger.reads.earlier_revisions(name, [day(number)])[day(number)]


def seal_revisions(shop: Shop, name: str = NAME, number: int = 18) -> None:
    """Write manifests for the slices of a label's revisions, which the ledger's records refer to."""
    folder = Lake(shop.project.storage).folder(name)
    for each in made(shop, name, number):
        if not Path(folder, each.slice_path, "_manifest.json").exists():
            Path(folder, each.slice_path).mkdir(parents=True, exist_ok=True)
            seal(folder, replace(manifest(name, 1), label=day(number), slice_path=each.slice_path, claim=each.claim))


@pytest.fixture
def restated(busy_shop: Shop) -> Shop:
    """Return a shop whose orders of the 18th were made again with other rows, and then their reader."""
    busy_shop.done(NAME, 18, rows=11)
    busy_shop.done(READER, 18, rows=7)
    seal_revisions(busy_shop)
    return busy_shop


def test_revert_shows_revisions_and_dependent_batches_before_confirmation(restated: Shop) -> None:
    old, current = made(restated)
    found = restated.ask("revert", WHICH, "--to", str(old.claim), "--because", "it was right", *NOW, width=200)
    assert found.exit_code == 1
    lines = [" ".join(line.split()) for line in found.stdout.splitlines()]
    assert lines[0] == "revert: 1 label of shop.orders"
    assert lines[1].startswith(f"2024-11-18 revision {current.claim} to {old.claim} made ")
    assert lines[1].endswith("11 to 10 rows")
    assert "then 1 batch" in lines
    assert "sales.by_country 1 label 2024-11-18 take earlier revisions back" in lines
    assert "Revert 1 label of shop.orders (2024-11-18)?" in found.stderr
    assert made(restated)[1].is_current


def test_a_dry_run_answers_scripts_and_needs_no_reason(restated: Shop) -> None:
    old, current = made(restated)
    answer = restated.json("revert", WHICH, "--to", str(old.claim), "--dry-run", *NOW)
    assert answer == {
        "table": NAME,
        "dry_run": True,
        "reverted": [
            {"label": "20241118000000", "revision": old.claim, "replaced": current.claim, "rows": 10,
             "replaced_rows": 11}
        ],
        "others": {},
        "unchanged": [],
        "without": [],
        "adopted": {READER: ["20241118000000"]},
        "computed": {},
        "notes": [],
        "why": "",
    }  # fmt: skip
    answer = restated.json("revert", WHICH, "--to", str(current.claim), "--dry-run", *NOW)
    assert (answer["reverted"], answer["unchanged"]) == ([], ["20241118000000"])
    assert "nothing to revert: 1 label of shop.orders have" in restated.ask(
        "revert", WHICH, "--to", str(current.claim), "--because", "it was right", *NOW
    ).stdout  # fmt: skip


def test_known_at_selects_the_revision_that_was_current_by_the_real_clock(restated: Shop) -> None:
    old, current = made(restated)
    at = f"{old.recorded_at:%Y-%m-%dT%H:%M:%S.%fZ}"
    answer = restated.json("revert", WHICH, "--known-at", at, "--dry-run", *NOW)
    assert [each["revision"] for each in answer["reverted"]] == [old.claim]
    answer = restated.json(
        "revert", WHICH, "--known-at", f"{current.recorded_at:%Y-%m-%dT%H:%M:%S.%fZ}", "--dry-run", *NOW
    )
    assert answer["unchanged"] == ["20241118000000"]
    refused = restated.ask("revert", WHICH, "--known-at", "2001-01-01", "--dry-run", *NOW)
    assert "E516 no label of shop.orders@2024-11-18 was made by 2001-01-01" in refused.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("shop.orders", "--to", "1"), "E513 a revert of shop.orders needs its labels"),
        ((WHICH, "--to", "1"), "E516 claim 1 is not a revision of shop.orders@2024-11-18"),
        ((WHICH,), "give either --to or --known-at"),
        ((WHICH, "--to", "1", "--known-at", "2024-11-18"), "give either --to or --known-at"),
    ],
)
def test_an_incomplete_request_is_refused(restated: Shop, words: tuple[str, ...], says: str) -> None:
    found = restated.ask("revert", *words, "--because", "it was right", *NOW, width=200)
    assert found.exit_code != 0
    assert says in found.stderr


def test_a_revert_needs_a_reason(restated: Shop) -> None:
    found = restated.ask("revert", WHICH, "--to", str(made(restated)[0].claim), "--yes", *NOW)
    assert "E903 a reason is needed" in found.stderr
    assert made(restated)[1].is_current


def test_reverting_to_a_revision_with_a_missing_slice_is_refused_with_those_retained(restated: Shop) -> None:
    restated.done(NAME, 18, rows=12)
    seal_revisions(restated)
    old, other, _ = made(restated)
    Path(Lake(restated.project.storage).folder(NAME), old.slice_path, "_manifest.json").unlink()
    found = restated.ask("revert", WHICH, "--to", str(old.claim), "--dry-run", *NOW, width=400)
    said = " ".join(found.stderr.split())
    assert "E759 shop.orders@20241118000000 cannot be reverted" in said
    assert f"the slice of revision {old.claim} is gone" in said
    assert str(other.claim) in said


def test_labels_of_older_code_and_with_a_lookback_are_named_before_they_are_reverted(restated: Shop) -> None:
    flow = restated.folder / "flows" / "1_collect.dpl"
    text = flow.read_text(encoding="utf-8")
    flow.write_text(
        text.replace("BY DATA TIME ordered_at\n", "BY DATA TIME ordered_at LOOKBACK 3 DAYS\n"), encoding="utf-8"
    )
    answer = restated.json("revert", WHICH, "--to", str(made(restated)[0].claim), "--dry-run", *NOW)
    assert [note.split(":")[0] for note in answer["notes"]] == [
        "1 of 1 revisions were made by older code",
        "LOOKBACK 3 DAYS of shop.orders reads recent windows again",
    ]


def test_a_confirmed_revert_commits_each_claim_and_then_runs_dependent_batches(
    restated: Shop, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[tuple[Any, ...]] = []

    def run_group(work: object, group: Group, now: object) -> GroupReport:
        del work, now
        groups.append(tuple((each.label, each.verb, each.reason, each.reverts) for each in group.batches))
        return GroupReport(group, 1)

    monkeypatch.setattr(revert, "run_group", run_group)
    monkeypatch.setattr(revert, "run_and_report", runs)
    old, current = made(restated)
    words = ("revert", WHICH, "--to", str(old.claim), "--because", "it was right", "--yes", *NOW)
    found = restated.ask(*words)
    assert found.exit_code == 0
    assert "reverted: 1 label of shop.orders (2024-11-18): it was right" in found.stdout
    [[(label, verb, why, target)]] = groups
    assert (label, verb, why) == (day(18), "revert", "it was right")
    assert (target.to, target.since) == (old.claim, current.claim)
    [asked] = runs.asked
    assert (asked.command, asked.only) == ("revert", ("sales.by_country",))
    answer = restated.json(*words, "--no-run")
    assert answer["reverted"][0]["revision"] == old.claim
    assert len(runs.asked) == 1


def test_a_reader_that_never_used_the_revision_is_recomputed_and_a_current_reader_is_not(restated: Shop) -> None:
    restated.done(NAME, 18, rows=12)
    seal_revisions(restated)
    answer = restated.json("revert", WHICH, "--to", "previous", "--dry-run", *NOW)
    assert (answer["adopted"], answer["computed"]) == ({}, {})  # its readers have not been made again since
    restated.done(NAME, 18, rows=13)
    restated.done(READER, 18, rows=8)
    seal_revisions(restated)
    _, _, unread, _ = made(restated)
    answer = restated.json("revert", WHICH, "--to", str(unread.claim), "--dry-run", *NOW)
    assert (answer["adopted"], answer["computed"]) == ({}, {READER: ["20241118000000"]})
    said = restated.ask("revert", WHICH, "--to", str(unread.claim), "--dry-run", *NOW, width=200).stdout
    assert "sales.by_country 1 label 2024-11-18 computed, if rows differ" in " ".join(said.split())


def test_labels_without_the_revision_stay_as_they_are(restated: Shop) -> None:
    answer = restated.json("revert", "shop.orders@2024-11-17..2024-11-18", "--to", "previous", "--dry-run", *NOW)
    assert (len(answer["reverted"]), answer["without"]) == (1, ["20241117000000"])
    refused = restated.ask("revert", "shop.orders@2024-11-17", "--to", "previous", "--dry-run", *NOW)
    assert "E516 no label of shop.orders@2024-11-17 has an earlier revision" in refused.stderr
    assert "neither a claim nor previous" in restated.ask("revert", WHICH, "--to", "last", *NOW).stderr
