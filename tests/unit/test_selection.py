from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.flows import at, collect, flow, previous, replace_transform, tagged, transform
from waterclock.errors import WaterclockError
from waterclock.flow.apart import Apart
from waterclock.flow.declarations import Flow
from waterclock.selection import Labels, parse_labels, select
from waterclock.timelabel.cadence import Cadence
from waterclock.timelabel.period import parse_period

#   raw.a ──► clean.a ──► marts.x ──► marts.z
#   raw.b ──────────────► marts.y ──►┘
FLOW = flow(
    replace(collect("raw.a"), about=tagged("daily", "land")),
    collect("raw.b"),
    transform("clean.a", ["raw.a"]),
    replace_transform("marts.x", ["clean.a", previous("marts.x")]),
    replace(transform("marts.y", ["raw.b"]), about=tagged("daily")),
    transform("marts.z", ["marts.x", "marts.y"]),
)
T = TypeVar("T")
DAILY = Cadence(parse_period("DAY"))
NEW_YORK = Cadence(parse_period("DAY"), zone="America/New_York")
HOURLY_NEW_YORK = Cadence(parse_period("HOUR"), zone="America/New_York")


def tables(*texts: str, among: Flow = FLOW) -> list[str]:
    return list(select(among, *texts).tables)


def refused(code: str, text: str) -> WaterclockError:
    with pytest.raises(WaterclockError) as caught:
        select(FLOW, text)
    assert caught.value.code == code
    return caught.value


def outcome(read: Callable[[str], T], text: str) -> T | str:
    """Parse a text, and return the result or the code of the error."""
    try:
        return read(text)
    except WaterclockError as error:
        return error.code


class TestTables:
    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("raw.a", ["raw.a"]),
            ("+marts.x", ["raw.a", "clean.a", "marts.x"]),
            ("clean.a+", ["clean.a", "marts.x", "marts.z"]),
            ("+clean.a+", ["raw.a", "clean.a", "marts.x", "marts.z"]),
            ("marts.*", ["marts.x", "marts.y", "marts.z"]),
            ("*.a", ["raw.a", "clean.a"]),
            ("marts.?", ["marts.x", "marts.y", "marts.z"]),
            ("tag:daily", ["raw.a", "marts.y"]),
            ("tag:land+", ["raw.a", "clean.a", "marts.x", "marts.z"]),
            ("raw.b raw.a", ["raw.a", "raw.b"]),
            ("raw.b,raw.a", ["raw.a", "raw.b"]),
            (" raw.b ,  raw.a , ", ["raw.a", "raw.b"]),
            ("* except marts.*", ["raw.a", "raw.b", "clean.a"]),
            ("+marts.z EXCEPT raw.a, tag:daily", ["raw.b", "clean.a", "marts.x", "marts.z"]),
            ("`raw.a`", ["raw.a"]),
        ],
    )
    def test_forms(self, text: str, names: list[str]) -> None:
        assert tables(text) == names

    def test_several_texts_are_united(self) -> None:
        assert tables("raw.a", "+marts.y") == ["raw.a", "raw.b", "marts.y"]

    def test_a_view_is_refused_since_it_has_no_labels_and_can_only_be_queried(self) -> None:
        with pytest.raises(WaterclockError) as raised:
            tables("raw.a_view", among=flow(collect("raw.a"), collect("raw.b")))
        assert raised.value.what == "raw.a_view is a view of raw.a, not a table"
        assert raised.value.fix == "query it with `waterclock query`, or name raw.a"

    def test_no_text_means_all(self) -> None:
        assert tables() == tables("") == list(FLOW.tables)

    def test_a_name_with_special_characters_is_written_in_backticks(self) -> None:
        odd = flow(collect("out.my table, 2*"), collect("out.my table, 22"))
        assert tables("`out.my table, 2*`", among=odd) == ["out.my table, 2*"]

    @pytest.mark.parametrize(
        ("text", "what", "fix"),
        [
            ("raw.c", "no table matches raw.c", "did you mean raw.b or raw.a?"),
            (
                "raw.a_quarantine",
                "raw.a_quarantine is the quarantine of raw.a, not a table of its own",
                (
                    "`waterclock query 'SELECT * FROM raw.a_quarantine'` shows its rows, "
                    "`waterclock replay raw.a` retries them"
                ),
            ),
            ("mart.x", "no table matches mart.x", "did you mean marts.x or marts.z or marts.y?"),
            ("mats.*", "no table matches mats.*", "did you mean marts.z or marts.y or marts.x?"),
            ("RAW.A", "no table matches RAW.A", "did you mean raw.a or raw.b?"),
            ("nothing", "no table matches nothing", "name a table, a pattern such as marts.*, or tag:word"),
            ("tag:dayly", "no table has the tag dayly", "did you mean daily?"),
        ],
    )
    def test_scenario_p_a_selection_without_matches_is_refused_with_the_nearest_names(
        self, text: str, what: str, fix: str
    ) -> None:
        error = refused("E511", text)
        assert (error.what, error.fix) == (what, fix)

    def test_one_item_that_matches_nothing_spoils_the_whole(self) -> None:
        refused("E511", "raw.a raw.q")
        refused("E511", "raw.a except raw.q")

    @pytest.mark.parametrize("text", ["raw.a except raw.a", "marts.* except raw.a, marts.*", "except *"])
    def test_a_selection_that_leaves_all_its_tables_out_is_refused(self, text: str) -> None:
        assert refused("E511", text).what == f"no table matches {text}"

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("raw.a++", 6),
            ("+", 1),
            ("raw.a `raw.b", 6),
            ("raw.a@2013 raw.b@", 7),
            ("raw.a except", 12),
            ("@2013-01-01", 0),
        ],
    )
    def test_an_invalid_selection_is_refused_with_its_place(self, text: str, place: int) -> None:
        with pytest.raises(WaterclockError) as caught:
            select(FLOW, text)
        assert caught.value.code in {"E510", "E512"}
        assert caught.value.excerpt is not None
        if caught.value.code == "E510":
            assert caught.value.excerpt.splitlines()[1].index("^") == place

    @given(st.sets(st.sampled_from(sorted(FLOW.tables)), min_size=1))
    def test_names_mean_themselves_in_any_order(self, names: set[str]) -> None:
        assert set(tables(" ".join(names))) == names == set(tables(*names)) == set(tables(",".join(sorted(names))))

    @given(st.sampled_from(sorted(FLOW.tables)), st.sampled_from(sorted(FLOW.tables)))
    def test_upstream_and_downstream_mirror_each_other(self, one: str, other: str) -> None:
        assert (one in tables(f"+{other}")) == (other in tables(f"{one}+"))

    @given(st.text(alphabet="raw.ab+@*,` :tgexcp0123-", max_size=20))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        found = outcome(tables, text)
        assert found in {"E510", "E511", "E512", "E514"} if isinstance(found, str) else set(found) <= set(FLOW.tables)


class TestLabels:
    @pytest.mark.parametrize(
        ("text", "low", "high"),
        [
            ("20130105000000", "2013-01-05", "2013-01-06"),
            ("2013-01-05", "2013-01-05", "2013-01-06"),
            ("20130105", "2013-01-05", "2013-01-06"),
            ("2013-01-05T00:00", "2013-01-05", "2013-01-06"),
            ("2013-01", "2013-01-01", "2013-02-01"),
            ("2012-12..2013-01", "2012-12-01", "2013-02-01"),
            ("20130101..20130107", "2013-01-01", "2013-01-08"),
            ("2013-01-01..2013-01-07", "2013-01-01", "2013-01-08"),
            ("20130101000000..20130107000000", "2013-01-01", "2013-01-08"),
        ],
    )
    def test_forms(self, text: str, low: str, high: str) -> None:
        assert parse_labels(text).bounds(DAILY) == (at(low), at(high))

    def test_open_ends(self) -> None:
        assert parse_labels("20130101..").bounds(DAILY) == (at("2013-01-01"), None)
        assert parse_labels("..20130101").bounds(DAILY) == (None, at("2013-01-02"))
        assert parse_labels("..").bounds(DAILY) == (None, None)

    def test_dates_are_those_of_the_zone(self) -> None:
        assert parse_labels("2013-01-05").bounds(NEW_YORK) == (at("2013-01-05 05:00"), at("2013-01-06 05:00"))
        assert parse_labels("2013-01-05").bounds(HOURLY_NEW_YORK) == (at("2013-01-05 05:00"), at("2013-01-06 05:00"))
        assert parse_labels("2013-03-10").bounds(NEW_YORK) == (at("2013-03-10 05:00"), at("2013-03-11 04:00"))

    def test_times_are_those_of_the_zone_unless_they_say_otherwise(self) -> None:
        assert parse_labels("2013-01-05T01:00").bounds(HOURLY_NEW_YORK)[0] == at("2013-01-05 06:00")
        assert parse_labels("2013-01-05T01:00Z").bounds(HOURLY_NEW_YORK)[0] == at("2013-01-05 01:00")
        assert parse_labels("2013-01-05T01:00+02:00").bounds(HOURLY_NEW_YORK)[0] == at("2013-01-04 23:00")

    def test_a_label_in_utc_is_meant_to_the_minute(self) -> None:
        labels = parse_labels("20130105050000")
        assert labels.contains(at("2013-01-05 05:00"), NEW_YORK)
        assert not labels.contains(at("2013-01-06 05:00"), NEW_YORK)

    def test_an_instant_inside_a_window_is_no_label(self) -> None:
        low, high = parse_labels("2013-01-05T01:00").bounds(DAILY)
        assert low == high

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "201",
            "201301",
            "x",
            "2013-01-05..x",
            "2013-13-01",
            "20130230",
            "2013-01-05 06:00",
            "2013-01-05...",
            "a..b",
        ],
    )
    def test_an_invalid_label_is_refused(self, text: str) -> None:
        with pytest.raises(WaterclockError) as caught:
            parse_labels(text)
        assert caught.value.code == "E512"
        assert "2013-01-05" in f"{caught.value.why} {caught.value.fix}"

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("2013-13-01", "2013-13-01 is not a date: month must be in 1..12"),
            ("20130101..20130230", "20130230 is not a date: day is out of range for month"),
            ("0000", "0000 is not a date: year 0 is out of range"),
        ],
    )
    def test_a_nonexistent_date_is_refused_with_the_reason(self, text: str, why: str) -> None:
        with pytest.raises(WaterclockError) as caught:
            parse_labels(text)
        assert caught.value.why == why

    def test_text_after_the_last_representable_day_is_reported_before_the_day_itself(self) -> None:
        with pytest.raises(WaterclockError) as caught:
            parse_labels("19000101..99991231x")
        assert caught.value.code == "E512"
        assert str(caught.value.excerpt).endswith(" " * 18 + "^")

    @pytest.mark.parametrize(("text", "days"), [("2013", 365), ("2012", 366), ("2012..2013", 731)])
    def test_a_year_is_all_its_days(self, text: str, days: int) -> None:
        low, high = parse_labels(text).bounds(DAILY)
        assert low is not None
        assert high is not None
        assert (high - low).days == days

    def test_a_range_backwards_is_refused_with_the_right_one(self) -> None:
        with pytest.raises(WaterclockError) as caught:
            parse_labels("20130107..20130101")
        assert (caught.value.code, caught.value.fix) == ("E514", "write 20130101..20130107")

    def test_labels_that_no_window_has_are_refused_with_the_nearest(self) -> None:
        table = collect("raw.a")
        with pytest.raises(WaterclockError) as caught:
            parse_labels("2014-01-05").limit_to(table, at("2013-01-01"), at("2013-02-01"))
        assert (caught.value.code, caught.value.what) == ("E513", "no label of raw.a is in 2014-01-05")
        assert caught.value.fix == "the nearest: 20130131000000 (2013-01-31 00:00 +00:00)"

    def test_labels_outside_the_windows_of_a_table_are_refused_with_their_limits(self) -> None:
        for text, why in (
            ("2012-12-05", "its first window is 2013-01-01 00:00 +00:00, its START"),
            ("2013-03-05", "its newest window that has ended is 2013-01-31 00:00 +00:00"),
            ("2013-01-05T06:00Z", "its windows are EVERY DAY"),
        ):
            with pytest.raises(WaterclockError) as caught:
                parse_labels(text).limit_to(collect("raw.a"), at("2013-01-01"), at("2013-02-01"))
            assert (caught.value.code, caught.value.why) == ("E513", why)

    def test_the_start_is_not_mentioned_for_a_table_that_declares_none(self) -> None:
        with pytest.raises(WaterclockError) as caught:
            parse_labels("2012-12-05").limit_to(transform("marts.a", ["raw.a"]), at("2013-01-01"), at("2013-02-01"))
        assert caught.value.why == "its first window is 2013-01-01 00:00 +00:00"

    def test_a_time_between_labels_is_refused_with_those_around_it(self) -> None:
        with pytest.raises(WaterclockError) as caught:
            parse_labels("2013-01-05T06:00Z").limit_to(collect("raw.a"), at("2013-01-01"), at("2013-02-01"))
        assert caught.value.fix == (
            "the nearest: 20130105000000 (2013-01-05 00:00 +00:00) or 20130106000000 (2013-01-06 00:00 +00:00)"
        )

    def test_labels_are_cut_to_those_there_are(self) -> None:
        found = parse_labels("2012-01..2013-01-03").limit_to(collect("raw.a"), at("2013-01-01"), at("2013-02-01"))
        assert found == (at("2013-01-01"), at("2013-01-04"))

    def test_labels_may_follow_each_table(self) -> None:
        found = select(FLOW, "raw.a@20130105 marts.*@2013-01-01..2013-01-02, raw.b")
        assert {name: str(labels) for name, labels in found.labels.items()} == {
            "raw.a": "20130105",
            "marts.x": "2013-01-01..2013-01-02",
            "marts.y": "2013-01-01..2013-01-02",
            "marts.z": "2013-01-01..2013-01-02",
        }

    POINTS = st.one_of(
        st.dates().map(lambda day: day.isoformat()),
        st.dates().map(lambda day: f"{day.year:04}{day.month:02}{day.day:02}"),
        st.dates().map(lambda day: f"{day.year:04}-{day.month:02}"),
        st.dates().map(lambda day: f"{day.year:04}"),
        st.datetimes().map(lambda t: f"{t.year:04}{t:%m%d%H%M}00"),
    )

    @given(st.one_of(POINTS, POINTS.map(lambda point: f"{point}.."), POINTS.map(lambda point: f"..{point}")))
    def test_labels_are_formatted_as_they_were_written(self, text: str) -> None:
        labels = outcome(parse_labels, text)
        # refused beyond the years that instants support; the last year and month have no end
        assert labels in {"E512", "E106"} or str(labels) == text

    @given(st.text(alphabet="0123456789-.T:Z", max_size=34))
    def test_any_text_is_read_or_refused(self, text: str) -> None:
        found = outcome(parse_labels, text)
        assert isinstance(found, Labels) or found in {"E512", "E514", "E106"}


@pytest.mark.parametrize("text", ["9999-12..9999-12", "2013-01..9999-12-31"])
def test_the_end_of_all_time_is_refused(text: str) -> None:
    with pytest.raises(WaterclockError) as refused:
        parse_labels(text).bounds(Cadence(parse_period("DAY")))
    assert refused.value.code == "E106"


class TestBothParts:
    """A command that makes batches selects both tables of APART."""

    FLOW = flow(
        collect("raw.a"),
        replace(transform("web.a", ["raw.a"]), apart=Apart("customer", "buyer", ("email",), "pii")),
        transform("web.a_apart", ["raw.a"]),
        transform("marts.a", ["web.a"]),
        transform("marts.b", ["web.a_apart"]),
        transform("marts.c_apart", ["raw.a"]),
    )

    @pytest.mark.parametrize(
        ("text", "names", "added"),
        [
            ("web.a", {"web.a", "web.a_apart"}, {"web.a_apart"}),
            ("web.a_apart", {"web.a", "web.a_apart"}, {"web.a"}),
            ("web.a*", {"web.a", "web.a_apart"}, set()),
            ("web.a+", {"web.a", "web.a_apart", "marts.a"}, {"web.a_apart"}),
            ("web.* except web.a", None, set()),
            ("web.* raw.a except web.a_apart", {"raw.a"}, set()),
            ("marts.c_apart", {"marts.c_apart"}, set()),
        ],
    )
    def test_the_other_table_is_added(self, text: str, names: set[str] | None, added: set[str]) -> None:
        if names is None:
            with pytest.raises(WaterclockError) as caught:
                select(self.FLOW, text, has_both_parts=True)
            assert caught.value.code == "E511"
            return
        found = select(self.FLOW, text, has_both_parts=True)
        assert (set(found.tables), set(found.added)) == (names, added)

    def test_the_other_table_has_the_same_labels_unless_it_is_given_others(self) -> None:
        found = select(self.FLOW, "web.a@2013-01-01", has_both_parts=True)
        assert {name: str(of) for name, of in found.labels.items()} == dict.fromkeys(found.tables, "2013-01-01")
        for text in ("web.a@2013-01-01 web.a_apart@2013-01-02", "web.a_apart@2013-01-02 web.a@2013-01-01"):
            labels = select(self.FLOW, text, has_both_parts=True).labels
            assert {name: str(of) for name, of in labels.items()} == {
                "web.a": "2013-01-01",
                "web.a_apart": "2013-01-02",
            }

    def test_without_it_exactly_the_named_table_is_selected(self) -> None:
        found = select(self.FLOW, "web.a")
        assert (found.tables, found.added) == (("web.a",), frozenset())
