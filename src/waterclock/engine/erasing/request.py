"""Resolves a request to erase persons: the subject, the values, the secret key, and their keyed hashes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from waterclock.batches.erasures import DISTINCTIVE, ERASED, Erasure, hash_of, value_pattern
from waterclock.dpl.query.subject_columns import SubjectColumns
from waterclock.dpl.resolve.subjects import SubjectType, subject_type
from waterclock.engine.batch.erased_rows import find_all_subject_columns
from waterclock.engine.erasing.former_tables import EarlierCode, FormerTable, find_earlier_code, find_former_tables
from waterclock.engine.run_context import RunContext
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.flow.key_connections import CURRENT
from waterclock.similar_names import did_you_mean
from waterclock.storage.folds.slices_without_rows import Persons
from waterclock.storage.lake import vault_folder
from waterclock.storage.token_vault import find_tokens


@dataclass(frozen=True, slots=True)
class ErasureRequest:
    """The persons to erase. `values` are the texts of their values, `key` names the secret key of `hashes`.

    `tokens` are those that columns with TOKENS have instead of the values. `hashes` are those of values and tokens.
    `former` are the tables that the flow does not declare any more; `columns` has those of them that can be searched.
    `earlier` are the tables with slices of earlier code; `columns` has those of them, perhaps without a column.
    """

    subject: str
    columns: SubjectColumns
    values: frozenset[str] = field(repr=False)
    key: str
    hashes: frozenset[str] = field(repr=False)
    tokens: frozenset[str] = field(default=frozenset(), repr=False)
    former: tuple[FormerTable, ...] = ()
    earlier: Mapping[str, EarlierCode] = field(default_factory=dict)

    @property
    def searched(self) -> frozenset[str]:
        """The texts by which rows of the persons are found."""
        return self.values | self.tokens

    def persons(self, table: str, inputs: Iterable[str] = ()) -> Persons:
        """Return the persons with their columns in a table and in its input tables."""
        then = next((each.known for each in self.former if each.name == table and each.columns), None)
        known = self.columns.columns if then is None else then

        def persons(of: Mapping[str, tuple[str, ...]]) -> Persons:
            return Persons(of.get(table, ()), self.searched, {name: of.get(name, ()) for name in inputs})

        earlier = self.earlier[table].known if table in self.earlier else {}
        return replace(persons(known), earlier={code: persons(columns) for code, columns in earlier.items()})

    def columns_of(self, table: str) -> tuple[str, ...]:
        """Return the columns of the subject in a table, also those that only slices of earlier code have."""
        earlier = self.earlier[table].known.values() if table in self.earlier else ()
        names = [*self.columns.columns.get(table, ()), *(name for each in earlier for name in each.get(table, ()))]
        return tuple(dict.fromkeys(names))

    def redactor(self) -> Callable[[str], str]:
        """Return the function that replaces the persons' values and tokens of six characters or more in a text."""
        pattern = value_pattern(value for value in self.searched if len(value) >= DISTINCTIVE)
        return str if pattern is None else partial(pattern.sub, ERASED)


def build_request(work: RunContext, subject: str, values: Collection[str], keys: str | None = None) -> ErasureRequest:
    """Resolve a subject and the values of persons. `keys` names the connection of the secret key, if there are several.

    Raises E460 for an unknown subject, E461 without a key, E462 without valid values.
    """
    declared = find_all_subject_columns(work)
    known = declared.get(subject, SubjectColumns())
    former = find_former_tables(work, subject, known)
    earlier = find_earlier_code(work, subject, known, former)
    were_declared = [
        *(each.columns for each in former),
        *(of for each in earlier.values() for of in each.known.values()),
    ]
    if subject not in declared and not any(were_declared):
        raise WaterclockError(
            "E460",
            f"unknown subject {subject}",
            why=f"the flow declares {', '.join(declared)}"
            if declared
            else "no column of the flow has the clause SUBJECT",
            fix=did_you_mean(
                subject, declared, otherwise="declare it on a column: customer_id BIGINT SUBJECT customer"
            ),
        )
    flows = [work.flow, *(each.work.flow for each in former if each.work is not None)]
    flows += [flow for each in earlier.values() for flow in each.flows]
    found = _parse_values(flows, subject, values)
    connection = _find_connection(work, keys)
    key = f"{connection}/{work.keys.connections[connection].options[CURRENT]}"
    secret = work.keys.only(connection).derive()[key].hash
    tokens = frozenset(find_tokens(vault_folder(work.lake.root, subject), found).values())
    hashes = frozenset(hash_of(secret, subject, value) for value in found | tokens)
    of_former = {each.name: each.columns for each in former if each.columns}
    columns = replace(known, columns={**dict.fromkeys(earlier, ()), **known.columns, **of_former})
    return ErasureRequest(subject, columns, found, key, hashes, tokens, former, earlier)


def hashes_under(work: RunContext, request: ErasureRequest, erasure: Erasure) -> frozenset[str]:
    """Return the hashes of a request's persons under the key with which an erasure was recorded."""
    if request.key == erasure.key:
        return request.hashes
    connection, _, _ = erasure.key.partition("/")
    keys: Mapping[str, object] = work.keys.connections
    secret = work.keys.only(connection).derive().get(erasure.key) if connection in keys else None
    return (
        frozenset()
        if secret is None
        else frozenset(hash_of(secret.hash, request.subject, value) for value in request.searched)
    )


def require_no_value(request: ErasureRequest, why: str) -> None:
    """Raise E462 if a reason contains the value of a person: it is recorded, and would stay."""
    if any(len(value) >= DISTINCTIVE and value.lower() in why.lower() for value in request.searched):
        raise WaterclockError(
            "E462",
            "the reason contains the value of a person",
            why="it is recorded with the erasure, so the value would stay there",
            fix='write it without the value: --why "request of 3 May"',
        )


def _parse_values(flows: Iterable[Flow], subject: str, values: Collection[str]) -> frozenset[str]:
    """Return the texts of the values as Spark casts them from the subject's type.

    If a declaration of another time has texts, and one has integers, the values are texts.
    """
    if not values or not all(value.strip() for value in values):
        raise WaterclockError(
            "E462",
            "a value is empty" if values else "no persons are named",
            why="a value identifies one person",
            fix=f'name them: `waterclock erase {subject} 42 --why "request of 3 May"`, or --keys-from FILE',
        )
    types = {
        subject_type(column.type)
        for flow in flows
        for table in flow.tables.values()
        for column in table.columns.named
        if column.subject == subject and column.type is not None
    }
    if types != {SubjectType.INTEGER}:
        return frozenset(values)
    wrong = next((value for value in values if not value.removeprefix("-").isdecimal()), None)
    if wrong is not None:
        raise WaterclockError(
            "E462",
            f"a value of {len(wrong)} characters is no integer",
            why=f"the columns of subject {subject} are integers",
            fix="write the number as it is stored in the column",
        )
    return frozenset(str(int(value)) for value in values)


def _find_connection(work: RunContext, keys: str | None) -> str:
    names = list(work.keys.connections)
    if keys is None and len(names) == 1:
        return names[0]
    if keys in names:
        return keys
    declare = "CREATE CONNECTION pii TYPE keys OPTIONS (key.1 SECRET 'pii/1', current '1');"
    why, fix = "the flow has no connection of type keys", f"declare one: {declare}"
    if names:
        why, fix = f"the connections of type keys are {', '.join(names)}", f"add --keys {names[0]}"
        if keys is not None:
            fix = did_you_mean(keys, names) or fix
    what = "there is no key for the erasure" if keys is None else f"{keys} is no connection of type keys"
    raise WaterclockError("E461", what, why=why, fix=fix)
