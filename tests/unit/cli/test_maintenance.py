from __future__ import annotations

import sqlite3
from contextlib import closing

from tests.unit.cli.conftest import Shop


def test_an_export_reports_its_file_and_the_preceding_export(busy_shop: Shop) -> None:
    first = busy_shop.json("ledger", "export")
    assert (first["what"], first["follows"]) == ("export", None)
    assert (busy_shop.folder / ".waterclock" / "ledger" / first["export"]).is_file()
    assert "no changes since the newest export" in busy_shop.ask("ledger", "export").stdout


def test_a_ledger_that_is_there_is_not_rebuilt(busy_shop: Shop) -> None:
    refused = busy_shop.ask("ledger", "rebuild")
    assert refused.exit_code == 1
    assert "E417" in refused.output


def test_a_rebuilt_ledger_shows_the_same_status_and_plan_as_the_lost_one(busy_shop: Shop) -> None:
    busy_shop.json("ledger", "export")
    before = busy_shop.json("status"), busy_shop.json("plan")
    found = busy_shop.json("ledger", "rebuild", "--force")
    assert found["aside"]
    assert (busy_shop.json("status"), busy_shop.json("plan")) == before


def test_a_ledger_of_a_development_version_is_made_again_from_its_export(busy_shop: Shop) -> None:
    busy_shop.json("ledger", "export")
    before = busy_shop.json("status")
    with closing(sqlite3.connect(busy_shop.ledger_file)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '0012'")
    refused = busy_shop.ask("status")
    assert refused.exit_code == 1
    assert "E402" in refused.output
    assert "waterclock ledger rebuild --force" in " ".join(refused.output.split())
    assert busy_shop.json("ledger", "rebuild", "--force")["aside"]
    assert busy_shop.json("status") == before


def test_without_a_ledger_there_is_nothing_to_export_and_nothing_to_tidy(shop: Shop) -> None:
    shop.ledger.close()
    for path in (shop.folder / ".waterclock").glob("ledger.db*"):
        path.unlink()
    assert "E419" in shop.ask("ledger", "export").output
    assert "nothing to clean up" in shop.ask("maintain").stdout
    assert shop.json("maintain", "--dry-run")["tables"] == []


def test_maintain_exports_the_ledger_first(busy_shop: Shop) -> None:
    assert busy_shop.json("maintain", "--dry-run")["export"] is None
    assert busy_shop.json("maintain")["export"]


def test_a_rebuild_requires_confirmation(busy_shop: Shop) -> None:
    refused = busy_shop.ask("rebuild", "shop.orders")
    assert refused.exit_code == 1
    assert "shop.orders: unchanged declaration" in refused.output
    assert "E902" in refused.output


def test_a_rebuild_of_all_shows_its_cost_and_requires_confirmation(busy_shop: Shop) -> None:
    refused = busy_shop.ask("rebuild", "--all")
    assert refused.exit_code == 1
    assert "estimate:" in refused.output
    assert "E902" in refused.output
    assert busy_shop.ledger.maintenance.current_rebuilding() is None


def test_a_rebuild_of_all_with_no_batches_reports_nothing_to_rebuild(shop: Shop) -> None:
    assert "nothing to rebuild" in shop.ask("rebuild", "--all", "--yes").stdout


def test_a_rebuild_is_of_some_tables_or_of_all(busy_shop: Shop) -> None:
    assert busy_shop.ask("rebuild").exit_code == 2
    assert busy_shop.ask("rebuild", "shop.orders", "--all").exit_code == 2


def test_during_a_rebuild_of_all_plan_reports_it_and_other_rebuilds_are_refused(busy_shop: Shop) -> None:
    busy_shop.ledger.maintenance.begin_rebuilding("t", runner="host:1:x", who="ann", lease_seconds=600)
    assert "`rebuild --all` rebuilds every table" in " ".join(busy_shop.ask("plan").output.split())
    for asked in (("rebuild", "--all", "--yes"), ("rebuild", "shop.orders", "--yes")):
        refused = busy_shop.ask(*asked)
        assert refused.exit_code == 1
        assert "E644" in refused.output
