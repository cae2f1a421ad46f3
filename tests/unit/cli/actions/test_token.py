from __future__ import annotations

import json
from datetime import timedelta

from tests.unit.cli.conftest import Shop
from waterclock.batches.access import Access
from waterclock.permissions.users_and_roles import SignIn

USERS = '\n[roles]\noperator = ["look", "run"]\n[users.anna]\nroles = ["operator"]\n'


def declare(shop: Shop) -> None:
    file = shop.folder / "waterclock.toml"
    file.write_text(file.read_text() + USERS)


def test_a_token_is_printed_once_and_then_listed_without_its_value(shop: Shop) -> None:
    declare(shop)
    made = shop.ask("token", "create", "nightly", "--for", "anna", "--may", "look", "--until", "2099-12-31", "--json")
    assert made.exit_code == 0, made.output
    answer = json.loads(made.stdout)
    assert answer["token"].startswith("wct_")
    assert (answer["created"]["rights"], answer["created"]["until"][:4]) == (["look"], "2099")
    listed = shop.ask("token", width=200)
    assert ("nightly" in listed.stdout, answer["token"] in listed.stdout) == (True, False)
    assert answer["token"].encode() not in shop.ledger_file.read_bytes()
    assert shop.ask("token", "revoke", "nightly").exit_code == 0
    [token] = json.loads(shop.ask("token", "list", "--json").stdout)["tokens"]
    assert (token["name"], token["revoked_at"] is None) == ("nightly", False)


def test_the_value_alone_is_on_stdout_for_scripts(shop: Shop) -> None:
    declare(shop)
    made = shop.ask("token", "create", "nightly", "--for", "anna")
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("wct_")
    assert len(made.stdout.split()) == 1


def test_tokens_that_cannot_be_are_refused(shop: Shop) -> None:
    assert "the project declares no users" in shop.ask("token", "create", "a", "--for", "anna").output
    declare(shop)
    for arguments, said in (
        (("create", "a", "--for", "ana"), "did you mean anna?"),
        (("create", "a", "--for", "anna", "--may", "release"), "does not have the right release"),
        (("create", "a", "--for", "anna", "--until", "2001-01-01"), "is in the past"),
        (("create", "a"), "create needs --for USER"),
        (("revoke", "a"), "there is no token a"),
        (("revoke",), "takes a name"),
    ):
        found = shop.ask("token", *arguments, width=200)
        assert (found.exit_code != 0, said in found.output) == (True, True), found.output


def test_maintain_forgets_accesses_that_are_older_than_the_project_keeps_them(shop: Shop) -> None:
    declare(shop)
    file = shop.folder / "waterclock.toml"
    file.write_text(f'{file.read_text()}\n[sign_in]\nkeep_accesses = "30 DAYS"\n')
    now = shop.ledger.now()
    for days in (1, 29, 31, 500):
        shop.ledger.access.record([Access("anna", SignIn.TOKEN, f"{days} ago", at=now - timedelta(days=days))])
    assert shop.ask("maintain", "--dry-run").exit_code == 0
    assert len(json.loads(shop.ask("access", "--json").stdout)["accesses"]) == 4
    assert shop.ask("maintain").exit_code == 0
    answer = json.loads(shop.ask("access", "--json").stdout)
    assert [each["action"] for each in answer["accesses"]] == ["1 ago", "29 ago"]
