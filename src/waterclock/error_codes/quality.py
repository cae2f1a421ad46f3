"""Error codes of rules and their actions: limits, quarantined rows, held batches."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

QUALITY: Mapping[str, Code] = {
    "E270": Code(
        "an ELSE that is never reached",
        "An ELSE can never apply. Of several ELSE actions, each except the last one allows AT MOST a number of broken "
        "rows, and the next one handles more. Beyond the last limit the batch fails. A limit is written after its "
        "action.",
    ),
    "E271": Code(
        "wrong order of ELSE actions",
        "QUARANTINE or DROP must be the first ELSE. Rows are quarantined or dropped during the write, "
        "before their number is known. Each later action must be stricter than the preceding one: WARN, HOLD, FAIL.",
    ),
    "E272": Code(
        "row action in a batch rule",
        "A rule with an aggregate applies to the whole batch. It identifies no rows that could be quarantined, dropped "
        "or counted. Use an action for the batch.",
    ),
    "E273": Code("invalid AT MOST limit", "AT MOST takes a number of rows, or a share between 0 and 100 PERCENT."),
    "E274": Code(
        "different ELSE actions for one key",
        "The KEY columns of a table have different ELSE actions. All of them form one key, which is violated as a "
        "whole. Declare the actions once, or the same ones for each column.",
    ),
    "E275": Code(
        "too many rules on a table",
        "The table has more than 62 conditions on a row, including types, NOT NULL and KEY. A table that quarantines "
        "rows stores the violations of a row as bits of one number. Combine rules with AND, or split them over two "
        "tables.",
    ),
    "E276": Code(
        "invalid action for a required column",
        "The action would keep or quarantine rows that have no place in the table. A quarantined row belongs to the "
        "batch of its window, so the column that assigns windows must fit its type. A table that finds rows by key "
        "accepts no row without one, not even with a warning.",
    ),
    "E280": Code(
        "invalid use of parsed()",
        "EXPECT parsed() checks for each line of a collected file whether it can be parsed. It must be a rule of its "
        "own, declared once, on a COLLECT from a connection with text lines.",
    ),
    "E281": Code(
        "reference without a matching key",
        "REFERENCES with an ELSE finds the parent of each row, and the columns of the parent do not match here. Use "
        "the KEY of the parent, or name one parent column for each referring column. Columns that refer to one table "
        "in one ROLE form one key.",
    ),
    "E282": Code(
        "different ELSE actions for one reference",
        "Columns that refer to one table in one ROLE have different ELSE actions. They find their parent together. "
        "Declare the actions once, or the same ones for each column.",
    ),
    "E283": Code(
        "reference with a different type",
        "The referring column and the parent key have different types. Spark would convert one of them silently, and "
        "not always as intended. Declare the same type for both.",
    ),
    "E288": Code(
        "missing action for other rows of a key",
        "KEY PAST ... and KEY ORDER BY ... select the row of a key that is kept. The other rows need a first step that "
        "removes them: ELSE DROP or ELSE QUARANTINE.",
    ),
    "E289": Code(
        "KEY PAST not supported here",
        "KEY PAST is only for a PARTITIONED TRANSFORM. KEY PAST d checks the table's own slices for the time d up to "
        "the end of the window. If an earlier slice is restated, the later ones must follow.",
    ),
    "E296": Code(
        "KEY ORDER BY in a keyed table",
        "A MERGE or TEMPORAL table already selects among the rows of a key with its own ORDER BY. No row is a "
        "duplicate there. Remove the ORDER BY of the KEY.",
    ),
    "E297": Code(
        "unknown field of _source",
        "The field does not exist. In the columns of a COLLECT, _source.file is the file of a row. _source.row is its "
        "position in the file, from 1: the line of a text, the row of a sheet, or the number of the row.",
    ),
    "E298": Code(
        "_source in a transform",
        "Only a COLLECT has _source, which is the origin of a collected row. A transform makes its rows from tables. "
        "Store _source in columns of the COLLECT, and use those columns here.",
    ),
    "E299": Code(
        "source without row origins",
        "The connector does not provide this field of _source. Files provide the origin of each row. Rows of a "
        "database have no information except their columns.",
    ),
    "E319": Code(
        "invalid use of HIDDEN",
        "HIDDEN is not allowed on this column. A HIDDEN column is stored with each row and read by name, but it is not "
        "part of `*`. Declare it once, on a column of a COLLECT or a TRANSFORM that is not a key, and not on all "
        "columns. PUBLISH and VIEW select columns with their own lists. A NATURAL JOIN uses the columns of `*`.",
    ),
    "E340": Code(
        "invalid SUBJECT",
        "SUBJECT marks a column whose values identify persons, so that all rows of one can be found. Its type is a "
        "text or an integer. All columns of a subject have the same kind of type and the same spelling of its name.",
    ),
    "E342": Code(
        "invalid TOKENS",
        "TOKENS stores a random token instead of each value of a SUBJECT column. The column is declared as STRING, and "
        "no clause of the table may store the values elsewhere, such as quarantined or late rows. `detokenize` takes a "
        "subject whose columns have TOKENS.",
    ),
    "E341": Code(
        "invalid APART",
        "APART stores the columns that identify persons in a table of their own. The TRANSFORM is PARTITIONED and made "
        "by one query without LATEST, its column list has one SUBJECT, and a connection of type `keys` has the key of "
        "the pseudonyms.",
    ),
    "E320": Code(
        "EXPECT ... OF outside of a TRANSFORM",
        "The rule is not on a TRANSFORM, or combines OF with OVER. EXPECT ... OF a table checks the rows that a "
        "TRANSFORM reads from it, before its query runs. Rules of a COLLECT already check incoming rows, and rules of "
        "a PUBLISH check outgoing rows. OVER checks the result, so it cannot be combined with OF.",
    ),
    "E321": Code(
        "EXPECT ... OF an unread table",
        "The rule names a table that the query does not read by its plain name. The query must read the table directly "
        "or through views. The name must not be that of a view, or of a table that is read only by PAST, HISTORY, FLAT "
        "or another read function.",
    ),
    "E293": Code(
        "unsupported MEASURE",
        "The measure cannot be computed during the write. A MEASURE is an aggregate that Spark computes during the "
        "write, without another pass over the rows. DISTINCT, FILTER, WITHIN GROUP and window functions need one. "
        "OFFLINE runs a separate pass, which supports all of these except window functions.",
    ),
    "E294": Code(
        "invalid comparison with earlier batches",
        "The comparison is not valid here. last_good(aggregate), usual(aggregate) and trend(aggregate, days) are only "
        "allowed in an EXPECT of the batch. The aggregate is computed and stored while a batch is written, and "
        "compared with the values of earlier batches.",
    ),
    "E386": Code(
        "OVER TABLE with REPLACE WHERE",
        "OVER TABLE of a PUBLISH checks the resulting content of the destination. If only a part is replaced, the "
        "other rows belong to others and are unknown here. Use OVER BATCH, or remove REPLACE WHERE.",
    ),
    "E390": Code(
        "invalid OFFLINE",
        "OFFLINE is not valid here. MEASURE ... OFFLINE sets how often one job computes all offline measures of a "
        "table. The interval must consist of whole windows of the table, so that each cadence can combine them. A "
        "table has one such interval, and a PUBLISH has none, because it has no rows of its own.",
    ),
    "E295": Code(
        "duplicate measure name",
        "Two measures of the table have the same name. The name `rows` is reserved, because rows are always counted. "
        "With PROFILE, names of its values such as `id.min` are reserved, as are aggregates in rules that compare "
        "batches.",
    ),
}
QUALITY_AT_WORK: Mapping[str, Code] = {
    "E387": Code(
        "unknown rows at the destination",
        "A rule OVER TABLE of a PUBLISH by label checks all delivered labels in their staged form, and some are "
        "missing. `maintain` keeps them from the time when the rule was declared. `recompute` of the publish restores "
        "earlier ones.",
    ),
    "E755": Code(
        "held batch",
        "A rule with HOLD failed. The batch is sealed but invisible, and its readers wait. `release` makes it visible "
        "unchanged, `retry` and `recompute` make it again, and `skip` discards it.",
    ),
    "E756": Code(
        "release not possible",
        "The held batch can no longer be released. A release makes a batch visible once, as it was sealed. It needs "
        "the slice and unchanged inputs. The batch must still be held and due: it was not made again, and no later "
        "snapshot replaces it. A MERGE publish contains the changes since the deliveries before it, so no earlier "
        "label may have been delivered again.",
    ),
    "E757": Code(
        "rule without a result",
        "The rule could not be evaluated for a row, so the batch stops. Causes are a division by zero, a cast of a "
        "text that is not a number, or an unknown function. A rule that is not a condition, such as a number, also "
        "fails. Functions such as try_divide and try_cast return NULL instead, which is not TRUE.",
    ),
    "E759": Code(
        "revert not possible",
        "The label cannot become the earlier revision again. Its table would show rows that no batch makes from its "
        "inputs, or the slice of the revision is gone. A revision can be taken back while its slice is kept, and while "
        "its inputs have the content that it read. Revert the inputs first if they changed. A publish has no earlier "
        "revisions.",
    ),
}
QUALITY_COMMANDS: Mapping[str, Code] = {
    "E440": Code("no held batch", "None of the labels is held. `release` is only for batches that a rule holds."),
    "E441": Code(
        "no quarantined rows",
        "None of the labels has quarantined rows. `replay` makes batches with quarantined rows again.",
    ),
}
