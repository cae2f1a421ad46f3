"""Queries of an attacker: harmful pieces, combined with the places where they may be hidden."""

from __future__ import annotations

from itertools import chain

# {secret}: a file that contains the word; {marker}: a file that exists after a command has run; {delta}: a Delta table
VALUES = (
    "reflect('java.lang.System', 'getenv', 'WATERCLOCK_CANARY')",
    "java_method('java.lang.System', 'getenv', 'WATERCLOCK_CANARY')",
    "try_reflect('java.lang.System', 'getenv', 'WATERCLOCK_CANARY')",
    "`reflect`('java.lang.System', 'getenv', 'WATERCLOCK_CANARY')",
    "ReFlEcT ('java.lang.System', 'getenv', 'WATERCLOCK_CANARY')",
    "system.builtin.reflect('java.lang.System', 'getenv', 'WATERCLOCK_CANARY')",
    "builtin.`java_method`('java.lang.System', 'getenv', 'WATERCLOCK_CANARY')",
    "IDENTIFIER('reflect')('java.lang.System', 'getenv', 'WATERCLOCK_CANARY')",
    "IDENTIFIER('ref' || 'lect')('java.lang.System', 'getenv', 'WATERCLOCK_CANARY')",
    "coalesce(NULL, reflect('java.nio.file.Files', 'readString', '{secret}'))",
    "(SELECT first(value) FROM text.`{secret}`)",
    "(SELECT first(value) FROM `text`.`{secret}`)",
    "EXISTS (SELECT * FROM csv.`{secret}`)",
    "from_xml('<a><b>1</b></a>', 'b INT', map('rowValidationXSDPath', '{secret}'))",
    "from_protobuf(X'00', 'M', '{secret}')",
    "from_avro(X'00', '\"int\"', map('avroSchemaUrl', 'file://{secret}'))",
    "default.some_function(1)",
)
TABLES = (
    "text.`{secret}`",
    "csv.`file://{secret}`",
    "json.`{secret}`",
    "binaryFile.`{secret}`",
    "delta.`{delta}`",
    "parquet.`{delta}`",
    "spark_catalog.delta.`{delta}`",
    "spark_catalog.text.`{secret}`.x",
    "a.b.c.d",
    "table_changes_by_path('{delta}', 0)",
    "table_changes('delta.`{delta}`', 0)",
    "`table_changes_by_path`('{delta}', 0)",
    "python_worker_logs()",
    "LATERAL table_changes_by_path('{delta}', 0)",
    "shop.sales LATERAL VIEW table_changes('x', 0) t AS a",
    "shop.sales CROSS JOIN LATERAL `table_changes_by_path`('{delta}', 0)",
    "IDENTIFIER('text.`{secret}`')",
    "IDENTIFIER('te' || 'xt.`{secret}`')",
    "IDENTIFIER(reflect('java.lang.System', 'getenv', 'WATERCLOCK_CANARY'))",
    "range(CAST(reflect('java.lang.System', 'getenv', 'WATERCLOCK_CANARY') AS INT))",
    "system.builtin.range(3)",
    "wc_0",
    "global_temp.x",
    "information_schema.tables",
    "(SHOW TABLES)",
    "(SELECT TRANSFORM('x') USING 'touch {marker}' AS (x STRING))",
    "(SELECT TRANSFORM('x') USING \"touch {marker}\" AS (x STRING))",
    "(SELECT TRANSFORM('x') USING r'touch {marker}' AS (x STRING))",
    "(FROM shop.sales MAP id USING 'touch {marker}' AS x)",
    "(FROM shop.sales REDUCE id USING 'touch {marker}' AS x)",
    "TABLE text.`{secret}`",
    "explode(array(reflect('java.lang.System', 'getenv', 'WATERCLOCK_CANARY')))",
)
COMMANDS = (
    "SET WATERCLOCK=1",
    "SET",
    "RESET",
    "ADD JAR '{secret}'",
    "ADD FILE '{secret}'",
    "LIST FILES",
    "CREATE TABLE x AS SELECT 1",
    "CREATE TEMPORARY VIEW x USING text OPTIONS (path '{secret}')",
    "CREATE FUNCTION f AS 'java.lang.Runtime'",
    "INSERT OVERWRITE DIRECTORY '{marker}' USING csv SELECT 1",
    "INSERT OVERWRITE LOCAL DIRECTORY '{marker}' SELECT 1",
    "INSERT INTO delta.`{delta}` SELECT 1",
    "FROM shop.sales INSERT OVERWRITE DIRECTORY '{marker}' SELECT id",
    "WITH a AS (SELECT 1 AS id) INSERT INTO delta.`{delta}` SELECT * FROM a",
    "DELETE FROM delta.`{delta}`",
    "UPDATE delta.`{delta}` SET id = 2",
    "MERGE INTO delta.`{delta}` t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "DROP TABLE delta.`{delta}`",
    "VACUUM delta.`{delta}`",
    "OPTIMIZE delta.`{delta}`",
    "DESCRIBE HISTORY delta.`{delta}`",
    "DESCRIBE DETAIL '{delta}'",
    "CONVERT TO DELTA parquet.`{delta}`",
    "RESTORE TABLE delta.`{delta}` TO VERSION AS OF 0",
    "SHOW TABLES",
    "SHOW FUNCTIONS",
    "EXPLAIN SELECT 1",
    "DESCRIBE QUERY SELECT 1",
    "CACHE TABLE shop.sales",
    "REFRESH '{delta}'",
    "LOAD DATA INPATH '{secret}' INTO TABLE shop.sales",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "BEGIN SELECT 1; END",
    "DECLARE VARIABLE x INT",
    "CALL x()",
    "KILL 1",
    "USE default",
    "SELECT 1; SELECT 2",
    "SELECT 1 INTO x",
)
PLACES_OF_VALUES = (
    "SELECT {it} AS x",
    "SELECT id FROM shop.sales WHERE {it} IS NOT NULL",
    "WITH a AS (SELECT {it} AS x) SELECT x FROM a",
    "SELECT max({it}) AS x FROM shop.sales GROUP BY id HAVING count(*) > 0",
    "SELECT transform(array(1), v -> {it}) AS x",
    "SELECT id FROM shop.sales ORDER BY {it}",
    "FROM shop.sales |> SELECT {it} AS x",
)
PLACES_OF_TABLES = (
    "SELECT * FROM {it}",
    "SELECT 1 AS one UNION ALL SELECT 2 FROM {it}",
    "WITH a AS (SELECT * FROM {it}) SELECT * FROM a",
    "SELECT * FROM shop.sales WHERE EXISTS (SELECT * FROM {it})",
    "SELECT s.id FROM shop.sales s, LATERAL (SELECT * FROM {it}) l",
    "SELECT (SELECT count(*) FROM {it}) AS n",
)
# the second line of a comment, a hint, a quotation: another parser may see code where the checks see none
PLACES_OF_TEXT = (
    "SELECT 'a' AS x -- \\\n/*\nUNION ALL SELECT {it}\n-- \\\n*/",
    "SELECT /*+ BROADCAST(a) */ /* /* */ {it} */ 1 AS x",
    "SELECT 'it\\'s' AS x, '\\\\' AS y, {it} AS z",
    "SELECT $$ $$ AS x, {it}, $$ $$",
    "SELECT R'\\' AS x, {it} AS y, R'\\'",
)


def hostile_queries(**paths: str) -> list[str]:
    """Return each harmful piece in each place that its kind allows."""
    pairs = chain(
        ((place, it) for place in (*PLACES_OF_VALUES, *PLACES_OF_TEXT) for it in VALUES),
        ((place, it) for place in PLACES_OF_TABLES for it in TABLES),
        (("{it}", it) for it in COMMANDS),
    )
    return [place.replace("{it}", _put(it, paths)) for place, it in pairs]


def _put(text: str, paths: dict[str, str]) -> str:
    for name, path in paths.items():
        text = text.replace(f"{{{name}}}", path)
    return text
