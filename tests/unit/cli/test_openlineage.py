from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.listening import Heard, listening
from tests.openlineage_types import problems
from tests.unit.cli.conftest import Shop, day
from waterclock.batches.records import WARNINGS, Input
from waterclock.batches.run_events import LEFT_OUT, LineageEvent, LineageEventKind, MadeRows
from waterclock.dpl.project import Project
from waterclock.engine.run_context import RunContext
from waterclock.engine.run_opening import open_workplace
from waterclock.flow.code_lineage import AGGREGATED, CodeLineage, Origin
from waterclock.flow.declarations import Rule
from waterclock.flow.enums import Action, Scope
from waterclock.flow.measures import PASSED_OVER
from waterclock.openlineage import sending
from waterclock.openlineage.events import Events, batch_id
from waterclock.openlineage.sending import send, send_after_run
from waterclock.openlineage.sinks import deliver
from waterclock.operations.project_opening import open_project


@pytest.fixture
def hook() -> Iterator[Heard]:
    with listening() as heard:
        yield heard


def say(shop: Shop, text: str, *, is_on: bool = True) -> Project:
    file = shop.folder / "waterclock.toml"
    said = file.read_text(encoding="utf-8").split("\n[openlineage")[0]
    if is_on and "openlineage = true" not in said:
        said = said.replace("[env.dev]\n", "[env.dev]\nopenlineage = true\n", 1)
    file.write_text(f"{said.rstrip()}\n\n[openlineage]\n{text}\n", encoding="utf-8")
    return open_project(shop.folder, None)


def to_server(shop: Shop, heard: Heard, more: str = "") -> Project:
    return say(shop, f'url = "{heard.address}"\n{more}')


def of(events: list[dict[str, Any]], table: str, number: int) -> list[dict[str, Any]]:
    start = f"2024-11-{number:02}T00:00:00Z"
    return [
        event
        for event in events
        if event["job"]["name"] == table and event["run"]["facets"]["nominalTime"]["nominalStartTime"] == start
    ]


def test_each_attempt_has_a_start_and_an_end_of_one_run(busy_shop: Shop, hook: Heard) -> None:
    project = to_server(busy_shop, hook)
    told = send(project, busy_shop.ledger)
    assert told.events == len(hook.bodies) == 2 * 9
    assert [problem for event in hook.bodies for problem in problems(event)] == []
    began, done = of(hook.bodies, "sales.by_country", 18)
    assert (began["eventType"], done["eventType"]) == ("START", "COMPLETE")
    assert began["run"]["runId"] == done["run"]["runId"]
    [attempt] = busy_shop.ledger.past.audit("sales.by_country", day(18)).attempts
    assert done["run"]["runId"] == str(batch_id(project, "sales.by_country", day(18), attempt.claim))
    assert [event["eventType"] for event in of(hook.bodies, "shop.orders", 19)] == ["START", "FAIL"]
    assert of(hook.bodies, "shop.orders", 19)[1]["run"]["facets"]["errorMessage"]["message"] == (
        "E731 amount is no number"
    )


def test_an_event_contains_the_inputs_and_outputs_of_its_batch(busy_shop: Shop, hook: Heard) -> None:
    project = to_server(busy_shop, hook)
    send(project, busy_shop.ledger)
    done = of(hook.bodies, "sales.by_country", 18)[1]
    assert {each["name"] for each in done["inputs"]} == {"shop.orders", "shop.customers"}
    orders = next(each for each in done["inputs"] if each["name"] == "shop.orders")
    assert orders["facets"]["version"]["datasetVersion"] == "18"
    [output] = done["outputs"]
    assert (output["namespace"], output["name"]) == ("shop.dev", "sales.by_country")
    assert output["facets"]["version"]["datasetVersion"] == "18"
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 10
    place = output["facets"]["symlinks"]["identifiers"][0]
    assert place["namespace"] == "file"
    assert place["name"].startswith(project.storage)
    assert done["run"]["facets"]["nominalTime"]["nominalEndTime"] == "2024-11-19T00:00:00Z"
    assert done["job"]["facets"]["ownership"]["owners"] == [{"name": "you@example.com"}]
    assert done["job"]["facets"]["sql"]["query"].startswith("SELECT c.country")
    [source] = of(hook.bodies, "shop.orders", 17)[1]["inputs"]
    assert (source["namespace"], source["name"]) == ("shop.dev/shop", "orders")


def test_an_event_contains_column_lineage_with_the_columns_that_join_or_group_rows(
    busy_shop: Shop, hook: Heard
) -> None:
    send(to_server(busy_shop, hook), busy_shop.ledger)
    lineage = of(hook.bodies, "sales.by_country", 18)[1]["outputs"][0]["facets"]["columnLineage"]
    revenue = lineage["fields"]["revenue"]["inputFields"]
    assert [(each["name"], each["field"]) for each in revenue] == [("shop.orders", "amount")]
    assert revenue[0]["transformations"][0] == {
        "type": "DIRECT", "subtype": "AGGREGATION", "description": "ROUND(SUM(o.amount), 2)",
    }  # fmt: skip
    assert lineage["fields"]["country"]["inputFields"][0]["transformations"][0]["subtype"] == "IDENTITY"
    choosing = {(each["name"], each["field"], each["transformations"][0]["subtype"]) for each in lineage["dataset"]}
    assert choosing == {
        ("shop.orders", "customer_id", "JOIN"),
        ("shop.customers", "customer_id", "JOIN"),
        ("shop.customers", "country", "GROUP_BY"),
    }


def test_an_event_omits_sql_and_column_lineage_if_the_code_changed_since_the_batch(
    busy_shop: Shop, hook: Heard
) -> None:
    project = to_server(busy_shop, hook)
    flow = busy_shop.folder / "flows" / "2_transform.dpl"
    flow.write_text(flow.read_text().replace("round(sum(o.amount), 2) AS revenue, count_if", "count_if", 1))
    changed = open_project(busy_shop.folder, None)
    assert changed.flow.tables["sales.by_country"].fingerprint != project.flow.tables["sales.by_country"].fingerprint
    send(changed, busy_shop.ledger)
    done = of(hook.bodies, "sales.by_country", 18)[1]
    assert "columnLineage" not in done["outputs"][0]["facets"]
    assert "sql" not in done["job"]["facets"]
    assert done["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 10


def test_an_event_contains_the_rules_and_whether_they_passed(busy_shop: Shop, hook: Heard) -> None:
    send(to_server(busy_shop, hook), busy_shop.ledger)
    [rule] = of(hook.bodies, "shop.orders", 17)[1]["outputs"][0]["facets"]["dataQualityAssertions"]["assertions"]
    assert (rule["name"], rule["success"], rule["severity"], rule["column"], rule["content"]) == (
        "is_paid", True, "error", "amount", "amount > 0",
    )  # fmt: skip


def outputs_of(project: Project, rules: tuple[Rule, ...], measures: dict[str, Any]) -> dict[str, Any]:
    """Return the facets of the output of a done batch with these rules and measures."""
    table = project.flow.tables["shop.orders"]
    late = replace(table.columns.named[0], rules=rules)
    table = replace(table, columns=replace(table.columns, named=(late,)))
    told = Events(replace(project, flow=replace(project.flow, tables={**project.flow.tables, table.name: table})))
    made = MadeRows(day(18), 1, 9, 99, "shop/orders", measures)
    it = LineageEvent(
        1, day(18), LineageEventKind.DONE, "me", None, table.name, day(17), 1, table.fingerprint, made=made
    )
    facets: dict[str, Any] = told.convert(it)["outputs"][0]["facets"]
    return facets


def rule_of(text: str, project: Project) -> Rule:
    return Rule(text, text, Scope.ROW, Action.WARN, project.flow.tables["shop.orders"].place)


def test_a_warning_belongs_to_its_rule_whatever_the_name_of_the_rule_contains(busy_shop: Shop, hook: Heard) -> None:
    project = to_server(busy_shop, hook)
    warnings = {WARNINGS: ["at > '10:00': 1 of 9 rows violate (at > '10:00')"]}
    facets = outputs_of(project, (rule_of("at > '10:00'", project),), warnings)
    [rule] = facets["dataQualityAssertions"]["assertions"]
    assert (rule["success"], rule["actual"]) == (False, "at > '10:00': 1 of 9 rows violate (at > '10:00')")


def test_a_rule_that_was_skipped_has_no_result(busy_shop: Shop, hook: Heard) -> None:
    project = to_server(busy_shop, hook)
    skipped = {PASSED_OVER: ["count(*) > last_good(count(*)): no batch before it for last_good(count(*))"]}
    compared, other = rule_of("count(*) > last_good(count(*))", project), rule_of("count(*) > 0", project)
    [rule] = outputs_of(project, (compared, other), skipped)["dataQualityAssertions"]["assertions"]
    assert (rule["name"], rule["success"]) == ("count(*) > 0", True)
    assert "dataQualityAssertions" not in outputs_of(project, (compared,), skipped)


def test_events_for_an_unavailable_server_are_retained_and_later_sent_in_order(
    busy_shop: Shop, hook: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = to_server(busy_shop, hook)
    hook.answer = 503
    notes: list[str] = []
    with open_workplace(project) as work:
        monkeypatch.setattr(RunContext, "report_once", lambda _, text: notes.append(text))
        send_after_run(work)
    assert notes == ["events of lineage did not arrive (it answered 503); they wait in the ledger, and are sent later"]
    assert hook.bodies == []
    state = busy_shop.ledger.openlineage.state()
    assert (state.waiting, state.attempts, state.error) == (18, 1, "it answered 503")
    assert send(project, busy_shop.ledger).is_busy, "no request is sent for half a minute"
    hook.answer = 200
    said = busy_shop.ask("openlineage", "send")
    assert "18 events sent" in said.stdout
    numbers = [int(next(tag["value"] for tag in event["run"]["facets"]["tags"]["tags"] if tag["key"] == "claim"))
               for event in hook.bodies]  # fmt: skip
    assert numbers == sorted(numbers)
    assert "no event is pending" in busy_shop.ask("openlineage").stdout
    assert send(project, busy_shop.ledger).events == 0


def test_events_sent_before_a_server_failed_are_not_sent_again(
    busy_shop: Shop, hook: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = to_server(busy_shop, hook)
    calls: list[int] = []

    def some(*arguments: Any) -> None:
        calls.append(1)
        hook.answer = 200 if len(calls) <= 5 else 503
        deliver(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(sending, "deliver", some)
        assert send(project, busy_shop.ledger).lost == "it answered 503"
    assert busy_shop.ledger.openlineage.state().waiting == 13
    hook.answer = 200
    send(project, busy_shop.ledger, at_once=True)
    told = [(event["run"]["runId"], event["eventType"]) for event in hook.bodies]
    assert len(set(told)) == len(told) == 18


def test_who_dies_while_it_sends_leaves_events_that_are_sent_again_with_the_same_ids(
    busy_shop: Shop, hook: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = to_server(busy_shop, hook)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(busy_shop.ledger.openlineage, "record_sent", dies)
        with pytest.raises(KeyboardInterrupt):
            send(project, busy_shop.ledger)
    first = [(event["run"]["runId"], event["eventType"]) for event in hook.bodies]
    send(project, busy_shop.ledger)
    assert [(event["run"]["runId"], event["eventType"]) for event in hook.bodies] == first + first


def test_a_file_gets_one_event_per_line_and_a_truncated_line_is_overwritten(busy_shop: Shop) -> None:
    project = say(busy_shop, 'file = "out/lineage.jsonl"')
    send(project, busy_shop.ledger)
    file = busy_shop.folder / "out" / "lineage.jsonl"
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(events) == 18
    assert [problem for event in events for problem in problems(event)] == []
    file.write_text(file.read_text()[:-20])
    busy_shop.done("web.visits", 18)
    send(project, busy_shop.ledger)
    lines = file.read_text().splitlines()
    assert [json.loads(line)["eventType"] for line in lines[-2:]] == ["START", "COMPLETE"]
    assert len(lines) == 20


def test_all_is_sent_again_to_a_new_server_with_the_same_ids(busy_shop: Shop, hook: Heard) -> None:
    to_server(busy_shop, hook)
    busy_shop.ask("openlineage", "send")
    before = list(hook.bodies)
    said = busy_shop.json("openlineage", "send", "--again")
    assert (said["sent"], said["waiting"], said["error"]) == (18, 0, None)
    assert hook.bodies[18:] == before
    assert busy_shop.ask("openlineage", "--again").exit_code == 2


def test_runs_are_the_parents_of_their_batches(busy_shop: Shop, hook: Heard) -> None:
    project = to_server(busy_shop, hook)
    ledger = busy_shop.ledger
    run = ledger.past.begin_run(who="ann", command="run", now=day(19))
    ledger.past.end_run(run, "interrupted", who="ann")
    send(project, ledger)
    began, ended = hook.bodies[-2:]
    assert (began["eventType"], ended["eventType"], ended["job"]["name"]) == ("START", "ABORT", "shop")
    assert began["run"]["runId"] == ended["run"]["runId"]
    assert problems(began) == problems(ended) == []


def test_a_run_sends_pending_events_and_its_own_events_when_it_ends(busy_shop: Shop, hook: Heard) -> None:
    to_server(busy_shop, hook)
    said = busy_shop.ask("run", "web.visits@2024-11-17")
    assert said.exit_code == 0, said.output
    assert [event["eventType"] for event in hook.bodies[-2:]] == ["START", "COMPLETE"]
    assert {event["job"]["name"] for event in hook.bodies[-2:]} == {"shop"}
    assert len(hook.bodies) == 20
    hook.answer = 500
    again = busy_shop.ask("run", "web.visits@2024-11-17")
    assert again.exit_code == 0, "no run fails because its event was not received"
    assert "events of lineage did not arrive (it answered 500)" in again.output


def test_a_token_is_sent_and_shown_nowhere(busy_shop: Shop, hook: Heard) -> None:
    secrets = busy_shop.folder / "secrets"
    secrets.mkdir(exist_ok=True)
    (secrets / "marquez").write_text("s3cret")
    (secrets / "where").write_text(hook.address)
    project = say(busy_shop, 'url = { secret = "where" }\ntoken = { secret = "marquez" }\nnamespace = "shop"')
    hook.answer = 401
    assert send(project, busy_shop.ledger).lost == "it answered 401"
    hook.answer = 200
    assert send(project, busy_shop.ledger, at_once=True).events == 18
    assert set(hook.tokens) == {"Bearer s3cret"}
    assert {event["job"]["namespace"] for event in hook.bodies} == {"shop"}
    said = busy_shop.ask("openlineage").output + busy_shop.ask("openlineage", "--json").output
    assert "the address in secret where" in said
    assert "s3cret" not in said
    assert str(hook.port) not in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('url = "https://a"\nfile = "x"', "E917 openlineage has both url and file"),
        ('namespace = "x"', "E917 openlineage has neither url nor file"),
        ('ulr = "https://a"', "did you mean url?"),
        ('url = "marquez:5000"', "E917 marquez:5000 is not a web address"),
        ('file = "x"\ntoken = "y"', "E917 a file takes no token"),
        ("file = 3", "E917 file is not a string"),
        ("url = 3", "E917 url is neither a string nor a secret"),
        ('url = { secret = "nowhere" }', "E225"),
    ],
)
def test_a_section_that_cannot_be_is_refused_with_its_place(busy_shop: Shop, text: str, words: str) -> None:
    file = busy_shop.folder / "waterclock.toml"
    said = file.read_text().replace("[env.dev]\n", "[env.dev]\nopenlineage = true\n", 1)
    file.write_text(f"{said.rstrip()}\n\n[openlineage]\n{text}\n")
    found = busy_shop.ask("check").output
    assert words in found
    assert "waterclock.toml" in found


def test_no_event_is_sent_unless_the_environment_enables_it(busy_shop: Shop, hook: Heard) -> None:
    assert "lineage events have no destination" in busy_shop.ask("openlineage").stdout
    assert "E379 there is no destination for lineage events" in busy_shop.ask("openlineage", "send").stderr
    say(busy_shop, f'url = "{hook.address}"', is_on=False)
    assert "environment dev sends none" in busy_shop.ask("openlineage").stdout
    assert "E379 environment dev sends no lineage events" in busy_shop.ask("openlineage", "send").stderr
    assert hook.tries == 0


def test_without_the_library_check_names_the_package_and_a_run_continues(
    busy_shop: Shop, hook: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = to_server(busy_shop, hook)
    monkeypatch.setattr(sending, "find_spec", lambda _: None)
    assert "openlineage-python>=" in busy_shop.ask("check").output
    assert "E379" in busy_shop.ask("openlineage", "send").stderr
    notes: list[str] = []
    with open_workplace(project) as work:
        monkeypatch.setattr(RunContext, "report_once", lambda _, text: notes.append(text))
        send_after_run(work)
    assert notes == [
        "events of lineage were not sent: events of lineage are made by openlineage-python, which is not installed"
    ]


def test_columns_of_a_python_transform_are_traced_to_all_columns_that_it_reads(busy_shop: Shop) -> None:
    (busy_shop.folder / "flows" / "p.py").write_text(
        "import waterclock as wc\n\n\n"
        '@wc.transform("sales.odd", partitioned=True, columns="n BIGINT")\n'
        'def odd(orders=wc.table("shop.orders"), *, window: wc.Window) -> wc.DataFrame:\n'
        "    return orders\n"
    )
    project = say(busy_shop, 'file = "x.jsonl"')
    facet = Events(project).columns.lineage_of(project.flow.tables["sales.odd"])
    assert facet is not None
    inputs = facet.fields["n"].inputFields
    assert {each.field for each in inputs} == {"order_id", "customer_id", "amount", "ordered_at"}
    assert "cannot be looked into" in str(inputs[0].transformations[0].description)  # type: ignore[index]


def test_column_lineage_of_a_python_transform_uses_the_recorded_plan_lineage(busy_shop: Shop) -> None:
    (busy_shop.folder / "flows" / "p.py").write_text(
        "import waterclock as wc\n\n\n"
        '@wc.transform("sales.odd", partitioned=True)\n'
        'def odd(orders=wc.table("shop.orders")) -> wc.DataFrame:\n'
        "    return orders\n"
    )
    project = say(busy_shop, 'file = "x.jsonl"')
    amount, when = ("shop.orders", "amount"), ("shop.orders", "ordered_at")
    shown = CodeLineage(
        {"id": Origin(frozenset({amount})), "x": Origin(frozenset({amount}), frozenset({when}), AGGREGATED)},
        {"filter": frozenset({when}), "may read": frozenset({amount})},
    )
    table = project.flow.tables["sales.odd"]
    busy_shop.ledger.lineage.record_code_lineage(table.name, table.fingerprint, shown)
    facet = Events(project, busy_shop.ledger).columns.lineage_of(table)
    assert facet is not None
    told = {
        name: [(it.field, it.transformations[0].subtype, it.transformations[0].description) for it in of.inputFields]  # type: ignore[index]
        for name, of in facet.fields.items()
    }
    assert told == {
        "id": [("amount", "IDENTITY", "by odd in flows/p.py")],
        "x": [
            ("amount", "AGGREGATION", "by odd in flows/p.py"),
            ("ordered_at", "AGGREGATION", "maybe, by odd in flows/p.py"),
        ],
    }
    chosen = [(each.field, each.transformations[0].subtype) for each in facet.dataset or ()]  # type: ignore[index]
    assert chosen == [("ordered_at", "FILTER"), ("amount", "CONDITIONAL")]


def test_columns_of_unknown_origin_are_traced_to_all_columns_and_marked_as_unknown(busy_shop: Shop) -> None:
    (busy_shop.folder / "flows" / "p.dpl").write_text(
        "TRANSFORM sales.wide PARTITIONED (one DOUBLE, two DOUBLE) AS SELECT * FROM "
        "(SELECT customer_id, amount FROM shop.orders) PIVOT (sum(amount) FOR customer_id IN (1 AS one, 2 AS two));"
    )
    project = say(busy_shop, 'file = "x.jsonl"')
    facet = Events(project).columns.lineage_of(project.flow.tables["sales.wide"])
    assert facet is not None
    inputs = facet.fields["one"].inputFields
    assert {each.field for each in inputs} == {"order_id", "customer_id", "amount", "ordered_at"}
    assert "not known" in str(inputs[0].transformations[0].description)  # type: ignore[index]


def test_a_table_collected_from_a_linked_project_is_named_as_a_source(busy_shop: Shop) -> None:
    project = say(busy_shop, 'file = "x.jsonl"')
    theirs = Input("sales.by_country", "sales.by_country", "slices", day(17), day(18), "tables/x", 7, "1:2:3")
    it = LineageEvent(
        1, day(19), LineageEventKind.CLAIMED, "ann", None, "shop.orders", day(17), 5, code="x", inputs=(theirs,)
    )  # fmt: skip
    event = Events(project).convert(it)
    assert problems(event) == []
    [source] = event["inputs"]
    assert (source["namespace"], source["name"]) == ("shop.dev/shop", "orders")
    assert source["facets"]["version"]["datasetVersion"] == "7"


def is_start_of(table: str, number: int) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["eventType"] == "START" and bool(of([event], table, number))


def test_one_event_that_is_refused_holds_up_nothing_and_is_kept(busy_shop: Shop, hook: Heard) -> None:
    project = to_server(busy_shop, hook)
    hook.refuses = is_start_of("shop.orders", 18)
    said = busy_shop.ask("openlineage", "send")
    assert "17 events sent" in said.stdout
    assert "1 event left out: `waterclock openlineage` shows why" in said.stdout
    assert len(hook.bodies) == 17
    state = busy_shop.ledger.openlineage.state()
    assert (state.waiting, state.error, state.left_out) == (0, "", 1)
    assert state.refusal == "shop.orders@20241118000000: it answered 400"
    assert "1 event of lineage left out, as the server refuses them" in " ".join(
        busy_shop.ask("openlineage").stdout.split()
    )
    [kept] = [row for row in busy_shop.ledger.past.rows("events") if row["kind"] == LEFT_OUT]
    assert (kept["table"], json.loads(kept["data"])["why"]) == ("shop.orders", "it answered 400")
    hook.refuses = lambda _: False
    assert send(project, busy_shop.ledger).events == 0
    assert "18 events sent" in busy_shop.ask("openlineage", "send", "--again").stdout
    assert busy_shop.ledger.openlineage.state().left_out == 0


def test_a_server_that_refuses_everything_loses_none(busy_shop: Shop, hook: Heard) -> None:
    project = to_server(busy_shop, hook)
    hook.answer = 400
    told = send(project, busy_shop.ledger)
    assert (told.events, told.left_out, told.lost) == (0, 0, "it answered 400")
    assert hook.tries == 18
    state = busy_shop.ledger.openlineage.state()
    assert (state.waiting, state.left_out) == (18, 0)
    hook.answer = 200
    assert "18 events sent" in busy_shop.ask("openlineage", "send").stdout


def test_the_newest_event_waits_until_another_shows_that_it_alone_is_refused(busy_shop: Shop, hook: Heard) -> None:
    project = to_server(busy_shop, hook)
    last = busy_shop.ledger.openlineage.happenings_after(0, 200).found[-1]
    table, number = last.table, int(last.place[-8:-6])
    hook.refuses = lambda event: event["eventType"] != "START" and bool(of([event], table, number))
    told = send(project, busy_shop.ledger)
    assert (told.events, told.left_out, told.lost) == (17, 0, "it answered 400")
    assert busy_shop.ledger.openlineage.state().waiting == 1


@pytest.mark.parametrize(("answer", "tries"), [(401, 1), (404, 1), (503, 1)])
def test_an_http_error_that_may_be_temporary_does_not_discard_an_event(
    busy_shop: Shop, hook: Heard, answer: int, tries: int
) -> None:
    project = to_server(busy_shop, hook)
    hook.answer = answer
    assert send(project, busy_shop.ledger).lost == f"it answered {answer}"
    assert hook.tries == tries
