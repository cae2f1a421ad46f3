"""Runners that want the same work at the same time: each label is claimed once."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from multiprocessing import get_context
from pathlib import Path
from random import Random
from time import sleep

import pytest

from tests import postgres
from tests.ledgers import Desk, day, flow, result, table
from waterclock.flow.declarations import Flow
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.ledger_errors import ClaimRefused

LABELS = range(15)


def declared() -> Flow:
    return flow(table("raw.a", partitioned=True), table("raw.b"))


def wait_for_others(folder: Path, seed: int, runners: int, what: str) -> None:
    """Wait until all runners, in any threads or processes, have reached the same point."""
    (folder / f"{what} {seed}").touch()
    while len(list(folder.glob(f"{what} *"))) < runners:
        sleep(0.001)


def run_all(url: str, folder: Path, seed: int, runners: int) -> list[tuple[str, datetime, int]]:
    """Claim every label of both tables in random order; return the obtained ones with their claims."""
    got: list[tuple[str, datetime, int]] = []
    wanted = [(name, label) for label in LABELS for name in ("raw.a", "raw.b")]
    Random(seed).shuffle(wanted)
    with closing(Ledger.open(url)) as ledger:
        desk = Desk(ledger, ledger.now, flow=declared())  # type: ignore[arg-type]  # the ledger's own clock
        wait_for_others(folder, seed, runners, "ready")
        while wanted:
            later = []
            for name, label in wanted:
                try:
                    claim = desk.claim(name, label, runner=f"runner {seed}", lease_seconds=3600)
                except ClaimRefused as refused:
                    if refused.code == "E407":
                        later.append((name, label))
                    continue
                sleep(0.002)  # the work: time in which other runners want the same
                ledger.claims.record_done(claim, [result(label)])
                got.append((name, day(label), claim.number))
                if len(got) == 1:
                    wait_for_others(folder, seed, 2, "got one")
            wanted = later
    return got


def check(url: str, got: list[list[tuple[str, datetime, int]]]) -> None:
    done = [each for of in got for each in of]
    assert Counter((name, label) for name, label, _ in done) == {
        (name, day(label)): 1 for name in ("raw.a", "raw.b") for label in LABELS
    }
    assert len({number for _, _, number in done}) == len(done)
    assert sum(1 for of in got if of) > 1
    with closing(Ledger.open(url)) as ledger:
        for name in ("raw.a", "raw.b"):
            facts = ledger.reads.snapshot(declared()).of(name)
            assert list(facts.covered) == [(day(0), day(len(LABELS)))]
            assert facts.codes == {f"code of {name}": len(LABELS)}
            assert facts.open_claims == ()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'ledger.db'}" if request.param == "sqlite" else postgres.server().ledger_url()
    with closing(Ledger.open(url)) as ledger:
        ledger.declared.apply(declared(), who="ann", now=day(0), runner="here")
    return url


@pytest.mark.slow
def test_threads_get_each_label_once(url: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        check(url, list(pool.map(run_all, [url] * 4, [tmp_path] * 4, range(4), [4] * 4)))


@pytest.mark.slow
def test_processes_get_each_label_once(url: str, tmp_path: Path) -> None:
    with get_context("spawn").Pool(3) as pool:
        check(url, pool.starmap(run_all, [(url, tmp_path, seed, 3) for seed in range(3)], chunksize=1))


def test_threads_of_one_ledger_share_it(url: str) -> None:
    with closing(Ledger.open(url)) as ledger:
        desk = Desk(ledger, ledger.now, flow=declared())  # type: ignore[arg-type]  # the ledger's own clock

        def make(label: int) -> int:
            claim = desk.claim("raw.a", label)
            ledger.reads.snapshot(desk.flow)
            ledger.claims.record_done(claim, [result(label)])
            return claim.number

        with ThreadPoolExecutor(8) as pool:
            numbers = list(pool.map(make, range(60)))
        assert len(set(numbers)) == 60
        assert list(ledger.reads.snapshot(desk.flow).of("raw.a").covered) == [(day(0), day(60))]


def test_threads_share_a_ledger_in_memory() -> None:
    with Ledger.open("sqlite://") as ledger:
        ledger.declared.apply(declared(), who="ann", now=day(0), runner="here")
        desk = Desk(ledger, ledger.now, flow=declared())  # type: ignore[arg-type]  # the ledger's own clock
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda label: desk.done("raw.a", label), range(40)))
        assert list(ledger.reads.snapshot(desk.flow).of("raw.a").covered) == [(day(0), day(40))]


@pytest.mark.slow
@pytest.mark.parametrize("is_of_all", [True, False])
def test_nothing_is_claimed_once_a_pause_is_written_whoever_is_about_to(url: str, *, is_of_all: bool) -> None:
    """Each thread has its own ledger, as a process has, and claims until it is refused."""

    def claims(first: int) -> list[int]:
        got = []
        with closing(Ledger.open(url)) as ledger:
            desk = Desk(ledger, ledger.now, flow=declared())  # type: ignore[arg-type]  # the ledger's own clock
            for label in range(first, first + 10_000):  # the pausing thread may wait long for its turn
                try:
                    got.append(desk.claim("raw.a", label).number)
                except ClaimRefused as refused:
                    assert refused.code == "E429"  # noqa: PT017 - any other error has nothing to do with the pause
                    return got
        raise AssertionError("nothing was refused")

    with ThreadPoolExecutor(4) as pool, closing(Ledger.open(url)) as ledger:
        running = [pool.submit(claims, 10_000 * number) for number in range(4)]
        while len(ledger.claims.open()) < 20:
            sleep(0.001)
        if is_of_all:
            ledger.decisions.pause_all(who="ann", why="x")
        else:
            ledger.decisions.pause_tables(["raw.a"], who="ann", why="x")
        there = {claim.number for claim in ledger.claims.open()}
        assert {number for future in running for number in future.result()} == there
