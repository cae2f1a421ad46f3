"""The pages of runs: the newest runs with the current runners, and a single run batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlsplit

from waterclock.batches.audit_records import RunClaim, RunnerSeen, RunRecord
from waterclock.errors import WaterclockError
from waterclock.ledger.ledger import Ledger
from waterclock.operations.display_states import State
from waterclock.operations.formatting import page_time, seconds_words, short_label
from waterclock.operations.json import instant_text
from waterclock.operations.project_opening import OpenedProject
from waterclock.operations.runners import is_alive
from waterclock.planner.plan import Status
from waterclock.timelabel.label import label_of
from waterclock.ui.page_query import Content, PageQuery, batch_address
from waterclock.ui.pages.pauses import describe_pause, paused_by_name
from waterclock.ui.pages.run_comparison import find_earlier_run, side_by_side

_MOST = 100
_MOST_CLAIMS = 400
_MOST_WAITING = 30
_WIDTH = 1000  # of the chart, in SVG units
_STATES = {
    "done": State.OK,
    "open": State.RUNNING,
    "held": State.HELD,
    "failed": State.FAILED,
    "lost": State.NOT_NEEDED,
}


def runs(at: OpenedProject, _: PageQuery) -> Content:
    """Return the newest runs, and the runners. Cost: three queries of the ledger."""
    if at.ledger is None:
        return {"runs": [], "runners": [], "alive": 0, "paused": None, "can_pause": [], "paused_tables": []}
    now = at.ledger.now()
    runners = [runner_content(at, runner, now) for runner in at.ledger.runners.all()]
    return {
        "runs": [_describe_run(at, run) for run in at.ledger.past.runs(_MOST)],
        "runners": runners,
        "alive": sum(each["is_alive"] for each in runners),
        "paused_tables": paused_by_name(at),
        **describe_pause(at, None),
    }


def runner_content(at: OpenedProject, runner: RunnerSeen, now: datetime) -> Content:
    """Return the fields of a runner for the page: whether it is active, and its open claims."""
    return {
        "runner": runner.runner,
        "who": runner.who,
        "command": runner.command,
        "since": page_time(runner.started_at, at.zone),
        "is_alive": is_alive(runner, now),
        "has_this_flow": runner.flow == at.flow.fingerprint,
        "holds": [
            {
                "table": held.table,
                "labels": [label_of(label) for label in held.labels[:20]],
                "count": len(held.labels),
                "since": page_time(held.since, at.zone),
                "address": batch_address(held.table, label_of(held.labels[0])) if held.labels else "",
            }
            for held in runner.held
        ],
    }


def run(at: OpenedProject, parameters: PageQuery) -> Content:
    """Return the batches of a run with their times, its running batches, and a comparison with another run.

    The other run is the one that the parameter `against` names, or else the previous run of the same command.
    Raises E524 for an unknown run.
    Cost: the ledger queries for the claims of both runs.
    """
    if at.ledger is None:
        raise _unknown_run_error(parameters.values["run"])
    found = _find_run(at.ledger, parameters.values["run"])
    claims = at.ledger.past.claims_of_run(found, _MOST_CLAIMS)
    end = found.ended_at or at.ledger.now()
    return _describe_run(at, found) | {
        "claims": [_describe_claim(at, each, end) for each in claims],
        "is_cut": len(claims) == _MOST_CLAIMS,
        "counts": dict(Counter(each.status for each in claims).most_common()),
        "batches": sum(each.count for each in claims if each.status == "done"),
        "rows": sum(each.rows or 0 for each in claims),
        "steps": _sum_steps(claims),
        "chart": _build_chart(claims, end),
        "is_going_on": found.outcome is None,
        "spark": _find_spark_page(at.ledger, found),
        "waits": _list_waiting_batches(at) if found.outcome is None else [],
        "against": _compare_runs(at, at.ledger, parameters, found, claims),
    }


def _find_run(ledger: Ledger, name: str) -> RunRecord:
    found = ledger.past.find_run(name)
    if found is None:
        raise _unknown_run_error(name)
    return found


def _unknown_run_error(name: str) -> WaterclockError:
    return WaterclockError("E524", f"there is no run {name}", fix="the page of runs lists the newest runs")


def _compare_runs(
    at: OpenedProject, ledger: Ledger, parameters: PageQuery, found: RunRecord, claims: Sequence[RunClaim]
) -> Content | None:
    """Return the comparison with another run, or None if there is none."""
    named = parameters.values.get("against", "").strip()
    if named:
        other = _find_run(ledger, named)
        before = other, ledger.past.claims_of_run(other, _MOST_CLAIMS)
    elif (earlier := find_earlier_run(ledger, found, _MOST_CLAIMS)) is not None:
        before = earlier
    else:
        return None
    return _describe_run(at, before[0]) | {"tables": side_by_side(claims, before[1]), "is_named": bool(named)}


def _find_spark_page(ledger: Ledger, found: RunRecord) -> str | None:
    """Return the address of Spark's web UI, or None after the end of the run."""
    address = ledger.past.spark_page(found.run) if found.outcome is None else None
    return address if address and urlsplit(address).scheme in {"http", "https"} else None


def _list_waiting_batches(at: OpenedProject) -> list[Content]:
    """Return the due batches that wait, each with its reason."""
    plan = at.planner.plan(at.snapshot, at.now)
    waiting = [batch for batch in plan.batches if batch.causes or batch.status is Status.PAUSED][:_MOST_WAITING]
    return [
        {
            "table": batch.table,
            "words": short_label(batch.label, at.flow.tables[batch.table].cadence, at.now),
            "address": batch_address(batch.table, label_of(batch.label)),
            "reason": batch.reason,
        }
        for batch in waiting
    ]


def _describe_claim(at: OpenedProject, claim: RunClaim, end: datetime) -> Content:
    table = at.flow.tables.get(claim.table)
    labels = label_of(claim.first) if claim.count == 1 else f"{label_of(claim.first)}..{label_of(claim.last)}"
    words = labels.replace("..", " to ")
    if table is not None:
        words = short_label(claim.first, table.cadence, at.now)
        if claim.count > 1:
            words += f" to {short_label(claim.last, table.cadence, at.now)}"
    seconds = max(((claim.closed_at or end) - claim.claimed_at).total_seconds(), 0.0)  # clocks may go back
    return {
        "claim": claim.claim,
        "table": claim.table,
        "labels": labels,
        "count": claim.count,
        "words": words,
        "status": claim.status,
        "state": _STATES.get(claim.status, State.FAILED).value,
        "address": batch_address(claim.table, labels) if table is not None else "",
        "rows": claim.rows,
        "claimed_at": instant_text(claim.claimed_at),
        "seconds": seconds,
        "took": seconds_words(seconds),
        "steps": {step: round(took, 3) for step, took in claim.seconds.items()},
        "error": (claim.error or "").partition("\n")[0],
    }


def _sum_steps(claims: Sequence[RunClaim]) -> list[Content]:
    """Return the total time of each step, longest first."""
    total: Counter[str] = Counter()
    for claim in claims:
        total.update(claim.seconds)
    return [
        {"step": step, "seconds": round(took, 3), "took": seconds_words(took)} for step, took in total.most_common()
    ]


def _build_chart(claims: Sequence[RunClaim], end: datetime) -> Content:
    """Return a bar for each claim over the time of the run. Overlapping bars are in separate lanes."""
    if not claims:
        return {"lanes": 0, "bars": [], "seconds": 0.0}
    begin = min(claim.claimed_at for claim in claims)
    end = max(claim.closed_at or max(end, claim.claimed_at) for claim in claims)
    span = max((end - begin).total_seconds(), 1e-6)
    free: list[datetime] = []  # when each lane is free again
    bars = []
    for claim in claims:
        closed = max(claim.closed_at or end, claim.claimed_at)
        lane = next((index for index, until in enumerate(free) if until <= claim.claimed_at), len(free))
        free[lane : lane + 1] = [closed]
        x = (claim.claimed_at - begin).total_seconds() / span * _WIDTH
        bars.append(
            {
                "claim": claim.claim,
                "lane": lane,
                "x": round(x, 1),
                "width": round(max((closed - claim.claimed_at).total_seconds() / span * _WIDTH, 2), 1),
                "state": _STATES.get(claim.status, State.FAILED).value,
            }
        )
    return {"lanes": len(free), "bars": bars, "width": _WIDTH, "seconds": span, "took": seconds_words(span)}


def _describe_run(at: OpenedProject, run: RunRecord) -> Content:
    took = None if run.ended_at is None else max((run.ended_at - run.started_at).total_seconds(), 0.0)
    return {
        "run": run.run,
        "address": f"/runs/{run.run}",
        "command": run.command,
        "who": run.who,
        "for": page_time(run.now, at.zone),
        "started": page_time(run.started_at, at.zone),
        "started_at": instant_text(run.started_at),
        "seconds": took,
        "took": "" if took is None else seconds_words(took),
        "outcome": run.outcome or "not ended",
    }
