"""Opens the entities of a project for editing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from waterclock.connectors.forms.collection import FormsCollector
from waterclock.connectors.forms.database import FormsDatabase
from waterclock.connectors.forms.history import require_registered
from waterclock.connectors.forms.pattern_search import matches
from waterclock.connectors.forms.values import InvalidValue, parse_value
from waterclock.dpl.project import Project
from waterclock.dpl.query.granted_select import usable_grants
from waterclock.dpl.resolve.literals import literal
from waterclock.dpl.resolve.row_conditions import parse_rule_condition
from waterclock.engine.connections import connections_of
from waterclock.engine.run_settings import RunSettings
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Flow
from waterclock.flow.enums import Kind
from waterclock.flow.form_rights import FormRights, form_rights_of
from waterclock.flow.form_rules import bind_rule
from waterclock.flow.form_views import FormView, is_supported, view_of
from waterclock.flow.forms import Entity, entities_of
from waterclock.flow.table_visibility import TableVisibility, form_of, grants_of, is_restricted
from waterclock.operations.formatting import count_words
from waterclock.permissions.users_and_roles import Person, Right, SignIn, owner
from waterclock.similar_names import did_you_mean


@dataclass(frozen=True, slots=True)
class OpenedForm:
    """An entity with its database, and the rights of the person who opened it.

    `forms` are the names of the tables that people edit and that the person sees. `is_restricted`: the person does not
    see all tables, so other pages are closed to them. `unseen` are tables to which columns refer and that the person
    does not see at all. `readable` maps fields to the table and its column to which they refer, if that is no form and
    the person sees all of it.
    """

    database: FormsDatabase
    entity: Entity
    forms: frozenset[str]
    rights: FormRights
    is_restricted: bool = False
    unseen: frozenset[str] = frozenset()
    readable: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def shown(self) -> Entity:
        """The entity with the fields that the person sees."""
        return self.entity if self.rights.view is None else self.rights.view.shown


def open_form(project: Project, table: str, person: Person | None = None) -> OpenedForm:
    """Open the form that a table collects for a person; without one, for the user of this process, who may do all.

    Raises E894 if the table collects none, or none that the person sees, E946 if the form cannot show what is granted
    to the person, E893 if its KEY has changed.

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
    by = person if person is not None else owner(RunSettings().who, SignIn.COMMAND)
    entities = visible_entities_of(project.flow, by)
    if table not in entities:
        known = ", ".join(sorted(entities))
        raise WaterclockError(
            "E894",
            f"{table} is not a table that people edit",
            why=f"these are: {known}" if known else "the project has no COLLECT from a connection of type forms",
            fix=did_you_mean(table, entities) or "choose one of these, or declare a form",
        )
    entity = _with_conditions(entities[table])
    view = _view_of(project, entity, by)
    collector = connections_of(project).collector(entity.connection)
    if not isinstance(collector, FormsCollector):
        raise TypeError(f"{entity.connection} is not a connection of type forms, which entities_of excludes")
    require_registered(collector.database, entity)
    rights = replace(form_rights_of(project.flow, by, table), view=view)
    is_limited = is_restricted(project.flow, by)
    referred = {field.reference.table for field in entity.fields if field.reference is not None}
    unseen = frozenset(name for name in referred if form_of(project.flow, by, name) is TableVisibility.NONE)
    readable = _find_readable(project.flow, entity, by) if by.may(Right.QUERY) else {}
    return OpenedForm(collector.database, entity, frozenset(entities), rights, is_limited, unseen, readable)


def _find_readable(flow: Flow, entity: Entity, person: Person) -> dict[str, tuple[str, str]]:
    """Map fields to the table and column to which they refer: tables that are no forms, and that the person sees."""
    forms, found = entities_of(flow), {}
    for each in entity.fields:
        table = None if each.reference is None else flow.tables.get(each.reference.table)
        if each.reference is None or table is None or table.name in forms or table.kind is Kind.PUBLISH:
            continue
        columns = each.reference.columns or table.keys
        if len(columns) == 1 and form_of(flow, person, table.name) is TableVisibility.WHOLE:
            found[each.name] = table.name, columns[0]
    return found


def visible_entities_of(flow: Flow, person: Person) -> dict[str, Entity]:
    """Map the name of each table that people edit to its entity, of those that the person sees, whole or in part."""
    return {
        name: entity
        for name, entity in entities_of(flow).items()
        if form_of(flow, person, name) is not TableVisibility.NONE
    }


def _with_conditions(entity: Entity) -> Entity:
    """Return a form whose rules are evaluated when rows are saved, as far as forms can evaluate them."""
    fields = entity.fields_by_name
    return replace(
        entity, rules=tuple(bind_rule(rule, parse_rule_condition(rule.text), fields, matches) for rule in entity.rules)
    )


def _view_of(project: Project, entity: Entity, person: Person) -> FormView | None:
    """Return what a person sees of a form; None if all. Raises E946 if the form cannot show it."""
    grants = grants_of(project.flow, person, entity.table)
    if grants is None:
        return None
    attributes = {name: literal(value) for name, value in person.attributes.items()}
    view, why = None, "no GRANT SELECT to them has its KEY without a mask"
    if is_supported(grants, entity):
        view = view_of(usable_grants(grants, attributes), entity, person)
    else:
        why = "a form evaluates only comparisons with literals and attributes, BETWEEN, IN and IS NULL"
    if view is None:
        raise WaterclockError(
            "E946",
            f"the form of {entity.table} is not shown to {person.name}",
            why=why,
            fix="use the page of queries, /query; or ask an administrator for another GRANT SELECT",
        )
    return view


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
