"""Explains why a label of a table differs between two environments, two times or two revisions, by the audit trails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from waterclock.batches.earlier_revisions import REVERTED
from waterclock.dpl.statement_texts import statement_texts
from waterclock.engine.query.compared_revisions import TableRevisions, read_table_revisions
from waterclock.engine.query.query import require_table
from waterclock.engine.run_opening import open_workplace
from waterclock.errors import WaterclockError
from waterclock.operations.code_differences import describe_change, renamed_tables
from waterclock.operations.compared_environment import naming_environment, query_other_ledger, require_declared
from waterclock.operations.comparing import (
    ComparisonContext,
    ComparisonRequest,
    bounds_of,
    not_made_error,
    open_comparison,
)
from waterclock.operations.difference_causes import Cause, CauseKind, Trail, find_causes
from waterclock.operations.project_opening import one_table, select_tables
from waterclock.timelabel.label import label_of

if TYPE_CHECKING:
    from waterclock.batches.former_names import FormerNames
    from waterclock.dpl.project import Project
    from waterclock.engine.run_context import RunContext
    from waterclock.flow.declarations import Table
    from waterclock.ledger.ledger import Ledger
    from waterclock.ledger.read.revisions import CommittedRevision
    from waterclock.selection import Labels

_REQUESTED = " requested"
_MOST_REQUESTS = 20  # causes of which the event that requested the newer revision is read
_Revisions = Mapping[datetime, "CommittedRevision"]


@dataclass(frozen=True, slots=True)
class Request:
    """The request of a user that made a label again, such as `recollect requested`."""

    what: str
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class ExplainedCause:
    """A first difference with its details.

    `parts` are the changed parts of the code, as in `plan` of a branch. `source` is what a collect reads.
    """

    cause: Cause
    parts: tuple[str, ...] = ()
    source: str | None = None
    request: Request | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a label of a table differs. `before` and `after` name both sides, as in `Comparison`.

    `label` is the oldest of the selected labels that differs, else the newest of them; `differing` counts those that
    differ, and `equal` the others. Without a difference there are no causes. A walk that was stopped after `compared`
    batches is not complete.
    """

    table: str
    label: datetime
    before: str
    after: str
    env: str
    revisions: tuple[CommittedRevision | None, CommittedRevision | None]
    causes: tuple[ExplainedCause, ...] = ()
    differing: int = 0
    equal: int = 0
    compared: int = 0
    is_complete: bool = True
    against: str | None = None
    as_known: datetime | None = None

    @property
    def differs(self) -> bool:
        """Whether the label differs."""
        return self.differing > 0


def explain_difference(project: Project, request: ComparisonRequest) -> Explanation:
    """Return the first differences upstream of a label that differs. `request` selects one table.

    Only the ledgers are read: no Spark is started, and no slice is opened.

    Raises E412 if one side was never made, E510 to E514 for the selection, E515 for several tables, E516 if there is
    nothing to compare, E706 for a destination, E106 and E511 to E512 for the instant.
    """
    _, by_table = select_tables(project.flow, list(request.tables), request.labels)
    name, _ = one_table(project.flow, " ".join(request.tables))
    require_table(project.flow, name)
    with open_workplace(project, is_question=True) as work:
        context, against = open_comparison(work, request), request.against
        labels = by_table.get(name)
        bounds = bounds_of(work.flow.tables[name], labels)
        own = read_table_revisions(work.ledger, work.flow.tables[name], bounds) if name in context.made else None
        side = _Side(context, name, labels, own or TableRevisions())
        if against is None:
            return side.explain(work.ledger, None)
        require_declared(against, name)
        declared = against.flow.tables[name]

        def explain(ledger: Ledger) -> Explanation:
            known = {record.name for record in ledger.reads.tables()}
            other = read_table_revisions(ledger, declared, bounds) if name in known else TableRevisions()
            return side.explain(ledger, other)

        with naming_environment(project.env):
            return query_other_ledger(against, explain)


@dataclass(frozen=True, slots=True)
class _Side:
    """The current side of an explained table: its revisions, and the selected labels."""

    context: ComparisonContext
    name: str
    labels: Labels | None
    own: TableRevisions

    @property
    def work(self) -> RunContext:
        return self.context.work

    def explain(self, ledger: Ledger, other: TableRevisions | None) -> Explanation:
        """Explain the difference from the revisions in another ledger, or from earlier ones in the same."""
        after: _Revisions = self.own.current()
        before: _Revisions
        if other is not None:
            before = other.current()
        elif self.context.known is not None:
            before = self.own.known_at(self.context.known)
        else:
            before = self.own.before_current()
            after = {label: each for label, each in after.items() if label in before}
            if not before:
                self._require_made(self.own.current())
                raise self._single_error()
        self._require_made({**before, **after})
        differing = [label for label in sorted({*before, *after}) if not _are_same(before.get(label), after.get(label))]
        both = [label for label in differing if label in before and label in after]
        label = next(iter(both or differing), max((*before, *after)))
        old, new = before.get(label), after.get(label)
        found = Explanation(
            self.name,
            label,
            self.context.before,
            self.context.after,
            self.work.project.env,
            (old, new),
            differing=len(differing),
            equal=len({*before, *after}) - len(differing),
            against=None if self.context.request.against is None else self.context.request.against.env,
            as_known=self.context.known,
        )
        return self._add_causes(found, ledger) if differing else found

    def _require_made(self, made: _Revisions) -> None:
        if not made:
            raise not_made_error(self.name, self.labels)

    def _single_error(self) -> WaterclockError:
        newest = max(self.own.current())
        which = self.name if self.labels is None else f"{self.name}@{self.labels}"
        return WaterclockError(
            "E516",
            f"{which} has no earlier revision",
            where=f"{self.name}@{label_of(newest)}",
            why="each of its labels was made once",
            fix="`waterclock diff --why` compares with --against ENV, or --as-known TICK",
        )

    def _add_causes(self, found: Explanation, ledger: Ledger) -> Explanation:
        old, new = found.revisions
        former = tuple(each.declared.former() for each in (ledger, self.work.ledger))
        codes = _Codes(self.work, ledger, former)
        walked = find_causes(
            Trail(ledger),
            Trail(self.work.ledger),
            (found.table, found.label),
            (None if old is None else old.claim, None if new is None else new.claim),
            codes.are_equal,
        )
        order = {name: at for at, name in enumerate(self.work.flow.order)}
        causes = sorted(walked.found, key=lambda it: (order.get(it.table, -1), it.table, it.kind, it.labels))
        explained = tuple(
            ExplainedCause(
                each,
                codes.describe_change(each) if each.kind is CauseKind.CODE else (),
                _source_of(self.work.flow.tables.get(each.table)) if each.kind is CauseKind.SOURCE else None,
                self._find_request(each) if at < _MOST_REQUESTS else None,
            )
            for at, each in enumerate(causes)
        )
        return replace(found, causes=explained, compared=walked.compared, is_complete=walked.is_complete)

    def _find_request(self, cause: Cause) -> Request | None:
        """Return the last request to make the first label again before its newer revision was made."""
        if cause.after is None or cause.kind not in {CauseKind.SOURCE, CauseKind.ROWS, CauseKind.REVERT}:
            return None
        noted = cause.after.measures.get(REVERTED)
        if cause.kind is CauseKind.REVERT:
            return None if noted is None else Request("revert", str(noted.get("by", "")), str(noted.get("why", "")))
        since = None if cause.before is None else cause.before.recorded_at
        until = cause.after.recorded_at
        found = [
            each
            for each in self.work.ledger.past.audit(cause.table, cause.labels[0]).events
            if each.kind.endswith(_REQUESTED) and each.at <= until and (since is None or each.at >= since)
        ]
        if not found:
            return None
        last = found[-1]
        return Request(last.kind.removesuffix(_REQUESTED), last.who, str(last.data.get("why") or ""))


def _are_same(old: CommittedRevision | None, new: CommittedRevision | None) -> bool:
    """Return whether two revisions of a label have the same rows, as far as the ledgers know."""
    if old is None or new is None:
        return False
    is_one = (old.claim, old.recorded_at) == (new.claim, new.recorded_at)
    return is_one or (old.digest is not None and old.digest == new.digest)


def _source_of(table: Table | None) -> str | None:
    return None if table is None or table.source is None else str(table.source.unit)


@dataclass(frozen=True, slots=True)
class _Codes:
    """Compares code by fingerprints, under the current names of renamed tables, and finds its statements."""

    work: RunContext
    other: Ledger
    former: tuple[FormerNames, ...]

    def are_equal(self, before: str, after: str) -> bool:
        """Return whether two fingerprints are those of the same code."""
        return before == after or any(each.code(before) == each.code(after) for each in self.former)

    def describe_change(self, cause: Cause) -> tuple[str, ...]:
        """Return the parts of a table's code that differ, or nothing if a statement is not recorded."""
        if cause.before is None or cause.after is None:
            return ()
        flow, project = self.work.flow, self.work.project
        texts = {each.code: each.statement for ledger in (self.other, self.work.ledger)
                 for each in ledger.past.codes(cause.table) if each.statement is not None}  # fmt: skip
        if cause.table in flow.tables:
            texts[flow.tables[cause.table].fingerprint] = statement_texts(flow, project.sources)[cause.table]
        old, new = texts.get(cause.before.code), texts.get(cause.after.code)
        return (
            ()
            if old is None or new is None
            else describe_change(old, new, project.variables, {*flow.tables, *flow.views}, renamed_tables(flow))
        )
