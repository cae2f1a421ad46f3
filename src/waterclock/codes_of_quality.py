"""Error codes of rules and their actions: ladders, quarantined rows, held batches."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

QUALITY: Mapping[str, Code] = {
    "E270": Code(
        "a step that is never reached",
        "ELSEs make a ladder: each step but the last says AT MOST how many broken rows it bears, and the next one is "
        "for more. What goes beyond the last step fails. A limit stands behind an action.",
    ),
    "E271": Code(
        "a ladder in a wrong order",
        "Rows are set aside or dropped while they are written, before anybody knows how many there will be: so that is "
        "the first step or none. Each later step does more than the one before: WARN, HOLD, FAIL.",
    ),
    "E272": Code(
        "rows of a rule of the batch",
        "A rule that holds an aggregate is true of the batch or not. It breaks no row that could be set aside, dropped "
        "or counted: say what happens to the batch.",
    ),
    "E273": Code("a limit that is none", "AT MOST takes a number of rows, or a share between 0 and 100 PERCENT."),
    "E274": Code(
        "two ladders for one key",
        "All KEY columns are one key, which is broken as a whole: what happens then is said once, or alike.",
    ),
    "E275": Code(
        "more rules than can be marked",
        "What a row breaks is kept as the bits of one number: a table that sets rows aside has up to 62 demands, "
        "types, NOT NULL and KEY among them.",
    ),
    "E276": Code(
        "rows without a place",
        "A row is set aside with the batch of its window. The column that puts rows into windows must be of its "
        "type to do so; and a table that finds rows by their key takes none without one, not with a warning either.",
    ),
    "E280": Code(
        "lines that nobody reads",
        "EXPECT parsed() asks of each line of a collect's files whether it can be read as what the file is: a rule by "
        "itself, of a COLLECT from a connection that has lines, said once.",
    ),
    "E281": Code(
        "a reference that finds no parent",
        "REFERENCES with an ELSE looks each row's parent up: by the parent's KEY, or by the columns named behind it, "
        "one for each column that refers. Columns that refer to one table in one ROLE are one key together.",
    ),
    "E282": Code(
        "two ladders for one reference",
        "Columns that refer to one table in one ROLE find their parent together: what happens where there is none is "
        "said once, or alike.",
    ),
    "E283": Code(
        "a reference of another type",
        "A key is found by its value, and values of two types are alike only once one was turned into the other: in "
        "silence, and not always as it was meant.",
    ),
    "E288": Code(
        "one row of a key where none goes",
        "KEY PAST ... and KEY ORDER BY ... say which row of a key stays. The others go, so they say where to: ELSE "
        "DROP or ELSE QUARANTINE is their first step.",
    ),
    "E289": Code(
        "a key that looks back where no labels are made again",
        "KEY PAST d asks the table's own slices of the time d up to the window's end. Where an earlier one is "
        "restated, the later ones follow: that can be said of a PARTITIONED TRANSFORM.",
    ),
    "E296": Code(
        "two orders of one key",
        "A MERGE, and a TEMPORAL, finds rows by their key, and its ORDER BY says which of several counts. None of them "
        "is too much.",
    ),
    "E297": Code(
        "what no source tells of a row",
        "In a COLLECT's columns _source.file is the file that a row came from, and _source.row where it is in it, from "
        "1: the line of a text, the row of a sheet, or the row's number.",
    ),
    "E298": Code(
        "rows that are made, not collected",
        "_source tells where a collected row came from. A transform makes its rows of tables, and can name the columns "
        "in which a COLLECT keeps it.",
    ),
    "E299": Code(
        "a source that does not tell",
        "Files tell of each row from which of them it came. A database tells no more of a row than its columns.",
    ),
    "E319": Code(
        "HIDDEN where it cannot be",
        "A HIDDEN column is stored with each row, comes to who names it, and is in no `*`. It is said once, of a "
        "column of a COLLECT or a TRANSFORM, not of a key, and not of all of them. Lists of a PUBLISH and a VIEW say "
        "what passes; a NATURAL JOIN goes by what a `*` brings.",
    ),
    "E320": Code(
        "a rule of an input where there is one side alone",
        "EXPECT ... OF a table is asked of the rows that a TRANSFORM reads of it, before its query sees them. Rules of "
        "a COLLECT are asked of what comes in already, those of a PUBLISH of what goes out; OVER asks what is made.",
    ),
    "E321": Code(
        "a rule of what is not read",
        "EXPECT ... OF a table is asked of the rows of its plain name in the query, itself or through views. It names "
        "that table: no view, and none that is read by PAST, HISTORY, FLAT or another read function alone.",
    ),
    "E293": Code(
        "a measure that cannot be counted in passing",
        "A MEASURE is an aggregate that Spark counts while the rows are written: no second pass over them. DISTINCT, "
        "FILTER, WITHIN GROUP and windows need one. OFFLINE is a pass of its own, which takes all but windows.",
    ),
    "E294": Code(
        "nothing to compare with",
        "last_good(aggregate), usual(aggregate) and trend(aggregate, days) belong in an EXPECT of the batch: the "
        "aggregate is counted of each batch while that is written, kept with it, and compared with what it came to in "
        "batches before.",
    ),
    "E386": Code(
        "a rule of what is not known",
        "OVER TABLE of a PUBLISH asks what the destination will hold. Of one that is replaced in part the rest is "
        "others', and none of it is known here.",
    ),
    "E390": Code(
        "OFFLINE where it cannot be",
        "MEASURE ... OFFLINE says how often one job counts all that is offline of a table: at most as often as its "
        "windows come, and over whole windows, which are put together for each cadence. A PUBLISH has "
        "no rows of its own.",
    ),
    "E295": Code("a measure's name twice", "Each measure of a table has a name of its own; `rows` are counted anyway."),
}
QUALITY_AT_WORK: Mapping[str, Code] = {
    "E387": Code(
        "a destination whose rows are not known any more",
        "A rule OVER TABLE of a PUBLISH by label asks all labels that were delivered, as they were staged. `maintain` "
        "keeps those from when the rule is declared; what went before comes back by `recompute` of the publish.",
    ),
    "E755": Code(
        "a batch that is held",
        "An audit said HOLD: the batch is sealed, shown to nobody, and whatever reads it waits. `release` shows it as "
        "it is, `retry` and `recompute` make it again, `skip` gives it up.",
    ),
    "E756": Code(
        "a release that cannot be",
        "A held batch is shown as it was sealed, once. That needs its slice, that nothing it had read has changed "
        "since, and that it is held still and due: nobody made it again, and no later snapshot stands for it.",
    ),
    "E757": Code(
        "a rule without an answer",
        "A rule is TRUE of a row, or it is not; a division by zero or a cast of what is no number is neither, and "
        "stops the batch. Functions such as try_divide and try_cast give NULL instead, which is not TRUE. So does a "
        "rule that is no condition, as a bare number, or that calls what is no function.",
    ),
}
QUALITY_COMMANDS: Mapping[str, Code] = {
    "E440": Code(
        "nothing is held",
        "`release` is for batches that a rule holds back; none of the labels is one.",
    ),
    "E441": Code(
        "nothing was set aside",
        "`replay` makes those batches again of which rows were set aside; none of the labels is one.",
    ),
}
