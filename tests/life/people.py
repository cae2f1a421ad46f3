"""Declarations about people: personal columns, subjects, masks of a PUBLISH and grants, with their rules.

The rules are those of docs/howto/find-personal-data.md, mask-and-encrypt.md, replicate.md and
grant-columns-and-rows.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from tests.life.part import Known, Part
from tests.life.rows import Row, Rows, Slices, Version, token_of

if TYPE_CHECKING:
    from tests.life.declarations import Declared

Value = int | str
READER, STRANGER = "anna", "ben"
"""A user of a role that has grants, and one of a role that has none."""
MOST = 2
"""The reader's attribute: conditions of grants compare the key with it."""
KEYS = "CREATE CONNECTION pii TYPE keys OPTIONS (key.1 SECRET 'pii', current '1');"
SECRET = "0123456789abcdef" * 4
PEOPLE = f"""
[roles]
analyst = ["look", "query"]
clerk = ["look", "query"]
[users.{READER}]
roles = ["analyst"]
attributes.most = "{MOST}"
[users.{STRANGER}]
roles = ["clerk"]
attributes.most = "9"
"""
MASKS = {
    "mask_text": "v AS (mask_text(CAST(v AS STRING), 1))",
    "generalize": "v AS (generalize(v, width => 10))",
}
DECISIONS = {"": "v", "TAGS (pii)": "v TAGS (pii)", "TAGS (no_pii)": "v TAGS (no_pii)"} | MASKS


@dataclass(frozen=True)
class Personal(Part):
    """The value is personal data, and so are values computed from it; rows are unchanged."""

    word = "TAGS (pii)"

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return not of.has(Impersonal)

    @property
    def of_value(self) -> str:
        return "TAGS (pii)"


@dataclass(frozen=True)
class Impersonal(Part):
    """The value is not personal data, even if it is computed from such data; rows are unchanged."""

    word = "TAGS (no_pii)"
    chance = 0.15

    @classmethod
    def fits(cls, of: Declared) -> bool:
        return not of.has(Personal)

    @property
    def of_value(self) -> str:
        return "TAGS (no_pii)"


@dataclass(frozen=True)
class Subject(Part):
    """The key identifies a person; rows are unchanged."""

    word = "SUBJECT"

    @property
    def of_key(self) -> str:
        return "SUBJECT person"


@dataclass(frozen=True)
class Tokens(Subject):
    """The key identifies a person, and the table stores its token: rules and keys of the table see tokens."""

    word = "TOKENS"

    @property
    def of_key(self) -> str:
        return "SUBJECT person TOKENS"

    @property
    def words(self) -> frozenset[str]:
        return frozenset({self.word, Subject.word})

    def stay(self, rows: Rows, past: Slices, at: Known) -> Rows:
        del past, at
        return tuple(row._replace(k=token_of(row.k)) for row in rows)


@dataclass(frozen=True)
class Apart(Subject):
    """The person's columns are in a separate table, and the rows have a pseudonym, which erasure does not change."""

    word = "APART"

    @property
    def clause(self) -> str:
        return "APART (w)"

    @property
    def column(self) -> str:
        return ", w STRING"

    @property
    def words(self) -> frozenset[str]:
        return frozenset({self.word, Subject.word})


@dataclass(frozen=True)
class Persons(Subject):
    """The table that is declared by APART of another one: a row for each person of a label."""

    word = "persons of APART"

    def stay(self, rows: Rows, past: Slices, at: Known) -> Rows:
        del past, at
        return tuple(Row(key, 0, 0) for key in sorted({row.k for row in rows}))


@dataclass(frozen=True)
class Granted(Part):
    """Readers of a role see some rows and columns of the table, or a mask; users without a grant do not see it."""

    form: str = "rows"
    is_of_value: bool = False
    """Whether the reader's attribute bounds the value: keys that are tokens have no order."""
    word = "GRANT"

    @classmethod
    def drawn(cls, random: Random, of: Declared) -> Part:
        del of
        return cls(random.choice(("rows", "columns", "mask")))

    @property
    def words(self) -> frozenset[str]:
        return frozenset({self.word, f"GRANT of {self.form}"})

    def statement(self, name: str) -> str:
        columns = {"rows": "", "columns": " (* EXCEPT (v))", "mask": f" (k, {MASKS['generalize']})"}[self.form]
        bound = "v <= 100 * " if self.is_of_value else "k <= "
        where = "" if self.form == "columns" else f" WHERE {bound}CAST(USER('most') AS BIGINT)"
        return f"GRANT SELECT{columns} ON {name} TO (analyst){where};"

    def columns(self, whole: Sequence[str]) -> list[str]:
        """Return the columns of a table that the reader sees."""
        return {"rows": list(whole), "columns": [it for it in whole if it != "v"], "mask": ["k", "v"]}[self.form]

    def seen(self, rows: Iterable[Row | Version]) -> list[tuple[int, Value | None]]:
        """Return the key and the value of each row that the reader sees; None if the value is not granted."""
        if self.form == "columns":
            return [(key, None) for key in sorted(row.k for row in rows)]
        mask = "generalize" if self.form == "mask" else ""
        shown = [row for row in rows if (row.v <= 100 * MOST if self.is_of_value else row.k <= MOST)]
        return sorted((row.k, masked(mask, row.v)) for row in shown)


@dataclass(frozen=True)
class Shown:
    """The result of a query of all columns of a table as a user."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def values(self) -> list[tuple[int, Value | None]]:
        """Return the key and the value of each row; None if no value is shown."""
        k, v = self.columns.index("k"), self.columns.index("v") if "v" in self.columns else None
        return sorted((row[k], None if v is None else row[v]) for row in self.rows)


def published_value(decision: str) -> str:
    """Return the value's entry in the list of a PUBLISH."""
    return DECISIONS[decision]


def is_masked(decision: str) -> bool:
    """Return whether a value is sent as a masked text."""
    return decision in MASKS


def masked(decision: str, value: int) -> Value:
    """Return a value as readers see it, masked or unchanged."""
    if decision == "generalize":
        low = value // 10 * 10
        return f"{low}-{low + 9}"
    if decision == "mask_text":
        kept, others = str(value)[:1], str(value)[1:]
        # a text of one character is masked as a whole
        return kept + "n" * len(others) if others else "n"
    return value


def is_personal(flow: dict[str, Declared], name: str) -> bool:
    """Return whether the value of a table is personal data, by its own tag or by that of its inputs."""
    table = flow[name]
    if table.has(Personal, Impersonal):
        return table.has(Personal)
    if table.kind == "PUBLISH":
        return is_personal(flow, table.of)
    return any(is_personal(flow, of) for of in table.value_inputs(flow) - {name})
