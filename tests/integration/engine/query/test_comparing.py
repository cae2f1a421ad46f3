"""Tables are compared with another environment and with earlier revisions: only restated rows differ."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.json_answers import check_answer
from tests.tiny import Tiny, day, described
from waterclock.cli.views.diff import print_comparison
from waterclock.cli.views.theme import make_console
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project
from waterclock.engine.query.table_comparison import ComparisonOptions
from waterclock.engine.spark.session import Sessions
from waterclock.errors import WaterclockError
from waterclock.operations.comparing import ComparedTable, Comparison, ComparisonRequest, compare_tables
from waterclock.operations.comparison_report import comparison_answer
from waterclock.permissions.users_and_roles import SignIn

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ENVS = """
[project]
name = "{name}"
env = "dev"
[defaults]
start = "2020-01-01"
[roles]
analyst = ["look", "query"]
other = ["look", "query"]
[users.anna]
roles = ["analyst"]
[users.ben]
roles = ["other"]
[env.dev]
storage = "{storage}"
connections.shop = {{ path = "shop.sqlite" }}
connections.out = {{ path = "out.sqlite", create = true }}
connections.land = {{ path = "landing/new" }}
connections.files = {{ path = "files" }}
[env.prod]
storage = ".prod"
connections.shop = {{ path = "shop.sqlite" }}
connections.out = {{ path = "out.sqlite", create = true }}
connections.land = {{ path = "landing/new" }}
connections.files = {{ path = "files" }}
"""
SALES = """COLLECT shop.sales PARTITIONED (id BIGINT KEY, amount DOUBLE, at TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME at EXPECT amount >= 0 AS positive ELSE QUARANTINE
  MEASURE sum(amount) AS total;
"""
CHECKED = """COLLECT shop.checked PARTITIONED (id BIGINT KEY, amount DOUBLE, at TIMESTAMP)
  FROM shop.sales EVERY DAY BY DATA TIME at EXPECT amount < 100 AS small ELSE HOLD;
"""
NAMES = ("sales", "typed", "bag")
GRANT = "\nGRANT SELECT (id, amount AS (round(amount)), timelabel) ON shop.daily TO (analyst) WHERE id < 3;\n"
DAILY = (
    "TRANSFORM shop.daily PARTITIONED (id KEY, *) AS SELECT id, {amount} AS amount, '{by}' AS made_by FROM shop.sales;"
)
DAILY_BEFORE = DAILY.format(amount="amount", by="a")
DAILY_AFTER = DAILY.format(amount="CASE WHEN id IN (2, 3) THEN amount + id ELSE amount END", by="b")
TYPED_BEFORE = """
TRANSFORM shop.typed PARTITIONED (id KEY, *) AS SELECT id, amount, map('x', -0.0D, 'y', id) AS parts FROM shop.sales;
TRANSFORM shop.bag PARTITIONED AS SELECT amount > 5 AS is_large FROM shop.sales;
"""
TYPED_AFTER = """
TRANSFORM shop.typed PARTITIONED (id KEY, *)
  AS SELECT id, CAST(amount AS STRING) AS amount, map('y', id, 'x', 0.0D) AS parts, 1 AS more FROM shop.sales;
TRANSFORM shop.bag PARTITIONED AS SELECT amount > 5 AS is_large FROM shop.sales WHERE id != 3;
"""
COLUMNS = "id INTEGER, amount REAL, at TEXT"
ROWS = [(1, 10.0, "2020-01-01 10:00:00"), (2, 7.0, "2020-01-02 10:00:00"), (3, 8.0, "2020-01-02 11:00:00"),
        (4, 5.0, "2020-01-03 10:00:00")]  # fmt: skip


@dataclass
class Environments(Tiny):
    """A project with two environments, one of them loaded."""

    toml: str | None = ENVS
    env: str = field(default="dev")

    def load(self) -> Project:
        return load_project(self.root, env=self.env, capabilities=capabilities())

    def make(self, env: str, flow: str, now: datetime) -> None:
        self.env = env
        self.declare(SALES + flow)
        outcome = self.run(now)
        assert not outcome.failed, described(outcome)

    def compare(self, *tables: str, **request: Any) -> Comparison:
        """Compare tables, and check that the result can be printed."""
        project = self.load()
        asked = ComparisonRequest(tables, **request)
        found = compare_tables(project, asked, Sessions.from_session(self.spark))
        answer = json.loads(json.dumps({"version": 1, **comparison_answer(found).to_json()}))
        check_answer("diff", answer | {"version": comparison_answer(found).version})
        return found

    def other(self, env: str) -> Project:
        return load_project(self.root, env=env, capabilities=capabilities())


def shown(found: Comparison, tiny: Environments) -> str:
    stream = io.StringIO()
    print_comparison(make_console(stream, width=150), found, tiny.load().flow)
    return stream.getvalue()


def only(found: Comparison) -> Any:
    [table] = found.tables
    assert isinstance(table, ComparedTable)
    return table.found


def files_with_times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*")) if path.is_file()}


def test_changed_code_is_compared_with_another_environment(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Environments(tmp_path, spark)
    tiny.source("sales", COLUMNS, ROWS)
    tiny.make("prod", DAILY_BEFORE, day(4))
    tiny.make("dev", DAILY_AFTER, day(3))
    prod, there = tiny.other("prod"), files_with_times(tmp_path / ".prod")

    sales = only(tiny.compare("shop.sales", against=prod))
    assert (sales.equal, sales.read, [(each.before, each.after) for each in sales.labels]) == (2, 0, [(1, None)])

    daily = only(tiny.compare("shop.daily", against=prod, options=ComparisonOptions(ignored=("made_by",))))
    assert (daily.key, daily.equal, daily.read, len(daily.differing)) == (("id",), 1, 2, 2)
    assert (daily.counts.changed, daily.counts.added, daily.counts.removed) == (2, 0, 0)
    [amount] = daily.columns
    assert (amount.column, amount.rows, amount.largest.key, amount.largest.before, amount.largest.after) == (
        "amount", 2, (3,), 8.0, 11.0,
    )  # fmt: skip
    assert [(row.kind, row.before["amount"], row.after["amount"]) for row in daily.sample] == [
        ("changed", 8.0, 11.0), ("changed", 7.0, 9.0),
    ]  # fmt: skip
    close = ComparisonOptions(ignored=("made_by",), tolerance=2.5)
    assert only(tiny.compare("shop.daily", against=prod, options=close)).counts.changed == 1
    with pytest.raises(WaterclockError, match="has no column made_by_me") as refused:
        tiny.compare("shop.daily", against=prod, options=ComparisonOptions(ignored=("made_by_me",)))
    assert refused.value.code == "E517"
    assert files_with_times(tmp_path / ".prod") == there


def test_other_types_columns_and_rows_without_a_key_are_compared(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Environments(tmp_path, spark)
    tiny.source("sales", COLUMNS, ROWS)
    tiny.make("prod", TYPED_BEFORE, day(3))
    tiny.make("dev", TYPED_AFTER, day(3))
    found = tiny.compare(against=tiny.other("prod"))
    sales, typed, bag = (next(each.found for each in found.tables if each.name == f"shop.{name}") for name in NAMES)
    assert sales is not None
    assert typed is not None
    assert bag is not None
    assert (sales.equal, sales.differing) == (2, ())
    assert {(each.column, each.before, each.after, each.labels) for each in typed.types} == {
        ("amount", "double", "string", 2), ("more", None, "int", 2),
    }  # fmt: skip
    assert (typed.unlike, typed.counts.differing, len(typed.differing)) == (("amount",), 0, 2)
    assert (bag.key, bag.equal, bag.counts.removed, bag.counts.added) == ((), 1, 1, 0)
    assert [(row.kind, row.times, row.before, row.after) for row in bag.sample] == [
        ("removed", 1, {"is_large": True}, None)
    ]
    text = shown(found, tiny)
    assert "2 tables of 3 differ. Before: in prod. After: in dev." in text
    assert "values with types too different to compare: amount" in text


def test_a_comparison_shows_a_person_only_granted_rows_and_columns(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Environments(tmp_path, spark)
    tiny.source("sales", COLUMNS, ROWS)
    tiny.make("prod", DAILY_BEFORE, day(4))
    tiny.make("dev", DAILY_AFTER + GRANT, day(3))
    anna = tiny.load().access.person("anna", SignIn.COMMAND)
    assert anna is not None
    prod = tiny.other("prod")
    seen = only(tiny.compare("shop.daily", against=prod, persons=(anna, anna)))
    assert [(each.label, each.before, each.after, each.counts.changed) for each in seen.labels] == [(day(2), 1, 1, 1)]
    assert (seen.equal, [row.after for row in seen.sample]) == (1, [{"id": 2, "amount": 9.0}])
    tiny.declare(SALES + DAILY_AFTER + GRANT.replace(", timelabel", ""))
    with pytest.raises(WaterclockError, match=r"the labels of shop\.daily are not granted to anna"):
        tiny.compare("shop.daily", against=tiny.other("prod"), persons=(anna, anna))
    tiny.declare(SALES + DAILY_AFTER + GRANT.replace("analyst", "other"))
    with pytest.raises(WaterclockError, match=r"there is no table shop\.daily"):
        tiny.compare("shop.daily", against=tiny.other("prod"), persons=(anna, anna))


def test_a_restated_label_is_compared_with_its_revision_before(tmp_path: Path, spark: SparkSession) -> None:
    tiny = Environments(tmp_path, spark)
    tiny.source("sales", COLUMNS, ROWS)
    tiny.make("dev", CHECKED, day(4))
    with tiny.ledger() as ledger:
        first = ledger.now()
        for name in ("shop.sales", "shop.checked"):
            ledger.decisions.request_restate(name, [day(1), day(2), day(3)], "recollect", who="ann")
    changed = [(1, 10.0, ROWS[0][2]), (9, -1.0, ROWS[0][2]), (2, 7.5, ROWS[1][2]), (4, 500.0, ROWS[3][2])]
    tiny.source("sales", COLUMNS, changed)
    tiny.run(day(4))

    found = only(tiny.compare("shop.sales"))
    assert (found.equal, found.read, len(found.differing)) == (1, 2, 2)
    assert found.labels[0].measures == {"quarantined rows": ("0", "1")}
    assert found.labels[1].measures["total"] == ("15.0", "7.5")
    assert (found.counts.changed, found.counts.removed, found.counts.added) == (2, 1, 0)
    assert only(tiny.compare("shop.sales", as_known=first.isoformat())).labels == found.labels

    [held] = tiny.compare("shop.checked@2020-01-03").tables
    assert (held.held, held.single, held.found) == ((day(3),), 1, held.found)
    text = shown(tiny.compare("shop.sales"), tiny)
    assert "1 label equal; 2 labels differ; rows: 2 changed, 1 removed" in text

    with tiny.opened() as work:
        olds = [each for each in work.ledger.reads.revisions("shop.sales", day(2), day(3)) if not each.is_current]
        shutil.rmtree(Path(work.lake.folder("shop.sales")) / olds[0].slice_path)
    with pytest.raises(WaterclockError, match="the rows of a label in the previous revision are gone") as gone:
        tiny.compare("shop.sales@2020-01-02..2020-01-03")
    assert (gone.value.code, gone.value.where) == ("E640", "shop.sales@20200102000000")
    assert only(tiny.compare("shop.sales@2020-01-03")).counts.changed == 1
