"""Lists the definitions of all clauses, in the order in which errors list clauses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from waterclock.dpl.syntax.clause_definition import ClauseDefinition, ClauseForm, PythonArgument
from waterclock.dpl.syntax.clause_readers import (
    check_zone,
    parse_apart,
    parse_await,
    parse_buckets,
    parse_by,
    parse_close_when,
    parse_cluster_columns,
    parse_connection_type,
    parse_continuous_transform,
    parse_deadline,
    parse_duration_clause,
    parse_elapsed_time,
    parse_every,
    parse_flag,
    parse_for_each,
    parse_on_restate,
    parse_options,
    parse_partition_column,
    parse_pool,
    parse_shuffle,
    parse_sort_columns,
    parse_tags,
    parse_unit,
    parse_was,
    parse_watermark,
    parse_when,
    parse_zone,
    text_parser,
)
from waterclock.dpl.syntax.column_clause import parse_columns
from waterclock.dpl.syntax.cursor import FirstWords
from waterclock.dpl.syntax.expect_clause import parse_rules
from waterclock.dpl.syntax.grant_clause import (
    parse_grant_columns,
    parse_grant_target,
    parse_grantees,
    parse_row_condition,
)
from waterclock.dpl.syntax.measure_clause import parse_measures
from waterclock.dpl.syntax.mode_clause import parse_mode
from waterclock.dpl.syntax.schema_clauses import parse_compatible, parse_on_schema_change
from waterclock.dpl.syntax.statements import StatementKind
from waterclock.flow.enums import TableType

C, T, P = StatementKind.COLLECT, StatementKind.TRANSFORM, StatementKind.PUBLISH
V, X, F = StatementKind.VIEW, StatementKind.CONNECTION, StatementKind.FUNCTION
G = StatementKind.GRANT
_COLLECT, _TRANSFORM, _PUBLISH = frozenset({C}), frozenset({T}), frozenset({P})
_TABLES = frozenset({C, T, P})
_MADE = frozenset({C, T})
_ALL = frozenset({C, T, P, V, X})

DEFINITIONS: tuple[ClauseDefinition, ...] = (
    ClauseDefinition(
        word="TYPE", example='"sqlite"', statements=frozenset({X}), read=parse_connection_type, is_positional=True
    ),
    ClauseDefinition(
        word="RETURN",
        statements=frozenset({F}),
        is_positional=True,
        arguments=(
            PythonArgument(name="parameters", example='"cents BIGINT"', clause="(...)"),
            PythonArgument(name="returns", example='"DECIMAL(16,2)"', clause="RETURNS"),
            PythonArgument(name="return_", example='"cents / 100"', clause="RETURN"),
        ),
    ),
    ClauseDefinition(
        word="TYPE OF TABLE",
        statements=_MADE,
        is_positional=True,
        form=ClauseForm.FLAG,
        arguments=(
            PythonArgument(name="regular", example="True", flag=TableType.REGULAR),
            PythonArgument(name="partitioned", example="True", flag=TableType.PARTITIONED),
        ),
    ),
    ClauseDefinition(
        word="COLUMNS",
        example='"id KEY, *"',
        clause="(...)",
        statements=frozenset({V, C, T, P, G}),
        read=parse_columns,
        reads={G: parse_grant_columns},
        is_positional=True,
    ),
    ClauseDefinition(word="FROM", example='"ops.planes"', statements=_COLLECT, read=parse_unit, is_positional=True),
    ClauseDefinition(
        word="ON", example='"raw.*"', statements=frozenset({G}), read=parse_grant_target, is_positional=True
    ),
    ClauseDefinition(
        word="TO",
        example='"ops.planes_seen"',
        statements=frozenset({P, G}),
        read=parse_unit,
        reads={G: parse_grantees},
        is_positional=True,
    ),
    ClauseDefinition(
        word="WHERE",
        example="\"origin = USER('origin')\"",
        statements=frozenset({G}),
        read=parse_row_condition,
        is_positional=True,
    ),
    ClauseDefinition(
        word="OPTIONS",
        example='{"format": "csv"}',
        statements=frozenset({X, C, T, P}),
        read=parse_options,
        is_positional=True,
    ),
    ClauseDefinition(word="SHARED", example="True", statements=frozenset({V}), read=parse_flag, form=ClauseForm.FLAG),
    ClauseDefinition(word="FOR EACH", example='"shop.orders"', statements=_COLLECT, read=parse_for_each),
    ClauseDefinition(
        word="EVERY",
        example='"15 minutes"',
        statements=_TABLES,
        read=parse_every,
        elsewhere={V: "write TRANSFORM, because a view has no batches, or EVERY where it is read"},
    ),
    ClauseDefinition(
        word="SCHEDULE",
        example='"10 * * * *"',
        statements=_TABLES,
        read=text_parser("a cron expression"),
        form=ClauseForm.TEXT,
    ),
    ClauseDefinition(word="DELAY", example='"2 hours"', statements=_TABLES, read=parse_duration_clause),
    ClauseDefinition(
        word="ZONE",
        example='"Europe/Berlin"',
        statements=_TABLES,
        read=parse_zone,
        form=ClauseForm.TEXT,
        checks_text=check_zone,
    ),
    ClauseDefinition(
        word="START",
        example='"2018-01-01"',
        statements=_TABLES,
        read=text_parser("an instant"),
        form=ClauseForm.TEXT,
    ),
    ClauseDefinition(
        word="BY",
        example='"data time updated_at lookback 3 days"',
        statements=_COLLECT,
        read=parse_by,
        starts=("BY DATA", "BY ARRIVAL", "BY CHANGES"),
        elsewhere={T: "use EVERY: only a COLLECT assigns rows to windows"},
    ),
    ClauseDefinition(
        word="AWAIT",
        example="\"'%Y/%m/%d/_SUCCESS' for 3 hours\"",
        statements=_COLLECT,
        read=parse_await,
    ),
    ClauseDefinition(
        word="MODE",
        example='"merge on (id) order by at"',
        clause="APPEND, REPLACE, MERGE",
        statements=_TABLES,
        read=parse_mode,
        starts=("APPEND", "REPLACE", "MERGE", "TEMPORAL"),
    ),
    ClauseDefinition(
        word="EXPECT",
        example='["n > 0", "count(*) > 9 AS some ELSE WARN"]',
        statements=_TABLES,
        read=parse_rules,
        form=ClauseForm.LIST,
        is_repeatable=True,
    ),
    ClauseDefinition(
        word="MEASURE",
        example='["PROFILE", "sum(n) AS total"]',
        statements=_TABLES,
        read=parse_measures,
        form=ClauseForm.LIST,
        is_repeatable=True,
    ),
    ClauseDefinition(
        word="SEQUENTIAL",
        example="True",
        statements=_TABLES,
        read=parse_flag,
        form=ClauseForm.FLAG,
        table_field="is_sequential",
    ),
    ClauseDefinition(word="POOL", example='"heavy"', statements=_TABLES, read=parse_pool),
    ClauseDefinition(word="ON RESTATE", example='"report"', statements=_TABLES, read=parse_on_restate),
    ClauseDefinition(word="DEADLINE", example='"2 hours"', statements=_TABLES, read=parse_deadline),
    ClauseDefinition(
        word="RUNTIME", example='"20 minutes"', statements=_TABLES, read=parse_elapsed_time, table_field="runtime"
    ),
    ClauseDefinition(word="ON SCHEMA CHANGE", example='"add"', statements=_COLLECT, read=parse_on_schema_change),
    ClauseDefinition(
        word="PARTIAL AFTER",
        example='"2 hours"',
        statements=_TRANSFORM,
        read=parse_duration_clause,
        table_field="partial_after",
    ),
    ClauseDefinition(
        word="CLOSE WHEN",
        example='"watermark(at, device) >= WINDOW_END()"',
        statements=_TRANSFORM,
        read=parse_close_when,
    ),
    ClauseDefinition(word="MAX LATENESS", example='"1 day"', statements=_TRANSFORM, read=parse_duration_clause),
    ClauseDefinition(
        word="COMPATIBLE",
        example='"backward transitive"',
        statements=_MADE,
        read=parse_compatible,
        table_field="compatible",
    ),
    ClauseDefinition(
        word="WATERMARK",
        example='"at 10 minutes per (device)"',
        statements=_MADE,
        read=parse_watermark,
    ),
    ClauseDefinition(
        word="RETAIN",
        example='"90 days"',
        statements=_MADE,
        read=parse_duration_clause,
        elsewhere={P: "write RETAIN where the table is made"},
    ),
    ClauseDefinition(word="KEEP VERSIONS", example='"30 days"', statements=_MADE, read=parse_duration_clause),
    ClauseDefinition(
        word="CONTINUOUS",
        example='"10 seconds"',
        statements=_MADE,
        read=parse_elapsed_time,
        reads={T: parse_continuous_transform},
        flag_in=_TRANSFORM,
        elsewhere={
            V: "write it in the TRANSFORM that reads it: a view has no windows",
            P: "write CONTINUOUS where the table is made",
        },
    ),
    ClauseDefinition(
        word="SORT BY",
        example='["country", "at"]',
        statements=_MADE,
        read=parse_sort_columns,
        form=ClauseForm.LIST,
        elsewhere={
            V: "write it in the TRANSFORM that reads it: a view stores nothing",
            P: "write SORT BY where the table is made; rows are sent in order by APPEND ORDER BY",
        },
        table_field="sort_by",
    ),
    ClauseDefinition(
        word="CLUSTER BY",
        example='["user_id", "device"]',
        statements=_MADE,
        read=parse_cluster_columns,
        form=ClauseForm.LIST,
        elsewhere={
            V: "write it in the TRANSFORM that reads it: a view stores nothing",
            P: "write CLUSTER BY where the table is made",
        },
        table_field="cluster_by",
    ),
    ClauseDefinition(
        word="PARTITION BY",
        example='["country"]',
        statements=_MADE,
        read=parse_partition_column,
        form=ClauseForm.LIST,
        elsewhere={
            V: "write it in the TRANSFORM that reads it: a view stores nothing",
            P: "write PARTITION BY where the table is made",
        },
        table_field="partition_by",
    ),
    ClauseDefinition(
        word="BUCKET BY",
        example='"(user_id) into 64"',
        statements=_MADE,
        read=parse_buckets,
        elsewhere={
            V: "write it in the TRANSFORM that reads it: a view stores nothing",
            P: "write BUCKET BY where the table is made",
        },
        table_field="bucket_by",
    ),
    ClauseDefinition(
        word="SHUFFLE",
        example='"none"',
        statements=_TRANSFORM,
        read=parse_shuffle,
        elsewhere={
            V: "write it in the TRANSFORM that reads it: a view has no batches",
            C: "write it in the TRANSFORM that reads the table: a COLLECT has no query",
            P: "write SHUFFLE NONE where the table is made",
        },
        table_field="is_unshuffled",
    ),
    ClauseDefinition(
        word="APART",
        example='"(email, name) for 90 days"',
        statements=_TRANSFORM,
        read=parse_apart,
        elsewhere={
            V: "write it in the TRANSFORM that reads it: a view stores nothing",
            C: "write it in a TRANSFORM that reads the table, and give the COLLECT a short RETAIN",
            P: "write APART where the table is made",
        },
        table_field="apart",
    ),
    ClauseDefinition(
        word="WAS",
        example='"shop.daily"',
        statements=_MADE,
        read=parse_was,
        elsewhere={
            V: "rename it and leave WAS out: a view stores nothing",
            P: "rename its table, and nothing is sent again: a PUBLISH has the name of its destination",
            X: "write the new name here, and wherever it is used",
        },
    ),
    ClauseDefinition(
        word="OWNER",
        example='"ops@example.com"',
        statements=_ALL,
        read=text_parser("an owner"),
        form=ClauseForm.TEXT,
    ),
    ClauseDefinition(
        word="TAGS",
        example='["web", "raw"]',
        statements=_ALL,
        read=parse_tags,
        form=ClauseForm.LIST,
    ),
    ClauseDefinition(
        word="COMMENT",
        example='"What arrives"',
        statements=_ALL,
        read=text_parser("a comment"),
        form=ClauseForm.TEXT,
    ),
    ClauseDefinition(
        word="WHEN",
        example='[("WINDOW_START() < \'2024-01-01\'", "SELECT 1 AS one")]',
        statements=_TRANSFORM,
        read=parse_when,
    ),
    ClauseDefinition(
        word="AS",
        example='"SELECT 1 AS one"',
        clause="AS, ELSE AS",
        statements=frozenset({V, T}),
        is_positional=True,
    ),
)
CLAUSES = tuple(each for each in DEFINITIONS if not each.is_positional)
BY_WORD = {each.word: each for each in DEFINITIONS}
BY_ARGUMENT = {argument: each for each in DEFINITIONS for argument in each.argument_names}
ARGUMENTS: Mapping[StatementKind, tuple[str, ...]] = {
    kind: tuple(argument for each in DEFINITIONS if kind in each.statements for argument in each.argument_names)
    for kind in StatementKind
}


def _find_first_words(clauses: Iterable[ClauseDefinition]) -> FirstWords:
    found: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for clause in clauses:
        for start in clause.first_words:
            found.setdefault(start[0], []).append((start, clause.word))
    return found


FIRST_WORDS = _find_first_words(CLAUSES)


def clause_words(kind: StatementKind) -> list[str]:
    """Return the words of the clauses that a statement accepts in this release, with APPEND, MERGE, ... for MODE."""
    words = [clause.word for clause in CLAUSES if kind in clause.statements]
    modes = ["APPEND", "REPLACE", "MERGE", *(["TEMPORAL"] if kind in _MADE else [])] if "MODE" in words else []
    return [word for word in words if word != "MODE"] + modes
