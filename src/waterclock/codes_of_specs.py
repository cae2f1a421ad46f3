"""Error codes of specifications by example."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

SPECS: Mapping[str, Code] = {
    "E350": Code("no Gherkin", "A specification is a Feature with Scenarios, each of steps, as Cucumber reads them."),
    "E351": Code(
        "an unknown step",
        "There are few steps, and every scenario is written with them. The error lists them, with the nearest.",
    ),
    "E352": Code(
        "a step and its table", "What is given and what is expected is a table of cells; other steps take none."
    ),
    "E354": Code("an unknown column in an example", "The columns of an example are columns of its table, each once."),
    "E355": Code(
        "a cell that is no value of its type",
        "Types are those of the table. Times are UTC where no offset is said; an empty cell and NULL are no value.",
    ),
    "E356": Code("steps out of order", "What is given comes first, then something runs, then something is expected."),
    "E357": Code(
        "a table that is not given",
        "A specification reads no source: all that a table is made of is given, if only as empty.",
    ),
    "E358": Code("a key that is expected twice", "A key has one row in a table, so two can never be found."),
    "E359": Code("a wrong type in an example", "A column whose type nothing declares can say it, as `seats:INT`."),
    "E360": Code("no specifications", "Specifications are files *.feature in the project's folder specs/."),
    "E361": Code("too many rows for an example", "An example is small: its rows are compared one by one."),
    "E362": Code("a page that cannot be written", "The living document is one file, in a folder that is there."),
    "E363": Code("an unknown rule", "What a table fails with or warns of is one of its rules, a column, or a code."),
}
