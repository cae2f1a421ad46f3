"""`check` refuses plain-text credentials for every connector, and shows none of them."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time

import pytest

from waterclock.connectors.registry import capabilities
from waterclock.dpl.project import check_project
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.secrets.credentials import has_password, hide_credentials, is_credential

WORD = "CANARYLEAK"
OF_WEBHOOK = "the address in webhook contains a password or a key"
AZURE = "fs.azure.account.key.shop.dfs.core.windows.net"
NEEDED = {
    "postgres": "url 'postgresql://ann@h/x'", "mysql": "url 'mysql://ann@h/x'", "kafka": "servers 'h:9092'",
    "rest": "url 'https://h'", "files": "path 's3://bucket/x'", "receiver": "path 'data'",
    "firebird": "url 'firebird://ann@h/x'", "keys": "current '2026'",
    "forms": "url 'postgresql://ann@h/x'",
}  # fmt: skip
SECRETS = [
    (kind, name.replace("*", "2026"))
    for kind, known in sorted(capabilities().items())
    for name, option in sorted(known.connection_options.items())
    if option.is_secret
]


def errors_of(folder: Path, statement: str, settings: str = "") -> list[WaterclockError]:
    """Return the errors of a project with one statement."""
    (folder / "flows").mkdir()
    (folder / "flows" / "a.dpl").write_text(statement)
    (folder / "waterclock.toml").write_text(f'[project]\nname = "shop"\n[env.dev]\n{settings}\n')
    _, errors = check_project(folder, capabilities=capabilities())[:2]
    return list(errors)


def texts(errors: list[WaterclockError]) -> str:
    """Return the printed errors, as text and as JSON."""
    return ProjectErrors(errors).render() + json.dumps([error.to_dict() for error in errors])


def test_every_option_that_is_named_like_a_credential_is_declared_as_one() -> None:
    assert len(SECRETS) >= 12
    for known in capabilities().values():
        for name, option in known.connection_options.items():
            assert option.is_secret == is_credential(name.replace("*", "2026")), f"{known.type}: {name}"
            assert option.is_secret == ("as a secret" in option.help), f"{known.type}: {name}"


@pytest.mark.parametrize(("kind", "name"), SECRETS)
@pytest.mark.parametrize("value", [f"'{WORD}'", "7734097734"])
def test_a_secret_that_is_written_out_is_refused_in_a_statement(
    tmp_path: Path, kind: str, name: str, value: str
) -> None:
    errors = errors_of(tmp_path, f"CREATE CONNECTION c TYPE {kind} OPTIONS ({NEEDED[kind]}, {name} {value});")
    found = next(error for error in errors if error.what == f"{name} is written in plain text")
    assert found.code == "E333"
    assert found.where is not None
    assert found.where.startswith("flows/a.dpl:1:")
    assert "SECRET" in str(found.fix)
    assert WORD not in texts(errors)


@pytest.mark.parametrize(("kind", "name"), SECRETS)
def test_a_secret_that_is_written_out_is_refused_in_the_project_file(tmp_path: Path, kind: str, name: str) -> None:
    option, _, value = NEEDED[kind].partition(" ")
    line = f'connections.c = {{ {option} = {value}, {name} = "{WORD}", strange = 1 }}'
    errors = errors_of(tmp_path, f"CREATE CONNECTION c TYPE {kind};", line)
    found = next(error for error in errors if error.what == f"{name} is written in plain text")
    assert found.code == "E333"
    assert found.where is not None
    assert found.where.startswith("waterclock.toml:4:")
    assert any("strange" in error.what for error in errors)
    assert WORD not in texts(errors)


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("postgres", f"postgresql://ann:{WORD}@h/x"),
        ("postgres", f"postgresql://ann:{WORD}/w@h/x"),
        ("postgres", f"postgresql://h/x?password={WORD}"),
        ("postgres", f"postgresql://h/x?sslmode=require&sslpassword={WORD}"),
        ("postgres", f"host=h password={WORD}"),
        ("postgres", f"host=h password = {WORD}"),
        ("mysql", f"mysql://ann:{WORD}@h/x"),
        ("mysql", f"mysql://ann:p@{WORD}@h/x"),
        ("firebird", f"firebird://ann:{WORD}@h/x"),
        ("firebird", f"firebird://ann:{WORD}@h//data/x.fdb"),
    ],
)
@pytest.mark.parametrize("is_in_file", [False, True])
def test_an_address_with_a_password_is_refused(tmp_path: Path, kind: str, url: str, *, is_in_file: bool) -> None:
    if is_in_file:
        errors = errors_of(tmp_path, f"CREATE CONNECTION c TYPE {kind};", f'connections.c = {{ url = "{url}" }}')
    else:
        errors = errors_of(tmp_path, f"CREATE CONNECTION c TYPE {kind} OPTIONS (url '{url}');")
    [found] = [error for error in errors if error.what == "url contains a password"]
    assert found.code == "E333"
    assert "url SECRET 'name'" in str(found.fix)
    assert WORD not in texts(errors)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        (f'ledger = "postgresql://ann:{WORD}@h/x?schema=shop"', "the URL of the ledger contains a password"),
        (f'ledger = "postgresql://ann@h/x?password={WORD}"', "the URL of the ledger contains a password"),
        (f'storage_options.secret_access_key = "{WORD}"', "secret_access_key is written in plain text"),
        (f'storage_options.session_token = "{WORD}"', "session_token is written in plain text"),
        (f'spark.confs."fs.s3a.secret.key" = "{WORD}"', "fs.s3a.secret.key is written in plain text"),
        (f'[openlineage]\nurl = "https://h/x"\ntoken = "{WORD}"', "token is written in plain text"),
        (f'[alerts.targets.desk]\nwebhook = "https://h/x"\ntoken = "{WORD}"', "token is written in plain text"),
        (f'[alerts.targets.desk]\nwebhook = "https://ann:{WORD}@h/x"', OF_WEBHOOK),
        (f'[alerts.targets.desk]\nwebhook = "https://h/x?token={WORD}"', OF_WEBHOOK),
        (f'[alerts.targets.desk]\nwebhook = "https://hooks.slack.com/services/{WORD}"', OF_WEBHOOK),
        (f'[alerts.targets.desk]\napprise = "mailto://ann:{WORD}@h"', OF_WEBHOOK.replace("webhook", "apprise")),
        (f'[openlineage]\nurl = "https://h/x?api_key={WORD}"', OF_WEBHOOK.replace("webhook", "url")),
        (f'spark.confs."spark.ssl.keyPassword" = "{WORD}"', "spark.ssl.keyPassword is written in plain text"),
        (f'spark.confs."spark.authenticate.secret" = "{WORD}"', "spark.authenticate.secret is written in plain text"),
        (f'spark.confs."{AZURE}" = "{WORD}"', f"{AZURE} is written in plain text"),
    ],
)  # fmt: skip
def test_a_credential_in_a_setting_is_refused(tmp_path: Path, settings: str, what: str) -> None:
    errors = errors_of(tmp_path, "CREATE CONNECTION c TYPE postgres OPTIONS (url 'postgresql://ann@h/x');", settings)
    [found] = [error for error in errors if error.code == "E333"]
    assert (found.what, str(found.where).partition(":")[0]) == (what, "waterclock.toml")
    assert 'secret = "' in str(found.fix)
    assert WORD not in texts(errors)


def test_settings_that_are_no_credentials_are_accepted(tmp_path: Path) -> None:
    settings = """ledger = "postgresql://ann@h/x?sslmode=verify-full"
storage_options = { access_key_id = "id", region = "eu", secret_access_key = { secret = "s3" } }
spark.confs = { "spark.hadoop.fs.s3a.secret.key" = { secret = "s3" }, "spark.executor.memory" = "8g" }
spark.confs."spark.hadoop.hive.use.secret" = "true"
[openlineage]
url = "https://h:8080/x?api=1"
[alerts.targets.desk]
webhook = "https://ann@h/hook"
[alerts.targets.log]
apprise = "syslog://"
"""
    errors = errors_of(tmp_path, "CREATE CONNECTION c TYPE postgres OPTIONS (url 'postgresql://ann@h/x');", settings)
    assert [error for error in errors if error.code == "E333"] == []


@pytest.mark.parametrize("settings", ["storage = '{}'", "storage = '{}'\nstorage_options = {{ x = 'y' }}"])
def test_a_url_of_a_bucket_with_a_password_is_refused(tmp_path: Path, settings: str) -> None:
    url = f"s3://ann:{WORD}@bucket/x"
    errors = errors_of(tmp_path, f"CREATE CONNECTION c TYPE files OPTIONS (path '{url}');", settings.format(url))
    found = [error for error in errors if error.what == "the URL of a storage has a user, a password or a port"]
    assert [(error.code, str(error.where).partition(":")[0]) for error in found] == [
        ("E607", "flows/a.dpl"),
        ("E607", "waterclock.toml"),
    ]
    assert WORD not in texts(errors)


def test_values_that_are_no_texts_are_not_shown_either(tmp_path: Path) -> None:
    lines = f"""connections.c = {{ url = "postgresql://ann@h/x", password = ["{WORD}"] }}
[env.dev.vault]
url = "https://vault"
token = "{WORD}"
"""
    errors = errors_of(tmp_path, "CREATE CONNECTION c TYPE postgres;", lines)
    assert errors
    assert WORD not in texts(errors)


@pytest.mark.parametrize(
    "address",
    ["postgresql://ann@h/x", "mysql://ann@h:3306/x", "postgresql:///x?host=/run&sslmode=require", "host=h dbname=x",
     "postgresql://h/x?application_name=pwd_reader", "s3://bucket/password=1", "C:/data@home"],
)  # fmt: skip
def test_no_password_is_detected_in_an_address_without_one(address: str) -> None:
    assert not has_password(address)


@pytest.mark.parametrize(
    "line",
    [
        "password SECRET 'ops/password', url 'postgresql://ann@h/x'",
        'connections.c = { password = { secret = "ops/password" } }',
        '{"token": wc.secret("more/token")}',
        "COLLECT raw.tokens (token STRING, password STRING)",
    ],
)
def test_names_of_secrets_stay_readable(line: str) -> None:
    assert hide_credentials(line) == line


def test_a_long_line_of_names_of_settings_is_masked_in_linear_time() -> None:
    """Regression: each name was compared up to the end of the line: 105 kB took minutes. Each error masks its line."""
    line = "fs.azure.account.key." * 20_000
    begun = process_time()
    assert hide_credentials(line) == line
    assert process_time() - begun < 5
