"""Raw rows that have a timeline, and the columns of versions."""

from __future__ import annotations

import json
import re

import pytest

from waterclock.errors import WaterclockError
from waterclock.flow.merge_settings import Temporal
from waterclock.storage.folds.versions import require_fit, require_instant, table_schema_of

TEXT, TIME = ("string", "timestamp")


def schema(**types: object) -> str:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return json.dumps({"type": "struct", "fields": fields})


MAP = {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True}


@pytest.mark.parametrize(
    ("raw", "temporal", "said"),
    [
        (schema(k=TEXT, at=TEXT), Temporal(("k",), "at"), "E302 at is of type string, which is not an instant"),
        (schema(k=TEXT, at="date"), Temporal(("k",), "at"), "E302 at is of type date, which is not an instant"),
        (schema(k=TEXT, att=TIME), Temporal(("k",), "at"), "E301 unknown column at"),
        (schema(k=TEXT, at=TIME, m=MAP), Temporal(("k",), "at"), "E303 m is of type map<string,int>"),
        (
            schema(k=TEXT, rec_exp_time=TIME),
            Temporal(("k",)),
            "E308 the rows already have columns that TEMPORAL computes: rec_exp_time",
        ),
        (
            schema(k=TEXT, rec_eff_time=TIME),
            Temporal(("k",)),
            "E308 the rows already have columns that TEMPORAL computes: rec_eff_time",
        ),
        (schema(k=TEXT, at=TIME), Temporal(("k",), "at", track=("city",)), "E301 unknown column city"),
    ],
)
def test_rows_without_a_timeline_are_refused(raw: str, temporal: Temporal, said: str) -> None:
    with pytest.raises(WaterclockError, match=re.escape(said)) as raised:
        require_fit(raw, temporal, table="raw.accounts")
    assert raised.value.where == "raw.accounts"
    assert raised.value.fix


@pytest.mark.parametrize("kind", ["string", "date", "timestamp_ntz", "long"])
def test_a_time_that_a_query_makes_is_an_instant_whatever_is_declared(kind: str) -> None:
    with pytest.raises(WaterclockError, match="E302 At is of type") as raised:
        require_instant(schema(k=TEXT, at=kind), Temporal(("k",), "At"), table="dim.a")
    assert "with its zone" in (raised.value.fix or "")
    for other in (schema(k=TEXT, at=TIME), schema(k=TEXT, at="void"), schema(k=TEXT)):
        require_instant(other, Temporal(("k",), "At"), table="dim.a")
    require_instant(schema(k=TEXT, at=kind), Temporal(("k",)), table="dim.a")


def test_versions_show_keys_attributes_and_their_period() -> None:
    temporal = Temporal(("k", "j"), "at", ("lsn",), "op = 'd'", consumed=("lsn", "op"))
    raw = schema(timelabel=TEXT, city=TEXT, at=TIME, j=TEXT, lsn="long", k=TEXT, op=TEXT, b="integer")
    names = [field["name"] for field in json.loads(table_schema_of(raw, temporal))["fields"]]
    assert names == ["timelabel", "k", "j", "rec_eff_time", "city", "b", "rec_exp_time", "rec_is_current"]


def test_before_the_first_batch_versions_have_the_known_columns() -> None:
    temporal = Temporal(("k", "j"), "at")
    names = [field["name"] for field in json.loads(table_schema_of(schema(k=TEXT, at=TIME), temporal))["fields"]]
    assert names == ["timelabel", "k", "rec_eff_time", "rec_exp_time", "rec_is_current"]
