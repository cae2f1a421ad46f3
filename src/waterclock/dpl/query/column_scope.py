"""Determines the columns of a query's result, and reports column names that are certainly unknown or ambiguous."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from waterclock.dpl.query.determinism import check_bare_call
from waterclock.dpl.query.key_types import check_key_types, may_call_key_of
from waterclock.dpl.query.now_texts import now_texts
from waterclock.dpl.query.projections import family_in, projection_of, time_windows_of
from waterclock.dpl.query.visible_columns import UNKNOWN, Entry, Frame, Names, Output, VisibleSource, list_sources
from waterclock.dpl.syntax.pipes import is_piped
from waterclock.dpl.syntax.source_text import SourceText, Span
from waterclock.errors import WaterclockError
from waterclock.similar_names import find_similar

UNITS = frozenset("YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND ALL".split())
# names in these clauses denote columns of the SELECT's result, or else columns of its sources
_RESULT_CLAUSES = frozenset({"order", "sort", "cluster", "distribute", "having", "qualify", "limit", "offset"})
_MOST_LISTED = 12
_PIPED = "the step before"


class Resolver:
    """Resolves the column names of one query, and collects errors in `errors`.

    `columns_at(offset)` returns the columns of the table whose name starts at that offset in the query's text.
    `alias_at(offset)` returns the alias of a table to which the query gives none.
    """

    def __init__(self, source: SourceText, columns_at: Callable[[int], Output], alias_at: Callable[[int], str]) -> None:
        self.source = source
        self.columns_at = columns_at
        self.alias_at = alias_at
        self.errors: list[WaterclockError] = []
        self._value_checks = (now_texts, check_key_types) if may_call_key_of(source.text) else (now_texts,)

    def output(self, query: Any, outer: Frame | None = None, ctes: Mapping[str, Output] | None = None) -> Output:
        """Return the columns of a query's result, as far as they are known; add an error for each wrong name."""
        behind: list[tuple[Any, Mapping[str, Output]]] = []
        ctes = self._ctes(query, outer, dict(ctes or {}))
        while isinstance(query, exp.SetOperation):  # a thousand branches are a thousand levels deep
            behind.append((query.right, ctes))
            query = query.left
            ctes = self._ctes(query, outer, dict(ctes))
        made = self._resolve_branch(query, outer, ctes)
        for right, known in reversed(behind):
            self.output(right, outer, known)
        return made

    def _resolve_branch(self, query: Any, outer: Frame | None, ctes: Mapping[str, Output]) -> Output:
        if isinstance(query, exp.Subquery):
            return self.output(query.this, outer, ctes)
        if isinstance(query, exp.Select):
            return self._select(query, outer, ctes)
        self._check_values(query, Frame(outer=outer))
        return UNKNOWN

    def _ctes(self, query: Any, outer: Frame | None, ctes: dict[str, Output]) -> dict[str, Output]:
        clause = query.args.get("with_")
        for cte in clause.expressions if clause else ():
            name = cte.alias.lower()
            if clause.args.get("recursive"):
                ctes[name] = _apply_alias(cte, UNKNOWN)
            ctes[name] = _apply_alias(cte, self.output(cte.this, outer, ctes))
        return ctes

    def _select(self, query: exp.Select, outer: Frame | None, ctes: Mapping[str, Output]) -> Output:
        frame = Frame(outer=outer)
        from_ = query.args.get("from_")
        if from_ is not None:
            self._add_source(from_.this, frame, ctes)
        joins = query.args.get("joins") or ()
        in_sight: list[int] = []
        for join in joins:
            before = len(frame.sources)
            self._add_source(join.this, frame, ctes)
            if join.method == "NATURAL":
                frame.is_natural = True
                frame.merged |= _list_star_columns(frame.sources[:before]) & _list_star_columns(frame.sources[before:])
            frame.merged.update(column.name.lower() for column in join.args.get("using") or ())
            if join.args.get("kind") in {"SEMI", "ANTI"}:
                frame.hidden.add(frame.sources[-1].alias.lower())
            in_sight.append(len(frame.sources))
        for lateral in query.args.get("laterals") or ():
            self._add_source(lateral, frame, ctes)
        frame.aliases = {name.lower() for name in map(_alias, query.expressions) if name}
        frame.aliases |= {name for name, _ in time_windows_of(query)}
        for part, value in query.args.items():
            if part not in {"from_", "with_", "hint", "laterals", "joins"}:
                self._check_names(value, frame, ctes, None if part in _RESULT_CLAUSES else frame.visible())
                self._check_values(value, frame)
        for join, count in zip(joins, in_sight, strict=True):
            self._check_names(join.args.get("on"), frame, ctes, frame.sources[:count])
            self._check_values(join.args.get("on"), frame)
            self._check_using(join, frame)
        return self._resolve_projections(query, frame)

    def _add_source(self, node: Any, frame: Frame, ctes: Mapping[str, Output]) -> None:
        """Add a source in FROM or JOIN to the scope of its SELECT."""
        for join in node.args.get("joins") or () if isinstance(node, exp.Table | exp.Subquery) else ():
            self._add_source(join.this, frame, ctes)
            frame.is_natural = True  # which sources the conditions of these joins can use is not determined
        if isinstance(node, exp.Table):
            start = start_of(node)
            called = node.alias_or_name or ("" if start is None else self.alias_at(start))
            if is_piped(node):
                frame.is_piped = True
                called = node.alias or _PIPED
            frame.sources.append(VisibleSource(called, self._table(node, ctes)))
        elif isinstance(node, exp.Subquery):
            if isinstance(node.this, exp.Table):  # brackets around joins
                self._add_source(node.this, frame, ctes)
                return
            columns = self.output(node, frame.outer, ctes)
            frame.is_piped = frame.is_piped or is_piped(node)
            called = _PIPED if is_piped(node) else node.alias_or_name
            frame.sources.append(VisibleSource(called, _unless_pivoted(node, _apply_alias(node, columns))))
        elif isinstance(node, exp.Lateral):
            is_query = isinstance(node.this, exp.Subquery)
            columns = self.output(node.this, frame, ctes) if is_query else UNKNOWN
            if not is_query:
                self._check_names(node.this, frame, ctes, None)
                self._check_values(node.this, frame)
            frame.sources.append(VisibleSource(node.alias_or_name, _apply_alias(node, columns)))
        else:
            alias = node.args.get("alias") if node is not None else None
            self._check_values(node, frame)
            frame.sources.append(VisibleSource(node.alias_or_name if alias else "", _apply_alias(node, UNKNOWN)))

    def _table(self, node: exp.Table, ctes: Mapping[str, Output]) -> Output:
        if isinstance(node.this, exp.Identifier) and not node.args.get("db") and node.name.lower() in ctes:
            columns = ctes[node.name.lower()]
        else:
            start = start_of(node)
            columns = UNKNOWN if start is None else self.columns_at(start)
        return _unless_pivoted(node, _apply_alias(node, columns))

    def _check_names(
        self, node: Any, frame: Frame, ctes: Mapping[str, Output], strict: Sequence[VisibleSource] | None
    ) -> None:
        """Check every column name below a node; subqueries get `frame` as their outer scope.

        `strict`: the sources in scope. An unqualified name is ambiguous if several of them have it. None in clauses
        such as ORDER BY, in which names of the SELECT's result take precedence.
        """
        waiting = [node]
        while waiting:  # a sum of a thousand columns is a thousand levels deep
            node = waiting.pop()
            if isinstance(node, list):
                waiting.extend(reversed(node))
            elif isinstance(node, exp.Query):
                self.output(node, frame, ctes)
            elif isinstance(node, exp.Column):
                self._check_column(node, frame, strict)
            elif isinstance(node, exp.Star):
                self._check_star_exclusions(node, frame)
                waiting.append(node.args.get("replace"))
            elif isinstance(node, exp.Expression) and not isinstance(node, exp.DataType):
                # a type is not walked: the name of a collation is no column
                waiting.extend(reversed([*node.iter_expressions()]))

    def _check_values(self, value: Any, frame: Frame) -> None:
        """Report strings such as 'now' that Spark reads as the time of the run, and wrong types in calls of `key_of`.

        Subqueries are not searched.
        """
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, exp.Expression):
                for check in self._value_checks:
                    self.errors.extend(check(node, self.source, lambda column: family_in(column, frame)))

    def _check_column(self, node: exp.Column, frame: Frame, strict: Sequence[VisibleSource] | None) -> None:
        parts = node.parts
        first = parts[0]
        if isinstance(first, exp.Star):
            return
        source = frame.source(first.name) if len(parts) > 1 else None
        if source is not None:
            self._check_qualified(parts, source, frame)
        elif not frame.has_column(first.name):
            name = ".".join(part.name for part in parts)
            if len(parts) > 1 and frame.may_pipe() and frame.has_column(parts[1].name):
                return  # the alias may belong to the input of an earlier step
            if len(parts) == 1 and first.name.upper() in UNITS:
                return
            moment = check_bare_call(self.source, first) if len(parts) == 1 else None
            if moment is not None:
                self.errors.append(moment)
                return
            self._report_unknown(first, name, frame.all_sources(), end=parts[-1])
        elif strict is not None and (owners := frame.owners(first.name, strict)):
            self._report_ambiguous(first, first.name, owners)

    def _check_star_exclusions(self, star: exp.Star, frame: Frame) -> None:
        """Report names in EXCEPT, REPLACE, |> DROP and |> SET that are not columns of the `*` before them."""
        if isinstance(star.parent, exp.Column | exp.Dot) or any(seen.names is None for seen in frame.visible()):
            return
        excluded = [each.parts[0] for each in star.args.get("except_") or () if len(getattr(each, "parts", ())) == 1]
        excluded += [each.args["alias"] for each in star.args.get("replace") or () if isinstance(each, exp.Alias)]
        for name in excluded:
            if not any(name.name.lower() in (seen.names or ()) for seen in frame.visible()):
                self._report_unknown(name, name.name, frame.visible())

    def _check_qualified(self, parts: Sequence[Any], source: VisibleSource, frame: Frame) -> None:
        column, known = parts[1], source.names
        if isinstance(column, exp.Star) or known is None:
            return
        if column.name.lower() in source.output.twice:
            self._report_ambiguous(column, f"{source.alias}.{column.name}", [source])
        elif column.name.lower() not in known and not frame.has_column(parts[0].name):
            self._report_unknown(column, f"{source.alias}.{column.name}", [source])

    def _report_ambiguous(self, node: Any, name: str, owners: Sequence[VisibleSource]) -> None:
        start = node.meta.get("start")
        if start is None:
            return
        aliases = list(dict.fromkeys(owner.alias for owner in owners if owner.alias))
        bare = name.rpartition(".")[2]
        is_one = len(aliases) < 2
        twice = f"{aliases[0] if aliases else 'the input'} has two columns of this name"
        which = " or ".join(f"{'t' if alias == _PIPED else alias}.{bare}" for alias in aliases)
        naming = "name the previous step with |> AS t, and " if _PIPED in aliases else ""
        self.errors.append(
            self.source.span(start, node.meta.get("end", start) + 1).refuse(
                "E239",
                f"{name} is ambiguous",
                why=twice if is_one else f"{' and '.join(aliases)} have a column of this name",
                fix="rename one of them in the query that computes it: … AS another_name"
                if is_one
                else f"{naming}write {which}",
            )
        )

    def _report_unknown(self, node: Any, name: str, sources: list[VisibleSource], *, end: Any = None) -> None:
        start = node.meta.get("start")
        if start is None:
            return
        last = (end if end is not None else node).meta.get("end", start)
        known = {
            column if alias == _PIPED else f"{alias}.{column}": column
            for alias, columns in list_sources(sources)
            for column in (columns or {}).values()
        }
        error = unknown_column(self.source.span(start, last + 1), name, known, list_sources(sources))
        bare = name.rpartition(".")[2]
        if any(bare.lower() in source.output.beneath for source in sources):
            error.fix = f"{bare} is HIDDEN, and * does not include it: name it, as in SELECT {bare}, * FROM ..."
        self.errors.append(error)

    def _check_using(self, join: Any, frame: Frame) -> None:
        for column in join.args.get("using") or ():
            source = next((source for source in frame.sources if source.alias == join.this.alias_or_name), None)
            if source is not None and source.names is not None and column.name.lower() not in source.names:
                self._report_unknown(column, f"{source.alias}.{column.name}", [source])

    def _resolve_projections(self, query: exp.Select, frame: Frame) -> Output:
        entries: list[Entry] = []
        is_whole = True
        beneath: frozenset[str] = frozenset()
        for projection in query.expressions:
            if isinstance(projection, exp.Dot) and isinstance(projection.expression, exp.Star):
                self._star_of_call(projection)
            made = projection_of(projection, frame)
            entries.extend(made.entries)
            is_whole = is_whole and made.is_whole
            beneath |= made.beneath
        return Output(tuple(entries), is_whole=is_whole, beneath=beneath)

    def _star_of_call(self, node: exp.Dot) -> None:
        written = self.source.span_of(node)
        if written is not None:
            self.errors.append(
                written.refuse(
                    "E210",
                    ".* comes after a function call",
                    why="Spark allows it only after the name of a column or of a table",
                    fix="name the call in a subquery: SELECT made.* FROM (SELECT ... AS made FROM ...)",
                )
            )


def start_of(node: exp.Table) -> int | None:
    """Return the offset of a table's name, or of the function in its place; None if the parser generated the node."""
    first = node.parts[0] if isinstance(node.this, exp.Identifier) else node.this
    start: int | None = first.meta.get("start") if first is not None else None
    return start


def _alias(node: Any) -> str | None:
    return node.alias if isinstance(node, exp.Alias) else None


def _apply_alias(node: Any, columns: Output) -> Output:
    """Return columns with the names of an alias: `t(a, b)`."""
    alias = node.args.get("alias") if node is not None else None
    renamed = alias.args.get("columns") if alias is not None and isinstance(alias, exp.TableAlias) else None
    return columns.rename_columns(column.name for column in renamed) if renamed else columns


def _list_star_columns(sources: Iterable[VisibleSource]) -> set[str]:
    """Return the known columns that a `*` over these sources includes, in lower case."""
    return {entry.name.lower() for source in sources for entry in source.output.entries if not entry.is_hidden}


def _unless_pivoted(node: Any, columns: Output) -> Output:
    return UNKNOWN if node.args.get("pivots") else columns


def unknown_column(
    span: Span, name: str, known: Mapping[str, str], sources: Iterable[tuple[str, Names | None]]
) -> WaterclockError:
    """Build the error for a column that no source in scope has. `known` maps qualified names to columns."""
    bare = name.rpartition(".")[2]
    close = find_similar(bare, list(dict.fromkeys(known.values())))
    whole = [next(full for full, column in known.items() if column == match) for match in close]
    shown = whole if "." in name else close
    lists = [f"{alias} has {_format_columns(columns)}" for alias, columns in sources if columns is not None]
    return span.refuse(
        "E203",
        f"unknown column {name}",
        why="; ".join(lists) or None,
        fix=f"did you mean {' or '.join(shown)}?"
        if shown
        else f"write an existing column, or add {bare} where the table is made",
    )


def _format_columns(columns: Names) -> str:
    names = list(columns.values())
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(names[:_MOST_LISTED]) + more if names else "no columns"
