"""Functions with a key over Spark Connect: a separate process compiles queries, and the server gets the keys."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.keys import forms

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WORK = """
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.keys import VARIABLES, hashed
from waterclock.engine.spark.errors import to_error
from waterclock.engine.spark.keys import KeysOfProject
from waterclock.engine.spark.user_functions import register_functions
from waterclock.flow.about import About
from waterclock.flow.declarations import Connection, Flow, Place, Secret
from waterclock.secrets.reader import SecretPlaces, Secrets

confs = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.eventLog.enabled": "true",
         "spark.eventLog.compress": "false", "spark.eventLog.dir": sys.argv[1]}
spark = SparkSession.builder.remote("local[1]").config(map=confs).getOrCreate()
options = {"key.2025": Secret("pii/old"), "key.2026": Secret("pii/new"), "current": "2026"}
connection = Connection("pii", "keys", options, About(), Place("a.dpl", 1, 1))
keys = KeysOfProject({"pii": connection}, Secrets(SecretPlaces(Path()), VARIABLES))
names = ("hash_keyed", "encrypt", "decrypt", "generalize", "perturb")
register_functions(spark, Path(), Flow(project="x", tables={}), [f"{name}(x)" for name in names], keys)
spark.sql("SELECT * FROM VALUES ('x'), ('y') AS t(a)").createOrReplaceTempView("texts")
rows = spark.sql("SELECT a, hash_keyed(a, 'pii') AS h, decrypt(encrypt(a, 'pii', a), 'pii', a) AS d, "
                 "generalize(37, width => 10) AS g, perturb(1, 2, a, 'pii') <> 1 AS p FROM texts").collect()
assert [tuple(row) for row in rows] == [(a, hashed(a), a, "30-39", True) for a in "xy"], rows
joined = spark.sql("SELECT l.a FROM texts l JOIN texts r ON hash_keyed(l.a, 'pii') = hash_keyed(r.a, 'pii')")
assert joined.count() == 2
for mode in ("extended", "formatted", "codegen"):
    joined.explain(mode)
try:
    spark.sql("SELECT decrypt('wc1:1999:AAAA', 'pii') FROM texts").collect()
except Exception as raised:
    print(raised, to_error(raised, where="here").render())
spark.stop()
"""


def test_keyed_functions_work_over_spark_connect_and_write_no_key_to_any_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WORK, str(tmp_path)],
        capture_output=True,
        check=False,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "E735 the key of an encrypted text is missing" in done.stdout
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"by_name" in text for text in written)
    written += [done.stdout.encode(), done.stderr.encode()]
    assert [form for form in forms() if any(form in text for text in written)] == []
