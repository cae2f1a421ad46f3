"""No piece of a ledger's URL that may be secret is in an error, however the URL is written or malformed."""

from __future__ import annotations

import traceback

import pytest
import sqlalchemy as sa

from waterclock.errors import WaterclockError
from waterclock.ledger import database_errors
from waterclock.ledger.ledger import Ledger
from waterclock.ledger.store.backend import parse_url
from waterclock.ledger.store.locations import check_ledger_url, place_of, redact_url_text

WORD = "CANARYLEAK"
URLS = [
    f"postgresql://127.0.0.1:1/x?password={WORD}",
    f"postgresql://127.0.0.1:1/x?sslpassword={WORD}&connect_timeout=1",
    f"postgresql://ann:{WORD}@127.0.0.1:1/x",
    f"postgresql://ann:{WORD}/a@127.0.0.1:1/x",
    f"postgresql://ann:a@{WORD}@127.0.0.1:1/x",
    f"postgresql://ann:a@b:{WORD}/x",
    f"postgresql://ann:a/{WORD}",
    f"postgresql://127.0.0.1:{WORD}/x",
    f"postgresql://127.0.0.1:1/x#password={WORD}",
    f"postgresql://127.0.0.1:1/x?pasword={WORD}",
    f"postgresql://127.0.0.1:1/x?{WORD}=1",
    f"host=127.0.0.1 password={WORD}",
    f"mysql://ann:{WORD}@h/x",
    f"{WORD}://h/x",
    f"{WORD}",
    f" postgresql://ann:{WORD}@h/x",
    f"postgresql:/ann:{WORD}@h/x",
    f"postgresql+asyncpg://ann:{WORD}@h/x",
    f"sqlite://ann:{WORD}@h/x",
    f"postgresql://[::1:{WORD}/x",
]


@pytest.mark.parametrize("url", URLS)
def test_no_error_shows_a_secret_of_the_url(url: str) -> None:
    for opened in (Ledger.open, check_ledger_url, redact_url_text, lambda one: place_of(one).name):
        try:
            text = str(opened(url))
        except WaterclockError as error:
            text = error.render() + "".join(traceback.format_exception(error))
        assert WORD not in text.replace(f'"{url}"', "")


def test_server_errors_are_shown_without_the_password() -> None:
    url = parse_url(f"postgresql://ann:{WORD}%2F@h/x?sslpassword=ANOTHER&sslmode=disable")
    error = sa.exc.OperationalError("", {}, Exception(f"no {WORD}/ nor {WORD}%2F nor ANOTHER at h"))
    made_by = (
        database_errors.refused_operation_error,
        database_errors.build_busy_error,
        database_errors.login_error,
    )
    for made in (
        database_errors.build_unreachable_error(url, error, may_repeat=False),
        *(make(url, error) for make in made_by),
    ):
        assert WORD not in made.render()
        assert "ANOTHER" not in made.render()
        assert "postgresql://ann:***@h/x?sslmode=disable&sslpassword=***" in made.render().replace(
            "sslpassword=***&sslmode=disable", "sslmode=disable&sslpassword=***"
        )


@pytest.mark.parametrize(
    "url",
    ["postgresql:///x?host=/var/run/postgresql", "postgresql://ann@[::1]:5432/x", "postgresql://ann@a,b/x?schema=team",
     "postgresql://a.b:p%2Fw@db-1.example/x", "postgres://db/x?sslmode=require"],
)  # fmt: skip
def test_plain_urls_are_read(url: str) -> None:
    assert parse_url(url).get_backend_name() in {"postgresql", "postgres"}
