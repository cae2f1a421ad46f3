"""The clauses of each statement, as errors list them: the one test that changes with each new clause."""

from __future__ import annotations

from textwrap import fill

from tests.language.clause_lists import lists_of_clauses, with_names_of_lists

EXPECTED = """\
clauses of CREATE CONNECTION: OWNER, TAGS, COMMENT
arguments of CREATE CONNECTION: type, options, owner, tags, comment
arguments of CREATE FUNCTION: parameters, returns, return_
clauses of CREATE VIEW: SHARED, OWNER, TAGS, COMMENT
arguments of CREATE VIEW: columns, shared, owner, tags, comment, as_
clauses of COLLECT: FOR EACH, EVERY, SCHEDULE, DELAY, ZONE, START, BY, AWAIT, EXPECT, MEASURE, SEQUENTIAL, POOL, ON
  RESTATE, DEADLINE, RUNTIME, ON SCHEMA CHANGE, COMPATIBLE, WATERMARK, RETAIN, KEEP VERSIONS, CONTINUOUS, SORT BY,
  CLUSTER BY, PARTITION BY, BUCKET BY, WAS, OWNER, TAGS, COMMENT, APPEND, REPLACE, MERGE, TEMPORAL
arguments of COLLECT: regular, partitioned, columns, from_, options, for_each, every, schedule, delay, zone, start,
  by, await_, mode, expect, measure, sequential, pool, on_restate, deadline, runtime, on_schema_change, compatible,
  watermark, retain, keep_versions, continuous, sort_by, cluster_by, partition_by, bucket_by, was, owner, tags,
  comment
clauses of TRANSFORM: EVERY, SCHEDULE, DELAY, ZONE, START, EXPECT, MEASURE, SEQUENTIAL, POOL, ON RESTATE, DEADLINE,
  RUNTIME, PARTIAL AFTER, CLOSE WHEN, MAX LATENESS, COMPATIBLE, WATERMARK, RETAIN, KEEP VERSIONS, CONTINUOUS, SORT BY,
  CLUSTER BY, PARTITION BY, BUCKET BY, SHUFFLE, APART, WAS, OWNER, TAGS, COMMENT, WHEN, APPEND, REPLACE, MERGE,
  TEMPORAL
arguments of TRANSFORM: regular, partitioned, columns, options, every, schedule, delay, zone, start, mode, expect,
  measure, sequential, pool, on_restate, deadline, runtime, partial_after, close_when, max_lateness, compatible,
  watermark, retain, keep_versions, continuous, sort_by, cluster_by, partition_by, bucket_by, shuffle, apart, was,
  owner, tags, comment, when, as_
clauses of PUBLISH: EVERY, SCHEDULE, DELAY, ZONE, START, EXPECT, MEASURE, SEQUENTIAL, POOL, ON RESTATE, DEADLINE,
  RUNTIME, OWNER, TAGS, COMMENT, APPEND, REPLACE, MERGE
arguments of PUBLISH: columns, to, options, every, schedule, delay, zone, start, mode, expect, measure, sequential,
  pool, on_restate, deadline, runtime, owner, tags, comment
arguments of GRANT: columns, on, to, where
"""


def test_each_statement_lists_its_clauses_in_one_order() -> None:
    listed = [f"{name.strip('{}')}: {text}" for text, name in lists_of_clauses() if text]
    assert "\n".join(fill(line, 118, subsequent_indent="  ") for line in listed) + "\n" == EXPECTED


def test_only_whole_lists_are_named() -> None:
    assert with_names_of_lists("why  it takes OWNER, TAGS, COMMENT") == "why  it takes {clauses of CREATE CONNECTION}"
    assert with_names_of_lists("why  it takes OWNER, TAGS") == "why  it takes OWNER, TAGS"
