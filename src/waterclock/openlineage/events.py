"""Converts events of batches into OpenLineage events: a run of the table's job, with its inputs and outputs.

A run's id is derived from project, environment, table, label and claim. So an attempt always has the same id, whichever
process reports it, and however often.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from openlineage.client import event_v2 as ol
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    OutputDatasetFacet,
    RunFacet,
    data_quality_assertions_dataset,
    data_quality_metrics_dataset,
    dataset_version_dataset,
    documentation_dataset,
    documentation_job,
    error_message_run,
    job_type_job,
    nominal_time_run,
    output_statistics_output_dataset,
    ownership_dataset,
    ownership_job,
    parent_run,
    sql_job,
    symlinks_dataset,
    tags_run,
)
from openlineage.client.serde import Serde

from waterclock.batches.records import INPUTS_FOUND, warnings_of
from waterclock.batches.run_events import LineageEvent, LineageEventKind, MadeRows
from waterclock.dpl.project import Project
from waterclock.flow.checks import rules_without_expression
from waterclock.flow.declarations import Rule, Table, Unit
from waterclock.flow.enums import Action, Kind
from waterclock.flow.measures import PASSED_OVER
from waterclock.ledger.ledger import Ledger
from waterclock.openlineage.columns import ColumnFacets
from waterclock.timelabel.label import label_of

PRODUCER = "urn:waterclock"
_IDS = uuid5(NAMESPACE_URL, "urn:waterclock")
_STATES = {
    LineageEventKind.RUN_BEGAN: ol.RunState.START,
    LineageEventKind.CLAIMED: ol.RunState.START,
    LineageEventKind.DONE: ol.RunState.COMPLETE,
    LineageEventKind.FAILED: ol.RunState.FAIL,
    LineageEventKind.HELD: ol.RunState.FAIL,
    LineageEventKind.LOST: ol.RunState.ABORT,
    LineageEventKind.LEFT: ol.RunState.ABORT,
}
_OUTCOMES = {"done": ol.RunState.COMPLETE, "failed": ol.RunState.FAIL}
_LEFT = "the claim was committed without this label, which is claimed again"


def batch_id(project: Project, table: str, label: datetime, claim: int) -> UUID:
    """Return the OpenLineage run id of one attempt at a batch."""
    return _id(project, table, label_of(label), str(claim))


def run_id(project: Project, run: str) -> UUID:
    """Return the OpenLineage run id of a run of Waterclock, which is the parent of its batches."""
    return _id(project, "run", run)


def _id(project: Project, *parts: str) -> UUID:
    return uuid5(_IDS, "/".join((project.name, project.env, *parts)))


@dataclass(slots=True)
class Events:
    """Builds the OpenLineage events of one project. Facets that depend only on its code are built once."""

    project: Project
    ledger: Ledger | None = None
    columns: ColumnFacets = field(init=False)

    def __post_init__(self) -> None:
        self.columns = ColumnFacets(self.project, self.project.openlineage.namespace, self.ledger)

    @property
    def namespace(self) -> str:
        """The namespace of all jobs and tables of the project."""
        return self.project.openlineage.namespace

    def convert(self, it: LineageEvent) -> dict[str, Any]:
        """Convert an event to an OpenLineage event, as a dict for JSON."""
        event = self._run_event(it) if it.label is None else self._batch_event(it, it.label)
        fields: dict[str, Any] = _set_producer(Serde.to_dict(event))
        return fields

    def _run_event(self, it: LineageEvent) -> ol.RunEvent:
        state = _STATES.get(it.what) or _OUTCOMES.get(it.word, ol.RunState.ABORT)
        return ol.RunEvent(
            eventTime=it.at.isoformat(),
            eventType=state,
            run=ol.Run(str(run_id(self.project, it.run or ""))),
            job=ol.Job(self.namespace, self.project.name, self._type("RUN")),
        )

    def _batch_event(self, it: LineageEvent, label: datetime) -> ol.RunEvent:
        table = self.project.flow.tables.get(it.table)
        # facets of the code describe the code that ran the batch, never the current one if it has changed
        is_same = table is not None and table.fingerprint == it.code
        return ol.RunEvent(
            eventTime=it.at.isoformat(),
            eventType=_STATES[it.what],
            run=ol.Run(
                str(batch_id(self.project, it.table, label, it.claim)), dict(self._run_facets(it, label, table))
            ),
            job=ol.Job(self.namespace, it.table, dict(self._job_facets(table, is_same=is_same))),
            inputs=list(self._inputs(it, table)),
            outputs=[self._output(it, table, is_same=is_same)],
        )

    def _run_facets(self, it: LineageEvent, label: datetime, table: Table | None) -> Iterator[tuple[str, RunFacet]]:
        end = it.made.end if it.made else table.cadence.next(label) if table else None
        yield "nominalTime", nominal_time_run.NominalTimeRunFacet(_text(label), None if end is None else _text(end))
        if it.run is not None:
            parent = parent_run.Run(str(run_id(self.project, it.run)))
            yield "parent", parent_run.ParentRunFacet(parent, parent_run.Job(self.namespace, self.project.name))
        tags = {"timelabel": label_of(label), "claim": str(it.claim), "code": it.code, "who": it.who}
        yield "tags", tags_run.TagsRunFacet([tags_run.TagsRunFacetFields(*pair, "WATERCLOCK") for pair in tags.items()])
        error = it.error or (_LEFT if it.what is LineageEventKind.LEFT else None)
        if error is not None:
            yield "errorMessage", error_message_run.ErrorMessageRunFacet(error, "PYTHON")

    def _type(self, kind: str) -> dict[str, JobFacet]:
        return {"jobType": job_type_job.JobTypeJobFacet("BATCH", "WATERCLOCK", kind)}

    def _job_facets(self, table: Table | None, *, is_same: bool) -> Iterator[tuple[str, JobFacet]]:
        if table is None:
            return
        yield from self._type(table.kind.value.upper()).items()
        if table.about.owner:
            yield "ownership", ownership_job.OwnershipJobFacet([ownership_job.Owner(table.about.owner)])
        if table.about.comment:
            yield "documentation", documentation_job.DocumentationJobFacet(table.about.comment)
        if is_same and table.query is not None and table.query.text:
            yield "sql", sql_job.SQLJobFacet(table.query.text)

    def _inputs(self, it: LineageEvent, table: Table | None) -> Iterator[ol.InputDataset]:
        versions: dict[str, tuple[int, str]] = {}
        for each in it.inputs:
            versions[each.table] = max(versions.get(each.table, (-1, "")), (each.version, each.location))
        if table is not None and table.source is not None:
            namespace, name = self._external_dataset(table.source.unit)
            # for a table of another project, the input is known under the name of the source
            found = [str(version) for version, _ in versions.values() if version >= 0]
            facets = {"version": dataset_version_dataset.DatasetVersionDatasetFacet(found[0])} if found else {}
            yield ol.InputDataset(namespace, name, facets=dict(facets))
            return
        for name, (version, location) in versions.items():
            own_facets: dict[str, DatasetFacet] = {"symlinks": self._build_symlinks(location)}
            if version >= 0:
                own_facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(version))
            yield ol.InputDataset(self.namespace, name, facets=own_facets)

    def _output(self, it: LineageEvent, table: Table | None, *, is_same: bool) -> ol.OutputDataset:
        namespace, name = self.namespace, it.table
        if table is not None and table.destination is not None:
            namespace, name = self._external_dataset(table.destination)
        if it.made is None:
            return ol.OutputDataset(namespace, name)
        made = it.made
        facets = dict(self._output_facets(it, made, table, is_same=is_same))
        output_facets: dict[str, OutputDatasetFacet] = {
            "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                made.rows, made.bytes
            )
        }
        return ol.OutputDataset(namespace, name, facets=facets, outputFacets=output_facets)

    def _output_facets(
        self, it: LineageEvent, made: MadeRows, table: Table | None, *, is_same: bool
    ) -> Iterator[tuple[str, Any]]:
        version = made.version if made.version >= 0 else it.claim
        yield "version", dataset_version_dataset.DatasetVersionDatasetFacet(str(version))
        yield (
            "dataQualityMetrics",
            data_quality_metrics_dataset.DataQualityMetricsDatasetFacet({}, rowCount=made.rows, bytes=made.bytes),
        )
        if table is None:
            return
        if table.kind is not Kind.PUBLISH:
            yield "symlinks", self._build_symlinks(made.location)
        if table.about.owner:
            yield "ownership", ownership_dataset.OwnershipDatasetFacet([ownership_dataset.Owner(table.about.owner)])
        if table.about.comment:
            yield "documentation", documentation_dataset.DocumentationDatasetFacet(table.about.comment)
        if not is_same:
            return
        if table.kind is not Kind.PUBLISH and (schema := self.columns.schema_of(table)) is not None:
            yield "schema", schema
        if (lineage := self.columns.lineage_of(table)) is not None:
            yield "columnLineage", lineage
        if rules := list(_assertions(table, made.measures)):
            yield (
                "dataQualityAssertions",
                data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(rules),
            )

    def _external_dataset(self, unit: Unit) -> tuple[str, str]:
        """Return the namespace and name of an external dataset. The connection's name stands for its address."""
        return f"{self.namespace}/{unit.connection}", unit.path or unit.connection

    def _build_symlinks(self, location: str) -> DatasetFacet:
        """Return the location of a table's files, by which other engines identify it."""
        storage = self.project.storage
        scheme, _, rest = storage.rpartition("://")
        host, _, folder = rest.partition("/") if scheme else ("", "", storage)
        namespace = f"{scheme}://{host}" if scheme else "file"
        name = "/".join(part for part in (folder.rstrip("/"), location) if part)
        return symlinks_dataset.SymlinksDatasetFacet([symlinks_dataset.Identifier(namespace, name, "LOCATION")])


def _assertions(table: Table, measures: Mapping[str, Any]) -> Iterator[data_quality_assertions_dataset.Assertion]:
    """Yield the result of each rule for a batch, except of rules that were skipped, as they had no earlier values."""
    skipped: list[str] = measures.get(PASSED_OVER, [])
    warnings = warnings_of(measures)
    broken: dict[str, int] = dict(measures.get("broken", {}))
    for of in measures.get(INPUTS_FOUND, {}).values():
        broken |= of["broken"]
    for rule, column in _rules(table):
        if any(text.startswith(f"{rule.name}: ") for text in skipped):
            continue
        count = broken.get(rule.name, 0)
        warned = next((text for text in warnings if text.startswith(f"{rule.name}: ")), None)
        actual = warned or (f"{count} rows violate it" if count else None)
        yield data_quality_assertions_dataset.Assertion(
            assertion="expect",
            success=actual is None,
            column=column,
            severity="error" if rule.action in {Action.FAIL, Action.HOLD} else "warn",
            name=rule.name,
            actual=actual,
            content=rule.expression,
            contentType="sql",
        )


def _rules(table: Table) -> Iterator[tuple[Rule, str | None]]:
    yield from ((rule, None) for rule in (*table.input_rules, *table.rules, *rules_without_expression(table)))
    yield from ((rule, column.name) for column in table.columns.named for rule in column.rules)


def _text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}Z"


def _set_producer(document: Any) -> Any:
    """Return an event with this program as producer. OpenLineage's own setting applies to the whole process."""
    if isinstance(document, dict):
        return {
            key: PRODUCER if key in {"producer", "_producer"} else _set_producer(value)
            for key, value in document.items()
        }
    return [_set_producer(each) for each in document] if isinstance(document, list) else document
