"""Codes of errors of connectors: of the kinds of files, and of what a unit's options say of them."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

OF_CONNECTORS: Mapping[str, Code] = {
    "E335": Code(
        "an option of another form",
        "The text of an option is read further: rows is a path, outer a list of paths with names, positions a list of "
        "fields with their first and last character, range the first and the last cell of a part of a sheet.",
    ),
    "E336": Code(
        "an outer without rows",
        "`outer` names what the records of a JSON document take along of what encloses them. Where the records are, "
        "`rows` says.",
    ),
    "E337": Code(
        "a compression that a format has not",
        "Files are published as csv, json, parquet, avro or excel, each with the compressions that its readers know.",
    ),
    "E338": Code(
        "a kind of file that needs an option",
        "An XML document does not say which of its elements are rows, and lines of fixed width do not say where their "
        "fields are: `rows` and `positions` do.",
    ),
    "E339": Code(
        "a read or a write that is not for a notebook",
        "wc.read reads what a source holds now, and wc.write brings a frame to a destination outside of the ledger: "
        "not to what a PUBLISH of the flow writes, not where the environment does not publish, and by the modes that "
        "the destination takes.",
    ),
}
CONNECTORS_AT_WORK: Mapping[str, Code] = {
    "E880": Code(
        "XML that declares entities",
        "An XML document with entities of its own can grow without bounds as it is read, or bring in files of the "
        "machine that reads it. It is refused before anything of it is read; data need none.",
    ),
    "E881": Code(
        "a zip that leads elsewhere",
        "A member of a zip bears a name that is absolute, goes up, or is a link: made to be written outside of where "
        "it is unpacked. The zip is refused; members are never written by their names anyway.",
    ),
    "E882": Code(
        "a zip that would grow too large",
        "The members of a zip have more bytes together than `most_mb` allows, one is packed more densely than data "
        "are, or there are too many. It is refused before it is unpacked. Excel's files are zips as well.",
    ),
    "E883": Code(
        "a zip whose members cannot be read",
        "A zip has no member that is wanted, one with a password, or one of a kind that is not read from a zip, such "
        "as a zip within it. `member` says which of them are data.",
    ),
    "E884": Code(
        "a part of a workbook that is not there",
        "The sheet that is named is not in the workbook, it is empty, or the first row of what is read holds no names; "
        "or a row holds a value in a column without a name. `sheet` and `range` say what is data.",
    ),
    "E885": Code(
        "merged cells among the data",
        "One value stands for several cells of a sheet. A `range` leaves them out; with `merged 'fill'` each of the "
        "cells has the value.",
    ),
    "E886": Code(
        "a file too large to be read whole",
        "Excel's and Avro's files of a bucket are brought whole to one of Spark's workers, which bounds their size.",
    ),
    "E887": Code(
        "no records where they are said to be",
        "None of the documents of a file holds anything at the path that OPTIONS (rows '...') says.",
    ),
    "E888": Code(
        "a kind of file that needs a library",
        "Avro is read and written by fastavro, Excel read by python-calamine and written by openpyxl: extras of "
        "Waterclock, which the machines of a cluster's workers need too.",
    ),
    "E889": Code(
        "rows that a kind of file cannot hold",
        "A sheet of Excel holds 1048576 rows and texts of 32767 signs, none of them control characters; Avro's names "
        "are letters, digits and _. Nothing was delivered.",
    ),
}
