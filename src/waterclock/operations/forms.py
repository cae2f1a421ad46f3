"""Opens the entities of a project for editing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from waterclock.connectors.forms.collection import FormsCollector
from waterclock.connectors.forms.database import FormsDatabase
from waterclock.connectors.forms.history import require_registered
from waterclock.connectors.forms.values import InvalidValue, parse_value
from waterclock.dpl.project import Project
from waterclock.engine.connections import connections_of
from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.flow.form_rights import FormRights, form_rights_of
from waterclock.flow.forms import Entity, entities_of
from waterclock.operations.formatting import count_words
from waterclock.permissions.users_and_roles import Person, SignIn, owner
from waterclock.similar_names import did_you_mean


@dataclass(frozen=True, slots=True)
class OpenedForm:
    """An entity with its database, and the rights of the person who opened it.

    `forms` are the names of all tables of the project that people edit.
    """

    database: FormsDatabase
    entity: Entity
    forms: frozenset[str]
    rights: FormRights


def open_form(project: Project, table: str, person: Person | None = None) -> OpenedForm:
    """Open the form that a table collects for a person; without one, for the user of this process, who may do all.

    Raises E894 if the table collects none, E893 if its KEY has changed.

    A branch has no forms (E894): its connections are those of its base, whose rows would change.
    """
    if project.bases:
        base = project.bases[0].env
        raise WaterclockError(
            "E894",
            f"{table} is not edited in the branch {project.env}",
            why=f"its form is that of {base}, to which a branch writes nothing",
            fix=f"edit it in {base}: --env {base}",
        )
    entities = entities_of(project.flow)
    if table not in entities:
        known = ", ".join(sorted(entities))
        raise WaterclockError(
            "E894",
            f"{table} is not a table that people edit",
            why=f"these are: {known}" if known else "the project has no COLLECT from a connection of type forms",
            fix=did_you_mean(table, entities) or "choose one of these, or declare a form",
        )
    entity = entities[table]
    collector = connections_of(project).collector(entity.connection)
    if not isinstance(collector, FormsCollector):
        raise TypeError(f"{entity.connection} is not a connection of type forms, which entities_of excludes")
    require_registered(collector.database, entity)
    by = person if person is not None else owner(RunSettings().who, SignIn.COMMAND)
    rights = form_rights_of(project.flow, by, table)
    return OpenedForm(collector.database, entity, frozenset(entities), rights)


def parse_key(entity: Entity, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the stored values of a KEY. Raises E891 for a wrong number of values, or an invalid one."""
    if len(texts) != len(entity.keys):
        raise WaterclockError(
            "E891",
            f"the KEY of {entity.table} has {count_words(len(entity.keys), 'value')}, not {len(texts)}",
            why=f"given: {', '.join(texts)}" if texts else "none is given",
            fix=f"after the table, write one for each of {', '.join(field.name for field in entity.keys)}; write other "
            "values as column=value",
        )
    return tuple(require_value(entity, field.name, text) or "" for field, text in zip(entity.keys, texts, strict=True))


def require_value(entity: Entity, name: str, text: str, *, decimal_comma: bool = False) -> str | None:
    """Return the stored text of an entered value. Raises E891 for an unknown column or an invalid value."""
    field = entity.field(name)
    if field is None:
        names = [each.name for each in entity.fields]
        raise WaterclockError(
            "E891",
            f"{entity.table} has no column {name}",
            why=f"its columns are {', '.join(names)}",
            fix=did_you_mean(name, names) or "choose one of these",
        )
    try:
        value = parse_value(field, text, entity.zone, decimal_comma=decimal_comma)
    except InvalidValue as error:
        raise WaterclockError(
            "E891", f"{field.name} cannot be {text!r}", where=entity.table, why=error.message, fix="correct the value"
        ) from error
    if value is None and field.is_key:
        raise WaterclockError("E891", f"{field.name} is empty", where=entity.table, fix="a KEY needs a value")
    return value
