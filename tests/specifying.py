"""A small shop with specified rules: its project, and checks of a specification without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

from tests.tiny import CONNECTIONS, TOML
from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import Project, load_project
from waterclock.errors import WaterclockError
from waterclock.flow.enums import Kind
from waterclock.specs.document import Feature
from waterclock.specs.feature_files import read_feature
from waterclock.specs.schemas import Extras, Schema
from waterclock.specs.script import Script
from waterclock.specs.spec_runner import sort_distinct_errors
from waterclock.specs.step_resolution import script_of
from waterclock.specs.typed_rows import TypedScript, convert_rows

FLOW = """
COLLECT raw.orders PARTITIONED (id BIGINT KEY, customer INT, amount DECIMAL(10,2) EXPECT (amount >= 0) AS not_negative,
    ordered_at TIMESTAMP, *)
  FROM land.acme.orders EVERY DAY BY ARRIVAL TIME;
COLLECT raw.clicks PARTITIONED (page, n INT) FROM land.acme.clicks EVERY HOUR BY ARRIVAL TIME;
COLLECT raw.customers (customer INT KEY, country NOT NULL, since DATE, tags ARRAY<STRING>)
  FROM shop.customers EVERY DAY;
COLLECT raw.prices (item KEY, price DOUBLE, changed_at TIMESTAMP, gone BOOLEAN)
  FROM shop.prices EVERY DAY BY DATA TIME changed_at MERGE ORDER BY changed_at DELETE WHEN gone;

CREATE VIEW clean.paid AS SELECT * FROM raw.orders WHERE amount > 0;
TRANSFORM marts.sales PARTITIONED (country KEY, *)
  EXPECT count(*) > 0 AS somebody_bought, revenue < 1000 AS usual ELSE WARN
AS SELECT c.country, count(*) AS orders, sum(o.amount) AS revenue
FROM clean.paid o JOIN raw.customers c USING (customer) WHERE coalesce(o.channel, 'web') = 'web' GROUP BY c.country;
TRANSFORM marts.total (orders BIGINT, revenue DECIMAL(20,2))
AS SELECT sum(orders) AS orders, sum(revenue) AS revenue
   FROM (SELECT orders, revenue FROM PREVIOUS(marts.total) UNION ALL SELECT orders, revenue FROM marts.sales);
TRANSFORM marts.pages PARTITIONED EVERY DAY AS SELECT page, sum(n) AS n FROM raw.clicks GROUP BY page;
TRANSFORM marts.growth PARTITIONED
AS SELECT s.country, s.orders - coalesce(p.orders, 0) AS more
   FROM marts.sales s LEFT JOIN PREVIOUS(marts.sales) p ON p.country = s.country;
PUBLISH marts.sales TO out.sales;
TRANSFORM marts.now PARTITIONED
AS SELECT c.country, count(*) AS orders FROM raw.orders o JOIN LATEST(raw.customers) c USING (customer) GROUP BY ALL;
TRANSFORM marts.three PARTITIONED AS SELECT sum(amount) AS amount FROM PAST(raw.orders, '3 days');
TRANSFORM marts.weeks PARTITIONED EVERY WEEK AS SELECT country, sum(orders) AS orders FROM marts.sales GROUP BY country;
TRANSFORM marts.ever AS SELECT count(*) AS orders FROM HISTORY(raw.orders);

COLLECT raw.crm PARTITIONED (id NOT NULL, name, city, at TIMESTAMP) FROM shop.crm EVERY DAY BY DATA TIME at;
TRANSFORM dim.customer (id KEY, *) TEMPORAL AT at AS SELECT * FROM raw.crm;
COLLECT raw.bills PARTITIONED (bill KEY, buyer REFERENCES dim.customer ROLE buyer AT sold_at, sold_at TIMESTAMP)
  FROM shop.bills EVERY DAY BY DATA TIME sold_at;
TRANSFORM marts.bills PARTITIONED AS SELECT bill, name_buyer, city_buyer FROM FLAT(raw.bills);
"""
SALES = {"country": "string", "orders": "bigint", "revenue": "decimal(20,2)"}


def shop(root: Path, more: str = "") -> Project:
    """Write the shop's project and load it."""
    (root / "flows").mkdir(parents=True, exist_ok=True)
    (root / "waterclock.toml").write_text(TOML.format(name="shop", storage=".waterclock"))
    (root / "flows" / "flow.dpl").write_text(CONNECTIONS + FLOW + more)
    return load_project(root, capabilities=capabilities())


def feature(text: str, file: str = "specs/a.feature") -> Feature:
    """Parse a valid feature."""
    found, errors = read_feature(dedent(text).lstrip("\n"), file)
    assert errors == ()
    assert found is not None
    return found


def scenario(steps: str) -> str:
    """Return the text of a feature with one scenario."""
    return "Feature: f\nScenario: s\n" + dedent(steps).strip("\n") + "\n"


def script(project: Project, steps: str) -> Script:
    """Parse the steps of one valid scenario."""
    found, errors = script_of(next(feature(scenario(steps)).scenarios), project.flow)
    assert errors == ()
    assert found is not None
    return found


def typed_script(project: Project, steps: str) -> TypedScript:
    """Parse the steps and rows of one valid scenario."""
    found, errors = convert_rows(script(project, steps), schemas_of(project))
    assert errors == ()
    assert found is not None
    return found


def schemas_of(project: Project) -> Callable[[str, Extras], Schema]:
    """Return schemas as far as they are declared, and those of one transform as Spark would find them."""

    def of(name: str, extras: Extras) -> Schema:
        table = project.flow.tables[name]
        if name == "marts.sales":
            return Schema(SALES)
        types = {column.name: (column.type or "string").lower() for column in table.columns.named}
        types |= extras.get(name, {})
        return Schema(types, is_whole=not table.columns.is_open or table.kind is Kind.COLLECT)

    return of


def wrong(project: Project, text: str, file: str = "specs/a.feature") -> list[WaterclockError]:
    """Return all errors of a feature, as a run finds them before any step runs."""
    found, errors = read_feature(text, file)
    gathered = list(errors)
    for each in found.scenarios if found else ():
        one, more = script_of(each, project.flow)
        gathered.extend(more)
        if one is not None:
            gathered.extend(convert_rows(one, schemas_of(project))[1])
    return sort_distinct_errors(gathered)
