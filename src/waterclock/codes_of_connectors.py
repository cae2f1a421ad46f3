"""Codes of errors of connectors: what their options say, and what their systems answer."""

from __future__ import annotations

from collections.abc import Mapping

from waterclock.errors import Code

CONNECTIONS: Mapping[str, Code] = {
    "E313": Code(
        "credentials that do not go together",
        "A request to an API is authorized in one way: by a token, a key, a user with a password, or a client with a "
        "secret for which tokens are had. What is secret is named, `auth.token SECRET 'api'`, and never written.",
    ),
    "E314": Code(
        "an option that is not understood",
        "The option is known, and what it says is not: an address, a rate, a format of times, a number too small.",
    ),
    "E315": Code(
        "pages that are not asked for so",
        "Each way of paging has its own options: a page a number, an offset a place, a cursor or a link what the "
        "answer names as next. A window needs the parameter of its start.",
    ),
    "E316": Code(
        "an order that is not kept",
        "`APPEND ORDER BY` is said of a PUBLISH to a system that takes rows one after the other. `PER` names the "
        "columns of what is ordered: without it, all rows are, and one request at a time is on its way.",
    ),
}
OF_APIS: Mapping[str, Code] = {
    "E840": Code(
        "an API that cannot be reached",
        "Nobody answers at the connection's url, or the connection is refused. What was read before is kept, and the "
        "next run goes on with it.",
    ),
    "E841": Code(
        "an API that is busy or fails",
        "It answered 429 or 5xx, or not in time, as often as `tries` says, or asks to wait longer than `patience`. The "
        "next run goes on where this one stopped; `rate` keeps below what is allowed.",
    ),
    "E842": Code(
        "an answer that cannot be read",
        "It was cut off, is no JSON, is bigger than a page may be, or does not hold the records where `rows` says.",
    ),
    "E843": Code(
        "pages that do not end",
        "An API names a page as the next one that was read before, gives the same one over and over, or names one at "
        "another host. Nothing was taken of it.",
    ),
    "E844": Code(
        "an API that refuses our credentials",
        "It answered 401 or 403, or there is no token to be had. Where the secret was changed meanwhile, run again.",
    ),
    "E845": Code(
        "an API that refuses a request",
        "It answered with a 4xx, which the same request would get again, or sends us elsewhere.",
    ),
    "E846": Code(
        "a record that does not fit",
        "A value is not of the type that is declared. The page that holds it is kept as it came: the error names it, "
        "and the record's number in it.",
    ),
    "E847": Code(
        "rows that an API refuses",
        "It answered with a 4xx to a request that brought rows. The others were delivered and are not sent again: once "
        "the table is mended, `retry` sends what was not accepted.",
    ),
    "E848": Code(
        "a delivery that stopped half-way",
        "Some requests of a label were accepted, and then the API could not be reached or failed. The claim stays "
        "open: the next run sends the rest, with the same idempotency keys.",
    ),
    "E849": Code(
        "a delivery that cannot go on",
        "What was sent of a claim is known, and what was to be sent is not: its slice is gone or was changed.",
    ),
}
