"""Secrets of all kinds are used, by successful and failing runs; afterwards their bytes are in none of our files."""

from __future__ import annotations

import base64
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from tests import kafka, keys, postgres
from tests.apis import Space
from tests.listening import Heard, listening
from tests.schema_registry import Registry, serving
from tests.unit.connectors.kafka.test_avro import OLD, encoded

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MANY = 50_100  # more than the runner itself reads: the secrets are passed to Spark's workers
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
KEY_LOCK = "l0ck-of-the-key"
OF_API = "t0ken-of-the-api"
CALLER = "c4ller-of-the-api"
OF_SYSTEMS = """
CREATE CONNECTION bus TYPE kafka;
CREATE CONNECTION copies TYPE kafka;
CREATE CONNECTION api TYPE rest OPTIONS (auth.token SECRET '{token}');
CREATE CONNECTION told TYPE rest OPTIONS (auth.user 'ann', auth.password SECRET 'caller');
COLLECT web.lines PARTITIONED (value) FROM bus.lines OPTIONS (format 'text')
  EVERY 1 DAY BY ARRIVAL TIME START '2026-11-01';
COLLECT web.payments PARTITIONED (*) FROM bus.payments OPTIONS (format 'avro')
  EVERY 1 DAY BY ARRIVAL TIME START '2026-11-01';
TRANSFORM web.counted PARTITIONED AS SELECT count(*) AS lines FROM web.lines;
PUBLISH web.counted TO copies.counted OPTIONS (ends TRUE);
COLLECT api.calls PARTITIONED (id, at TIMESTAMP NOT NULL) FROM api.calls
  OPTIONS (path 'cursor', rows 'data', paging 'cursor', since 'since', until 'until')
  EVERY 1 DAY BY DATA TIME at START '2026-11-01';
PUBLISH api.calls TO told.calls OPTIONS (path 'take/rows') APPEND;
"""
PROJECT_OF_SYSTEMS = """
[project]
name = "shop"

[env.dev]
publish = true
connections.bus = {{ servers = "{users}", security = "sasl_ssl", ca = "{ca}", mechanism = "SCRAM-SHA-512", \
username = "ann", password = {{ secret = "{word}" }}, registry = "{registry}", registry_user = "ann", \
registry_password = {{ secret = "{word}" }}, timeout = 20 }}
connections.copies = {{ servers = "{mutual}", security = "ssl", ca = "{ca}", certificate = "{certificate}", \
key = "{key}", key_password = {{ secret = "{lock}" }}, timeout = 20 }}
connections.api = {{ url = "{api}", tries = 2, timeout = 20 }}
connections.told = {{ url = "{told}", tries = 2, timeout = 20 }}

[env.dev.spark.confs]
"spark.eventLog.enabled" = true
"spark.eventLog.compress" = false
"spark.eventLog.dir" = "{events}"
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
"spark.eventLog.compress" = false
"spark.eventLog.dir" = "{events}"
"spark.hadoop.fs.s3a.secret.key" = {{ secret = "of_spark" }}

[alerts.targets.desk]
webhook = "{hook}"
token = {{ secret = "token" }}
"""


@pytest.fixture
def server() -> Iterator[postgres.Server]:
    """Yield the server, which requires a password from `careful`."""
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


def test_no_secret_appears_in_any_file_output_or_alert(server: postgres.Server, desk: Heard, tmp_path: Path) -> None:
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
    assert "refuses the login" in said
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


@pytest.mark.soak
@kafka.needs_broker
def test_no_secret_of_kafka_or_an_api_appears_in_any_file_output_or_message(tmp_path: Path) -> None:
    bus, api, told = kafka.broker(), Space(), Space()
    for name in ("lines", "payments", "counted"):
        bus.topic(name)
    bus.send("lines", ((None, b"%d" % at) for at in range(MANY)))
    bus.send("payments", [(None, encoded(OLD, {"id": 1}, 1))])
    api.set(credential=f"bearer:{OF_API}", rows=[{"id": "1", "at": "2026-11-01T08:00:00Z"}])
    told.set(credential=f"basic:ann:{CALLER}")
    pair = bus.authority.pair("nowhere", password=KEY_LOCK)
    events, project = tmp_path / "events", tmp_path / "shop"
    events.mkdir()
    (project / "flows").mkdir(parents=True)
    secrets = {
        "WORD": kafka.WORD, "WRONG": WRONG, "LOCK": KEY_LOCK, "API": OF_API, "CALLER": CALLER,
    }  # fmt: skip
    said = ""

    def run(*words: str) -> int:
        nonlocal said
        done = subprocess.run(
            [sys.executable, "-m", "waterclock", *words, "--project", str(project)],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            env=os.environ | {f"WATERCLOCK_SECRET_{name}": value for name, value in secrets.items()},
        )  # fmt: skip
        said += done.stdout + done.stderr
        return done.returncode

    with serving(Registry([OLD], login=f"ann:{kafka.WORD}"), bus.authority.pair("registry")) as registry:

        def configure(word: str, token: str, lock: str) -> None:
            text = PROJECT_OF_SYSTEMS.replace("\\\n", "").format(
                users=bus.doors["SASL_SSL"], mutual=bus.doors["MUTUAL"], ca=bus.authority.certificate,
                certificate=pair.certificate, key=pair.key, registry=registry.address, api=api.url, told=told.url,
                word=word, lock=lock, events=events,
            ).replace("timeout = 20 }", f'registry_ca = "{bus.authority.certificate}", timeout = 20 }}', 1)  # fmt: skip
            (project / "waterclock.toml").write_text(text)
            (project / "flows/shop.dpl").write_text(OF_SYSTEMS.format(token=token))

        configure("word", "api", "lock")
        assert run("run", "--now", "2026-11-02T01:00Z", "--json") == 0, said
        assert b'"lines": %d' % MANY in bus.read("counted")[0].value()
        assert len(told.told()["kept"]) == 1
        configure("wrong", "wrong", "wrong")
        assert run("run", "--now", "2026-11-03T01:00Z", "--json") == 1
        run("check", "--connect")  # this includes destinations without due deliveries
        for code in ("E855", "E864"):
            assert code in said
    for command in ("status", "plan", "audit"):
        run(command, "--json")
    run("show", "web.lines", "--json")
    run("check")
    run("ledger", "export")

    written = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(name.startswith("events") and len(text) > 10_000 for name, text in written.items())
    written["what was said"] = said.encode()
    for topic in ("lines", "counted"):
        of_topic = [(message.key(), message.value(), message.headers()) for message in bus.read(topic)[-3:]]
        written[f"the topic {topic}"] = str(of_topic).encode()
    written["what the API was told"] = str(told.told()["kept"]).encode()
    forms = {form for word in (kafka.WORD, WRONG, KEY_LOCK, OF_API, CALLER) for form in forms_of(word)}
    assert [(name, form) for name, text in written.items() for form in forms if form in text] == []


OF_KEYS = """
CREATE CONNECTION crm TYPE sqlite; CREATE CONNECTION out TYPE sqlite;
COLLECT crm.people (id BIGINT KEY, email STRING EXPECT (hash_keyed(email, 'pii') <> '')) FROM crm.people
  EVERY 1 DAY START '2026-11-01';
TRANSFORM safe.people (id BIGINT KEY, *) MERGE AS
SELECT l.id, hash_keyed(l.email, 'pii') AS person, encrypt(l.email, 'pii', l.id) AS email,
       perturb(l.id, 2, l.email, 'pii') AS made
FROM crm.people l JOIN crm.people r ON hash_keyed(l.email, 'pii') = hash_keyed(r.email, 'pii') AND l.id = r.id;
TRANSFORM safe.back AS SELECT id, decrypt(email, 'pii', id) AS email FROM safe.people;
PUBLISH crm.people (id, email AS (hash_keyed(email, 'pii', '2025'))) TO out.people;
"""
PROJECT_OF_KEYS = """
[project]
name = "shop"

[env.dev]
publish = true
connections.crm = { path = "crm.db" }
connections.out = { path = "out.db", create = true }

[env.dev.spark.confs]
"spark.eventLog.enabled" = true
"spark.eventLog.compress" = false
"spark.eventLog.dir" = "EVENTS"
"""


def test_no_hash_key_appears_in_any_file_or_output(tmp_path: Path) -> None:
    events, project = tmp_path / "events", tmp_path / "shop"
    events.mkdir()
    (project / "flows").mkdir(parents=True)
    (project / "waterclock.toml").write_text(PROJECT_OF_KEYS.replace("EVENTS", str(events)))
    with closing(sqlite3.connect(project / "crm.db")) as crm, crm:
        crm.execute("CREATE TABLE people (id INTEGER, email TEXT)")
        crm.executemany("INSERT INTO people VALUES (?, ?)", [(1, "ann"), (2, "bo"), (3, "ann")])
    said = ""

    def run(*words: str) -> int:
        nonlocal said
        done = subprocess.run(
            [sys.executable, "-m", "waterclock", *words, "--project", str(project)],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=os.environ | keys.VARIABLES,
        )  # fmt: skip
        said += done.stdout + done.stderr
        return done.returncode

    flow = project / "flows/shop.dpl"
    flow.write_text(keys.DECLARED + OF_KEYS)
    assert run("run", "--now", "2026-11-02T01:00Z", "--json") == 0, said
    assert run("query", "SELECT * FROM safe.people", "--json") == 0
    assert (keys.hashed("ann") or "nothing") in said
    with closing(sqlite3.connect(project / "crm.db")) as crm, crm:
        crm.execute("DELETE FROM people WHERE id = 3")  # the state keeps the row and the text of its key
    flow.write_text(keys.DECLARED.replace("2026", "2027") + OF_KEYS)  # which is missing from now on
    assert run("run", "--now", "2026-11-03T01:00Z", "--json") == 1
    assert "E735" in said
    for words in (["status"], ["plan"], ["audit"], ["show", "safe.people"], ["lineage", "safe.people.email"]):
        run(*words, "--json")
    for words in (["check"], ["ledger", "export"], ["query", "SELECT decrypt(email, 'pii') FROM safe.people"]):
        run(*words)
    assert "E216" in said

    written = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    logs = [text for name, text in written.items() if name.startswith("events")]
    assert any(b"wc_keys" in text and b"by_name" in text for text in logs)
    written["what was said"] = said.encode()
    assert [(name, form) for name, text in written.items() for form in keys.forms() if form in text] == []


def forms_of(word: str) -> set[bytes]:
    """Return a word literally, escaped as in URLs, JSON and SQL, and encoded."""
    raw = word.encode()
    texts = {word, quote(word), quote(word, safe=""), word.replace("'", "''"), ascii(word)[1:-1], raw.hex()}
    return {raw, base64.b64encode(raw), word.encode("utf-16-be"), *(text.encode() for text in texts)}
