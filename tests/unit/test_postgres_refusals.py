from __future__ import annotations

import pytest

from waterclock.postgres_refusals import Refusal, Refused, refusal_of

AT = 'connection failed: connection to server at "10.0.0.1", port 5432 failed: '


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('FATAL:  password authentication failed for user "ann"', Refused.LOGIN),
        ('FATAL:  role "ann" does not exist', Refused.LOGIN),
        ('FATAL:  role "ann" is not permitted to log in', Refused.LOGIN),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "ann", database "shop"', Refused.LOGIN),
        ('FATAL:  permission denied for database "shop"', Refused.LOGIN),
        ('FATAL:  database "shop" is not currently accepting connections', Refused.LOGIN),
        ("fe_sendauth: no password supplied", Refused.LOGIN),
        ("SSL error: certificate verify failed", Refused.LOGIN),
        ("FATAL:  no such user: ann", Refused.LOGIN),
        ('FATAL:  database "shop" does not exist', Refused.DATABASE),
        ("FATAL:  no such database: shop", Refused.DATABASE),
        ("Connection refused", None),
        ("timeout expired", None),
        ("FATAL:  the database system is starting up", None),
        ("FATAL:  sorry, too many clients already", None),
        ("server closed the connection unexpectedly", None),
        ('could not translate host name "db" to address: Name or service not known', None),
    ],
)
def test_a_refused_connection_is_told_from_a_server_that_does_not_answer(text: str, reason: Refused | None) -> None:
    assert refusal_of(None, AT + text) == (None if reason is None else Refusal(reason, AT + text))


def test_of_several_attempts_the_refused_one_is_shown() -> None:
    refused = f"- host: 'b': {AT}FATAL:  role \"ann\" does not exist"
    text = f"Multiple connection attempts failed. All failures were:\n- host: 'a': {AT}Connection refused\n{refused}"
    assert refusal_of(None, text) == Refusal(Refused.LOGIN, refused)


@pytest.mark.parametrize(
    ("state", "reason"), [("28P01", Refused.LOGIN), ("28000", Refused.LOGIN), ("3D000", Refused.DATABASE)]
)
def test_a_state_decides_whatever_the_language_of_the_text(state: str, reason: Refused) -> None:
    assert refusal_of(state, "FATAL:  Datenbank gibt es nicht") == Refusal(reason, "FATAL:  Datenbank gibt es nicht")


def test_a_statement_that_fails_is_no_refused_connection() -> None:
    assert refusal_of("42704", 'role "ann" does not exist') is None
