"""Reports credentials that options and settings contain in plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from waterclock.dpl.config.model import Config
from waterclock.dpl.syntax.source_text import Span
from waterclock.errors import WaterclockError
from waterclock.flow.capabilities import Option
from waterclock.flow.declarations import Secret, Value
from waterclock.secrets.credentials import has_key, has_password, is_credential, is_credential_conf

_WHY = "it would appear in version control, in plans and in logs"


def written_secret(name: str, value: Value | Secret, option: Option, span: Span) -> WaterclockError | None:
    """Return the error for an option that contains a credential in plain text; else None. The error hides the value."""
    if isinstance(value, Secret):
        return None
    if option.is_secret:
        return span.refuse(
            "E333",
            f"{name} is written in plain text",
            why=_WHY,
            fix=f"name a secret: {name} SECRET 'name', in the project file {{ secret = \"name\" }}",
        )
    if option.is_address and has_password(str(value)):
        return span.refuse(
            "E333",
            f"{name} contains a password",
            why=_WHY,
            fix=f"remove it from {name} and name a secret: password SECRET 'name', in the project file "
            f"password = {{ secret = \"name\" }}; or make all of {name} a secret: {name} SECRET 'name'",
        )
    return None


def written_setting_errors(config: Config) -> Iterator[WaterclockError]:
    """Yield an error for each setting of the project file that contains a credential in plain text; it hides the value.

    The URL of the ledger, options of the storage, settings of Spark, addresses and tokens of alerts and OpenLineage,
    and the client secret of sign-in are checked.
    """
    declared, path = config.environment, ("env", config.env)
    if isinstance(declared.ledger, str) and has_password(declared.ledger):
        yield config.place((*path, "ledger")).refuse(
            "E333",
            "the URL of the ledger contains a password",
            why=_WHY,
            fix='make the whole URL a secret: ledger = { secret = "ledger_url" }',
        )
    for at, value in _list_addresses(config):
        if isinstance(value, str) and has_key(value):
            yield config.place(at).refuse(
                "E333",
                f"the address in {at[-1]} contains a password or a key",
                why=_WHY,
                fix=f'make the whole address a secret: {at[-1]} = {{ secret = "name" }}',
            )
    options, confs = declared.storage_options.items(), declared.spark.confs.items()
    named: list[tuple[tuple[str, ...], Any]] = [
        *(((*path, "storage_options", name), value) for name, value in options if is_credential(name)),
        *(((*path, "spark", "confs", name), value) for name, value in confs if is_credential_conf(name, str(value))),
        *_tokens(config),
    ]
    for at, value in named:
        if isinstance(value, str):
            name = f'"{at[-1]}"' if "." in at[-1] else at[-1]
            yield config.place_of_env(at).refuse(
                "E333",
                f"{at[-1]} is written in plain text",
                why=_WHY,
                fix=f'name a secret: {name} = {{ secret = "name" }}',
            )


def _list_addresses(config: Config) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the addresses of alerts and of OpenLineage, each with the path of its key."""
    yield ("openlineage", "url"), config.openlineage.get("url")
    targets = config.alerts.get("targets")
    for name, values in targets.items() if isinstance(targets, Mapping) else ():
        for kind in ("webhook", "apprise") if isinstance(values, Mapping) else ():
            yield ("alerts", "targets", name, kind), values.get(kind)


def _tokens(config: Config) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the tokens of webhooks and OpenLineage, and the client secret of OIDC, each with the path of its key."""
    if config.sign_in.oidc is not None:
        yield ("sign_in", "oidc", "client_secret"), config.sign_in.oidc.client_secret
    if "url" in config.openlineage:
        yield ("openlineage", "token"), config.openlineage.get("token")
    targets = config.alerts.get("targets")
    for name, values in targets.items() if isinstance(targets, Mapping) else ():
        if isinstance(values, Mapping) and "webhook" in values:
            yield ("alerts", "targets", name, "token"), values.get("token")
