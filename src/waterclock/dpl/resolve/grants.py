"""Resolves and checks GRANT statements: their tables, columns, masks, conditions, roles and users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from sqlglot import exp

from waterclock.dpl.config.model import Config
from waterclock.dpl.query.builtins import FUNCTIONS, SECRET, called_functions
from waterclock.dpl.query.granted_select import USER, attributes_in
from waterclock.dpl.query.spark_functions import AGGREGATES, GENERATORS, WINDOWED
from waterclock.dpl.query.visible_columns import Names
from waterclock.dpl.resolve.called_functions import check_calls_in_expressions
from waterclock.dpl.resolve.form_grants import check_form_grant, is_form, not_a_form_error, resolve_row_condition
from waterclock.dpl.resolve.literals import with_literals
from waterclock.dpl.resolve.rules import check_condition, check_expression
from waterclock.dpl.resolve.schemas import Schemas, check_expression_columns, unknown_column_of
from waterclock.dpl.resolve.unresolved_table import UnresolvedTable
from waterclock.dpl.resolve.views import nearest_table
from waterclock.dpl.syntax.aggregate_calls import has_aggregate
from waterclock.dpl.syntax.cursor import unknown_variable
from waterclock.dpl.syntax.statements import (
    Expression,
    ParsedGrantColumns,
    ParsedGrantTarget,
    ParsedName,
    Statement,
)
from waterclock.errors import WaterclockError
from waterclock.flow.declarations import Function
from waterclock.flow.enums import Kind
from waterclock.flow.grants import Grant, GrantedColumn, GrantRight
from waterclock.similar_names import did_you_mean

_BY_ROW = "it is computed for each row from the row's own columns, and from attributes of the user"


@dataclass(frozen=True, slots=True)
class GrantResolver:
    """Resolves the GRANTs of a project, after its tables. All errors are appended to `errors`."""

    drafts: Mapping[str, UnresolvedTable]
    schemas: Schemas
    functions: Mapping[str, Function]
    config: Config
    errors: list[WaterclockError]

    def resolve(self, statements: Iterable[Statement]) -> tuple[Grant, ...]:
        """Return the grants of all statements that have no error, in the order declared."""
        found: list[Grant] = []
        for statement in statements:
            before = len(self.errors)
            grant = self._resolve_grant(statement)
            if len(self.errors) == before:
                found.append(grant)
            elif statement.failed:  # its other parts cannot be checked
                continue
        self._check_that_someone_sees(found)
        return tuple(found)

    def _resolve_grant(self, statement: Statement) -> Grant:
        tables, to = self._resolve_tables(statement), self._resolve_grantees(statement)
        declared = statement.value("COLUMNS", ParsedGrantColumns)
        where = statement.value("WHERE", Expression)
        known = [(name, self.schemas.columns_of(name)) for name in tables]
        columns = declared.columns if declared is not None else ()
        right, before = GrantRight(statement.name), len(self.errors)
        if right is not GrantRight.SELECT:
            self.errors.extend(check_form_grant(statement, right, columns))
        if declared is not None:
            self.errors.extend(_check_columns([*(each.name for each in declared.columns), *declared.excepted], known))
        for column in columns:
            if column.mask is not None:
                having = [(name, own) for name, own in known if own is None or column.name.text.lower() in own]
                self._check_expression(column.mask, f"the mask of {column.name.text}", having)
        if where is not None:
            self._check_expression(where, "the condition", known)
            self.errors.extend(check_condition(where))
        expressions = [each for each in (where, *(column.mask for column in columns)) if each is not None]
        self.errors.extend(check_calls_in_expressions(expressions, self.functions))
        for expression in expressions:
            self._check_attributes(expression, to)
        variables, names = self.config.variables, frozenset(name.text for name in to)
        condition = None
        if where is not None and len(self.errors) == before:
            drafts = [self.drafts[name] for name in tables]
            condition = resolve_row_condition(where, right, drafts, variables, self.errors)
        return Grant(
            tables,
            names.intersection(self.config.roles),
            tuple(
                GrantedColumn(each.name.text, None if each.mask is None else with_literals(each.mask, variables))
                for each in columns
            ),
            declared is None or declared.is_open,
            frozenset(name.text.lower() for name in declared.excepted) if declared is not None else frozenset(),
            None if where is None else with_literals(where, variables),
            names.intersection(self.config.users),
            statement.span.place,
            right,
            condition,
        )

    def _resolve_tables(self, statement: Statement) -> tuple[str, ...]:
        """Return the tables that a GRANT names; publishes and companion tables cannot have grants of their own."""
        target = statement.value("ON", ParsedGrantTarget)
        if target is None:
            return ()
        own = [
            name for name, it in self.drafts.items()
            if it.kind is not Kind.PUBLISH and it.declared.late_rows is None and it.declared.marks is None
        ]  # fmt: skip
        if statement.name != GrantRight.SELECT:
            own = [name for name in own if is_form(self.drafts[name])]
        views = self.schemas.queries.views
        schema, _, name = target.text.rpartition(".")
        if name == "*":
            found = tuple(each for each in own if not schema or each.startswith(f"{schema}."))
            if not found:
                fix = did_you_mean(schema, sorted({each.split(".")[0] for each in own}))
                if statement.name != GrantRight.SELECT:
                    fix = fix or "name a table that collects a form"
                self.errors.append(target.span.refuse("E213", f"no table matches {target.text}", fix=fix))
            return found
        if target.text in own:
            return (target.text,)
        if target.text in views:
            error = target.span.refuse(
                "E382", f"{target.text} is a view", why="a view shows what its reader sees of the tables that it reads",
                fix=f"grant the tables that {target.text} reads",
            )  # fmt: skip
        elif target.text in self.drafts and statement.name != GrantRight.SELECT:
            error = not_a_form_error(target, statement.name, own)
        elif target.text in self.drafts:
            draft = self.drafts[target.text]
            what = "a destination" if draft.kind is Kind.PUBLISH else "a table that follows the grants of another one"
            error = target.span.refuse(
                "E382", f"{target.text} is {what}", fix=f"grant one of {', '.join(own[:5])}" if own else None
            )
        else:
            error = target.span.refuse("E213", f"unknown table {target.text}", fix=nearest_table(target.text, own))
        self.errors.append(error)
        return ()

    def _resolve_grantees(self, statement: Statement) -> tuple[ParsedName, ...]:
        names: tuple[ParsedName, ...] = statement.value("TO", tuple) or ()
        roles, users = self.config.roles, self.config.users
        for name in names:
            if name.text in roles and name.text in users:
                self.errors.append(
                    name.span.refuse(
                        "E382", f"{name.text} is a role and a user", why="the grant would be of both",
                        fix="rename one of them in waterclock.toml",
                    )
                )  # fmt: skip
            elif name.text not in roles and name.text not in users:
                known = [*roles, *users]
                self.errors.append(
                    name.span.refuse(
                        "E382",
                        f"unknown role or user {name.text}",
                        why=f"waterclock.toml declares {', '.join(known)}" if known else "none is declared",
                        fix=did_you_mean(name.text, known, otherwise="declare it below [roles] in waterclock.toml"),
                    )
                )
        return names

    def _check_expression(self, expression: Expression, what: str, known: Sequence[tuple[str, Names | None]]) -> None:
        """Report an expression that is not deterministic, or uses more than the columns of one row."""
        self.errors.extend(check_expression(expression, allowed=frozenset({USER})))
        for name in expression.variables:
            if name not in self.config.variables:
                self.errors.append(unknown_variable(name, expression.span, self.config.variables))
        tree, called = expression.tree, {node.name.lower() for node in expression.tree.find_all(exp.Anonymous)}
        why = fix = None
        if has_aggregate(tree) or called & AGGREGATES or tree.find(exp.Window) is not None or called & WINDOWED:
            why, fix = _BY_ROW, "compute it as a column in a TRANSFORM, and grant that table"
        elif tree.find(exp.UDTF, exp.Explode, exp.Posexplode, exp.Inline) is not None or called & GENERATORS:
            why, fix = _BY_ROW, "write an expression with one value for each row"
        elif tree.find(exp.Star) is not None:
            why, fix = "a column that is added later would be shown too", "name the columns"
        if why is not None:
            self.errors.append(
                expression.span.refuse("E382", f"{what} is not an expression of one row", why=why, fix=fix)
            )
        used = called_functions({**FUNCTIONS, **self.functions}, [expression.text])
        keyed = next((function.name for function in used if function.name in SECRET), None)
        python = next((function.name for function in used if function.python is not None), None)
        if keyed is not None:
            fix = "make the column with it in a TRANSFORM, and grant that table"
            self.errors.append(
                expression.span.refuse("E382", f"{what} calls {keyed}", why="queries get no keys", fix=fix)
            )
        if python is not None:
            fix = "write it in SQL, with CREATE FUNCTION ... RETURN, or make the column in a TRANSFORM"
            self.errors.append(
                expression.span.refuse("E382", f"{what} calls {python}, a function in Python", why=_BY_ROW, fix=fix)
            )
        for name, own in known:
            if own is not None:
                self.errors.extend(check_expression_columns(expression, own, name))

    def _check_attributes(self, expression: Expression, to: Sequence[ParsedName]) -> None:
        """Report attributes that no user of the grant has, and calls of USER in another form."""
        attributes, is_valid = attributes_in(expression.text)
        if not is_valid:
            self.errors.append(
                expression.span.refuse(
                    "E382", "USER takes the name of an attribute", fix="write one text, as in USER('land')"
                )
            )
        names, all_users = {name.text for name in to}, self.config.users
        # a group of the provider may give the role to any user
        by_group = not names.isdisjoint(self._roles_of_groups())
        users = [user for name, user in all_users.items() if by_group or not names.isdisjoint({name, *user.roles})]
        oidc = self.config.sign_in.oidc
        claimed = oidc.attributes if oidc is not None else ()
        known = sorted({*claimed, *chain.from_iterable(user.attributes for user in users)})
        self.errors.extend(
            expression.span.refuse(
                "E382", f"no user has the attribute {attribute}",
                why=f"users of this grant have {', '.join(known)}" if known else "users of this grant have none",
                fix=did_you_mean(attribute, known, otherwise=f"add it to a user: attributes.{attribute} = ..."),
            )
            for attribute in attributes if attribute not in known
        )  # fmt: skip

    def _roles_of_groups(self) -> frozenset[str]:
        """Return the roles that members of groups of the OpenID Connect provider get."""
        oidc = self.config.sign_in.oidc
        return frozenset(chain.from_iterable(oidc.group_roles.values())) if oidc is not None else frozenset()

    def _check_that_someone_sees(self, grants: Sequence[Grant]) -> None:
        """Report each table whose grants reach no declared user and no group of the OpenID Connect provider."""
        users = self.config.users.items()
        names = self._roles_of_groups().union(each for name, user in users for each in (name, *user.roles))
        reported: set[str] = set()
        readers = [grant for grant in grants if grant.right is GrantRight.SELECT]
        for grant in readers:
            for table in grant.tables:
                all_to = frozenset[str]().union(*(each.roles | each.users for each in readers if table in each.tables))
                if table in reported or not names.isdisjoint(all_to) or grant.place is None:
                    continue
                reported.add(table)
                self.errors.append(
                    WaterclockError(
                        "E382", f"the grants on {table} reach no user", where=str(grant.place),
                        why=f"no user and no sign-in group has the role {' or '.join(sorted(all_to))}",
                        fix='add the role to a user: [users."anna@example.com"], roles = [...]',
                    )
                )  # fmt: skip


def _check_columns(names: Sequence[ParsedName], known: Sequence[tuple[str, Names | None]]) -> Iterator[WaterclockError]:
    """Yield errors for columns that are named twice, or that none of the tables has."""
    seen: set[str] = set()
    for name in names:
        lower = name.text.lower()
        if lower in seen:
            yield name.span.refuse("E212", f"{name.text} is named twice", fix="remove one")
        seen.add(lower)
        if known and all(own is not None and lower not in own for _, own in known):
            table, own = known[0]
            yield unknown_column_of(name.span, name.text, own or {}, table)
