"""Resolves FLAT(u): follows the REFERENCES of table u to its parents and their parents, and checks each join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from waterclock.errors import WaterclockError
from waterclock.flow.checks import TableWithRules, may_repeat_keys
from waterclock.flow.declarations import Column, Flat, FlatJoin, Read
from waterclock.flow.enums import Mode, TableType
from waterclock.flow.merge_settings import Temporal
from waterclock.flow.references import Reference, pair_with_keys

_ALIKE = {"INTEGER": "INT", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT", "REAL": "FLOAT", "DEC": "DECIMAL",
          "NUMERIC": "DECIMAL", "TIMESTAMP_LTZ": "TIMESTAMP"}  # fmt: skip


class ReferringTable(TableWithRules, Protocol):
    """The properties of a table that FLAT needs, for declarations and for compiled tables."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def type(self) -> TableType: ...  # noqa: D102
    @property
    def mode(self) -> Mode: ...  # noqa: D102
    @property
    def temporal(self) -> Temporal | None: ...  # noqa: D102
    @property
    def keys(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def hidden_columns(self) -> tuple[str, ...]: ...  # noqa: D102


def flat_of(
    tables: Mapping[str, ReferringTable], name: str, errors: list[WaterclockError], *, is_exact: bool = False
) -> Flat | None:
    """Return FLAT of a table: its joins with all parents and their parents. Return None if a join is invalid.

    Errors are appended to `errors`. They have the position of the referring column, except errors for a table without
    REFERENCES, and for `is_exact` without versions. Undeclared parents are not reported here.
    """
    table = tables[name]
    if not any(column.references for column in table.columns.named):
        errors.append(
            WaterclockError(
                "E237",
                f"{name} refers to no other table",
                why="FLAT joins the tables that REFERENCES name",
                fix=(
                    f"declare it for a column of {name}, as in customer REFERENCES dim.customer, or read {name} "
                    "without FLAT"
                ),
            )
        )
        return None
    if is_exact and table.temporal is None:
        errors.append(
            WaterclockError(
                "E237",
                f"{name} has no versions that 'exact' could split",
                why="each of its rows has one time, and is returned once",
                fix=f"write FLAT({name})",
            )
        )
        return None
    return _ParentFollower(tables, errors, is_exact=is_exact).flat(name, ())


@dataclass(frozen=True, slots=True)
class _ParentFollower:
    tables: Mapping[str, ReferringTable]
    errors: list[WaterclockError]
    is_exact: bool

    def flat(self, name: str, path: tuple[str, ...]) -> Flat | None:
        table = self.tables[name]
        groups: dict[tuple[str, str], list[tuple[Column, Reference]]] = {}
        for column in table.columns.named:
            if column.references is not None:
                key = (column.references.table, (column.references.role or "").lower())
                groups.setdefault(key, []).append((column, column.references))
        roles: dict[str, str] = {}
        joins: list[FlatJoin | None] = []
        for (target, role), group in groups.items():
            if role and roles.setdefault(role, target) != target:
                self._refuse_repeated_role(table, group[0][0], group[0][1], roles[role])
                joins.append(None)
            else:
                joins.append(self._join(table, target, group, (*path, name)))
        made = tuple(join for join in joins if join is not None)
        is_temporal = table.temporal is not None
        flat = Flat(Read(name), made, is_temporal, self.is_exact and is_temporal)
        return flat if len(made) == len(joins) else None

    def _join(
        self, table: ReferringTable, target: str, group: list[tuple[Column, Reference]], path: tuple[str, ...]
    ) -> FlatJoin | None:
        parent = self.tables.get(target)
        if parent is None:
            return None
        before = len(self.errors)
        parent_columns = self._parent_columns(table, parent, group, path)
        at = self._reference_time(table, parent, group)
        if parent_columns is None or len(self.errors) > before:
            return None
        for (column, _), theirs in zip(group, parent_columns, strict=True):
            self._pair(table, column, parent, theirs)
        inner = self.flat(target, path)
        if inner is None or len(self.errors) > before:
            return None
        columns = tuple(column.name for column, _ in group)
        return FlatJoin(inner, columns, parent_columns, group[0][1].role, at, _find_unused_hidden(parent))

    def _parent_columns(
        self,
        table: ReferringTable,
        parent: ReferringTable,
        group: list[tuple[Column, Reference]],
        path: tuple[str, ...],
    ) -> tuple[str, ...] | None:
        column, reference = group[0]
        if parent.name in path:
            way = " → ".join([*path[path.index(parent.name) :], parent.name])
            self._refuse(
                column,
                f"{table.name} refers to " + ("itself" if parent is table else f"{parent.name} in a circle"),
                why=f"FLAT would never end: {way}",
                fix=f"leave FLAT out and join {parent.name} in the query as often as needed",
            )
            return None
        if parent.type is TableType.PARTITIONED or parent.mode is Mode.APPEND:
            how = "PARTITIONED" if parent.type is TableType.PARTITIONED else "an APPEND table"
            self._refuse(
                column,
                f"{parent.name} is {how}, and cannot be a parent",
                why="a parent has one row for each key, or one version at each time",
                fix=f"make a MERGE or TEMPORAL table of it, and refer to that in {table.name}",
            )
            return None
        if not parent.keys:
            if parent.mode is Mode.REPLACE:  # a missing key of the other modes is reported at their declaration
                self._refuse(
                    column,
                    f"{parent.name} has no key",
                    why=f"a row of {table.name} finds its parent by the parent's key",
                    fix=f"mark it in {parent.name}, as in (id KEY, *)",
                )
            return None
        if parent.mode is Mode.REPLACE and may_repeat_keys(parent):
            self._refuse(
                column,
                f"{parent.name} may have several rows with one key",
                why=f"its KEY only warns or holds, and FLAT would return a row of {table.name} once for each of them",
                fix=(
                    f"write KEY in {parent.name}, which fails such a batch, or KEY ORDER BY … ELSE DROP, which keeps "
                    "one row"
                ),
            )
            return None
        named = [name for _, each in group for name in each.columns] or pair_with_keys(
            [it.name for it, _ in group], parent.keys
        )
        spelt = {key.lower(): key for key in parent.keys}
        if len(named) == len(group) == len(spelt) and {name.lower() for name in named} == spelt.keys():
            return tuple(spelt[name.lower()] for name in named)
        self._refuse_pairs(table, parent, group, reference.role)
        return None

    def _refuse_pairs(
        self, table: ReferringTable, parent: ReferringTable, group: list[tuple[Column, Reference]], role: str | None
    ) -> None:
        column, _ = group[-1]
        names = [each.name for each, _ in group]
        keys = f"({', '.join(parent.keys)})"
        if len(group) > len(parent.keys):
            what = f"{' and '.join(names)} all refer to {parent.name}" if len(names) > 2 else None
            what = what or f"{' and '.join(names)} both refer to {parent.name}"
            self._refuse(
                column,
                f"{what} in the role {role}" if role else what,
                why=f"its key is {keys}, so they are {len(names)} parents, and would add the same columns",
                fix=f"give each a ROLE of its own, as in {column.name} REFERENCES {parent.name} ROLE {column.name}",
            )
            return
        theirs = [name for _, each in group for name in each.columns]
        self._refuse(
            column,
            f"{', '.join(names)} of {table.name} " + (f"names ({', '.join(theirs)}) of " if theirs else "refers to ")
            + parent.name,
            why=f"its key is {keys}, and a parent is found by all of it",
            fix=f"refer to it by as many columns, each as {column.name} REFERENCES {parent.name}"
            + (f" ROLE {role}" if role else "") + ", in the order of the key",
        )  # fmt: skip

    def _reference_time(
        self, table: ReferringTable, parent: ReferringTable, group: list[tuple[Column, Reference]]
    ) -> str | None:
        times = {(each.at or "").lower(): (column, each.at) for column, each in group if each.at is not None}
        if len(times) > 1:
            column, _ = list(times.values())[1]
            names = " and ".join(str(at) for _, at in times.values())
            self._refuse(
                column,
                f"one parent has two times, {names}",
                why=f"its columns together are one key of {parent.name}",
                fix="use the same AT, or another ROLE",
            )
            return None
        column, at = next(iter(times.values()), (group[0][0], None))
        if at is not None and (parent.temporal is None or table.temporal is not None):
            self._refuse_time(table, parent, column, at)
            return None
        if at is None and parent.temporal is not None and table.temporal is None:
            self._refuse(
                column,
                f"{column.name} refers to {parent.name} without a time",
                why=f"{parent.name} is TEMPORAL, and has a version for each time",
                fix=f"declare {column.name} REFERENCES {parent.name} AT the column of {table.name} with the time",
            )
        time = next((each for each in table.columns.named if each.name.lower() == (at or "").lower()), None)
        if time is not None and time.type is not None and plain_type(time.type) != "TIMESTAMP":
            self._refuse(
                column,
                f"the time {at} of {table.name} is of type {time.type}",
                why="versions are valid between instants; a date or a string is an instant only in a zone",
                fix=f"declare {at} TIMESTAMP, and convert it where the zone is known",
            )
        return time.name if time else at

    def _refuse_time(self, table: ReferringTable, parent: ReferringTable, column: Column, at: str) -> None:
        if parent.temporal is None:
            self._refuse(
                column,
                f"{parent.name} is not TEMPORAL, but is referred to AT {at}",
                why="it has one row for each key, the same at all times",
                fix=f"make it TEMPORAL, or leave AT {at} out",
            )
            return
        self._refuse(
            column,
            f"{table.name} is TEMPORAL, and refers to {parent.name} AT {at}",
            why="its own versions choose those of its parents",
            fix=f"leave AT {at} out",
        )

    def _pair(self, table: ReferringTable, column: Column, parent: ReferringTable, theirs: str) -> None:
        if table.temporal is not None and column.name not in table.temporal.outputs((column.name,)):
            self._refuse(
                column,
                f"{column.name} is not an attribute of {table.name}",
                why="versions do not have the time column, nor columns that order or delete rows",
                fix=f"list {column.name} in TRACK, if it is not the time, or refer by another column",
            )
        other = next((each for each in parent.columns.named if each.name.lower() == theirs.lower()), None)
        if column.type and other and other.type and plain_type(column.type) != plain_type(other.type):
            self._refuse(
                column,
                f"{column.name} is of type {column.type}, and {theirs} of {parent.name} of type {other.type}",
                why="Spark would convert one to the other without a warning",
                fix="declare the same type for both, and cast where the columns are made",
            )

    def _refuse_repeated_role(self, table: ReferringTable, column: Column, reference: Reference, first: str) -> None:
        self._refuse(
            column,
            f"role {reference.role} of {table.name} is used twice",
            why=f"it is the suffix of the columns of {first}, and would be that of the columns of {reference.table}",
            fix="give one of them a different ROLE",
        )

    def _refuse(self, column: Column, what: str, *, why: str, fix: str) -> None:
        self.errors.append(WaterclockError("E237", what, where=str(column.place), why=why, fix=fix))


def _find_unused_hidden(parent: ReferringTable) -> tuple[str, ...]:
    """Return the HIDDEN columns of a parent that its own REFERENCES do not use, so that joins need not read them."""
    leading = {each.name for each in parent.columns.named if each.references is not None}
    leading |= {each.references.at for each in parent.columns.named if each.references and each.references.at}
    return tuple(name for name in parent.hidden_columns if name not in leading)


def plain_type(kind: str) -> str:
    """Normalize the spelling of a type for comparisons: capitals, no spaces, one name per type (`long` → `BIGINT`)."""
    text = "".join(kind.upper().split())
    name, bracket, rest = text.partition("(")
    return _ALIKE.get(name, name) + bracket + rest
