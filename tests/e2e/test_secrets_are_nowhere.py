"""Secrets of all kinds are used, by runs that go well and that fail; afterwards their bytes are in nothing we wrote."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests import postgres
from tests.listening import Heard, listening

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WORD = "Pass'w0rd/+%ä"
WRONG = "Wr0ng'w0rd/+%ä"
TOKEN = "t0ken-of-the-desk"
OF_SPARK = "k3y-of-a-bucket"
FLOW = """
CREATE CONNECTION ops TYPE postgres;
CREATE CONNECTION reports TYPE postgres;
COLLECT shop.orders PARTITIONED (id INT KEY, at TIMESTAMP, amount INT) FROM ops.orders
  EVERY 1 DAY BY DATA TIME at START '2026-11-01';
TRANSFORM shop.daily PARTITIONED AS SELECT count(*) AS orders, sum(amount) AS amount FROM shop.orders;
PUBLISH shop.daily TO reports.daily;
"""
PROJECT = """
[project]
name = "shop"

[env.dev]
publish = true
alerts = true
ledger = {{ secret = "ledger" }}
connections.ops = {{ url = "{url}", schema = "{schema}", password = {{ secret = "{password}" }} }}
connections.reports = {{ url = "{url}", schema = "{schema}", password = {{ secret = "word" }} }}

[env.dev.spark.confs]
"spark.eventLog.enabled" = true
"spark.eventLog.dir" = "{events}"
"spark.hadoop.fs.s3a.secret.key" = {{ secret = "of_spark" }}

[alerts.targets.desk]
webhook = "{hook}"
token = {{ secret = "token" }}
"""


@pytest.fixture
def server() -> Iterator[postgres.Server]:
    """The server, at which `careful` needs a password."""
    found = postgres.server()
    rules = found.folder / "data/pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"host all careful 127.0.0.1/32 scram-sha-256\n{before}")
    in_sql = WORD.replace("'", "''")
    found.run(f"CREATE ROLE careful LOGIN PASSWORD '{in_sql}'")
    found.run("GRANT CREATE ON DATABASE postgres TO careful")
    found.run("SELECT pg_reload_conf()")
    yield found
    rules.write_text(before)
    found.run("DROP OWNED BY careful CASCADE; DROP ROLE careful")
    found.run("SELECT pg_reload_conf()")


@pytest.fixture
def desk() -> Iterator[Heard]:
    with listening() as heard:
        yield heard


def test_no_byte_of_a_secret_is_in_what_we_write_or_say(server: postgres.Server, desk: Heard, tmp_path: Path) -> None:
    schema, ledger = server.fresh_schema(), server.fresh_schema()
    address = f"127.0.0.1:{server.port}/postgres"
    server.run(f"CREATE SCHEMA {schema} AUTHORIZATION careful")
    server.run(f"CREATE TABLE {schema}.orders AS SELECT 1 AS id, timestamptz '2026-11-01 09:00Z' AS at, 3 AS amount")
    server.run(f"GRANT SELECT ON {schema}.orders TO careful")
    events = tmp_path / "events"
    events.mkdir()
    project = tmp_path / "shop"
    (project / "flows").mkdir(parents=True)
    (project / "flows/shop.dpl").write_text(FLOW)
    secrets = {
        "WORD": WORD, "WRONG": WRONG, "TOKEN": TOKEN, "OF_SPARK": OF_SPARK,
        "LEDGER": f"postgresql://careful:{quote(WORD, safe='')}@{address}?schema={ledger}",
    }  # fmt: skip
    said = ""

    def configure(password: str) -> None:
        url = f"postgresql://careful@{address}"
        text = PROJECT.format(url=url, schema=schema, events=events, hook=desk.address, password=password)
        (project / "waterclock.toml").write_text(text)

    def run(*words: str) -> int:
        nonlocal said
        done = subprocess.run(
            [sys.executable, "-m", "waterclock", *words, "--project", str(project)],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            env=os.environ | {f"WATERCLOCK_SECRET_{name}": value for name, value in secrets.items()},
        )  # fmt: skip
        said += done.stdout + done.stderr
        return done.returncode

    configure("word")
    assert run("run", "--now", "2026-11-02T01:00Z", "--json") == 0, said
    rows = server.run(f"SELECT orders, amount FROM {schema}.daily")
    assert rows == [(1, 3)]
    configure("wrong")
    assert run("recollect", "shop.orders@20261101", "--yes", "--why", "asked again", "--now", "2026-11-02T02:00Z") == 1
    assert "does not let us in" in said
    for command in ("status", "plan", "audit", "alerts", "runners"):
        run(command, "--json")
    run("show", "shop.orders", "--json")
    run("check")
    run("ledger", "export")
    assert desk.tokens == [f"Bearer {TOKEN}"] * len(desk.tokens) != []

    written = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(name.startswith("events") and len(text) > 10_000 for name, text in written.items())
    tables = server.run(
        "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname = ANY (%s)", [ledger, schema]
    )
    assert len(tables) > 10
    for (name,) in tables:
        written[name] = "\n".join(str(row) for row in server.run(f"SELECT t::text FROM {name} AS t")).encode()
    written["what was said"] = said.encode()
    written["what the desk was told"] = str(desk.bodies).encode()
    forms = {form for word in (WORD, WRONG, TOKEN, OF_SPARK) for form in forms_of(word)}
    found = [(name, form) for name, text in written.items() for form in forms if form in text]
    assert found == []


def forms_of(word: str) -> set[bytes]:
    """Return a word as it is, as it stands in URLs, JSON and SQL, and encoded."""
    raw = word.encode()
    texts = {word, quote(word), quote(word, safe=""), word.replace("'", "''"), ascii(word)[1:-1], raw.hex()}
    return {raw, base64.b64encode(raw), word.encode("utf-16-be"), *(text.encode() for text in texts)}
