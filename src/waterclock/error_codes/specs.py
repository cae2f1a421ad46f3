"""Error codes of specifications by example, the `*.feature` files of a project."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

SPECS: Mapping[str, Code] = {
    "E350": Code(
        "invalid Gherkin",
        "The file is not valid Gherkin. A specification is a Feature with Scenarios that consist of steps, as in "
        "Cucumber.",
    ),
    "E351": Code(
        "unknown step", "The text is not one of the supported steps. The error lists the steps, the nearest one first."
    ),
    "E352": Code(
        "missing or unexpected step table",
        "Steps with given or expected rows need a table of cells. Other steps take none.",
    ),
    "E354": Code(
        "unknown column in an example", "Every column of an example must be a column of its table, and can occur once."
    ),
    "E355": Code(
        "invalid cell value",
        "The cell does not fit the type of its column. Times without an offset are UTC. An empty cell and NULL are "
        "null.",
    ),
    "E356": Code("wrong order of steps", "Given rows must come first, then a run, then expectations."),
    "E357": Code(
        "table without given rows",
        "The scenario does not give an input of the table. A specification reads no source, so every input must be "
        "given, even as an empty table.",
    ),
    "E358": Code("duplicate expected key", "The expectation contains the same key twice. A table has one row per key."),
    "E359": Code(
        "invalid type in an example",
        "The type in the header of the example is not valid. A column without a declared type can have one there, such "
        "as `seats:INT`.",
    ),
    "E360": Code("no specifications", "The project's folder specs/ has no *.feature files."),
    "E361": Code("too many rows in an example", "The example is too large. Its rows are compared one by one."),
    "E362": Code(
        "specification page not writable",
        "The living document is one file, in an existing folder. It could not be written.",
    ),
    "E363": Code(
        "unknown rule",
        "The table has no such rule. Failures and warnings of a table are identified by a rule, a column or a code.",
    ),
}
