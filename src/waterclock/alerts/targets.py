"""Sends messages to targets, with the library apprise or by a webhook. Addresses and secrets are never shown."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from waterclock.alerts.webhook import post
from waterclock.batches.alerts import MessageCause
from waterclock.errors import WaterclockError
from waterclock.extras import extra_install_command
from waterclock.flow.alerts import Target, TargetKind
from waterclock.flow.declarations import Secret
from waterclock.http.posting import NotDelivered
from waterclock.secrets.reader import Secrets

if TYPE_CHECKING:
    from apprise import Apprise

_MENTION = re.compile(r"@(?=(?:everyone|here|channel|all|room|group|team)\b)|(?<!\w)@(?=\w)|<(?=[@!#])", re.IGNORECASE)
"""The first sign of a mention in Slack, Discord, Teams, Mattermost, Rocket.Chat, Matrix and Telegram."""
_NOTIFICATION_TYPES = {"critical": "failure", "error": "failure", "warning": "warning"}


def check_target(target: Target, secrets: Secrets) -> None:
    """Check that a target can be used with the installed packages, without contacting it. Raises E225, E914 or E915."""
    address = secrets.value_of(target.address)
    if target.token is not None:
        secrets.value_of(target.token)
    if target.kind is TargetKind.APPRISE:
        _create_apprise(target, address)
    elif not address.startswith(("http://", "https://")):
        raise WaterclockError(
            "E914",
            f"the address of target {target.name} is not a webhook",
            why="the value of its secret does not start with https:// or http://",
            fix="put the whole address into the secret",
        )


def target_errors(targets: Iterable[Target], secrets: Secrets) -> list[WaterclockError]:
    """Return an error for each unresolved secret, invalid address and missing package, with the target's place."""
    errors = []
    for target in targets:
        unresolved = [
            error for secret in (target.address, target.token) if (error := _find_secret_error(secret, secrets))
        ]
        try:
            if not unresolved:
                check_target(target, secrets)
        except WaterclockError as error:
            unresolved.append(error)
        errors += [error.at(target.place) for error in unresolved]
    return errors


def _find_secret_error(secret: str | Secret | None, secrets: Secrets) -> WaterclockError | None:
    return (
        secrets.unresolved_error(secret.name) if isinstance(secret, Secret) and not secrets.has(secret.name) else None
    )


def deliver(target: Target, secrets: Secrets, body: Mapping[str, Any]) -> None:
    """Send one message to a target. Raises NotDelivered, whose reason contains no secret, E225, E914 or E915."""
    address = secrets.value_of(target.address)
    if target.kind is TargetKind.WEBHOOK:
        token = None if target.token is None else secrets.value_of(target.token)
        post(address, token, body, target.name)
        return
    notify(_create_apprise(target, address), body)


def notify(apprise: Apprise, body: Mapping[str, Any]) -> None:
    """Send one message by apprise. Raises NotDelivered if that fails."""
    try:
        with _suppress_apprise_output():
            is_sent = apprise.notify(
                body=_escape_mentions(body["text"]),
                title=_escape_mentions(body["title"]),
                notify_type=_notification_type(body),
                body_format="text",
            )
    except Exception as error:  # noqa: BLE001 - third-party code, whose message may contain addresses
        raise NotDelivered(type(error).__name__) from None
    if not is_sent:
        raise NotDelivered("apprise could not deliver it")


def _escape_mentions(text: str) -> str:
    """Return a text in which chats find no mention: error messages may contain one, and it would notify a channel.

    A zero-width space follows the first sign of a mention. Labels as in `raw.orders@2026-11-09` and addresses of mail
    remain as they are.
    """
    return _MENTION.sub("\\g<0>\N{ZERO WIDTH SPACE}", text)


@contextmanager
def _suppress_apprise_output() -> Iterator[None]:
    """Suppress apprise's warnings, and its logs, which may contain parts of addresses."""
    logger = logging.getLogger("apprise")
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = before


def _notification_type(body: Mapping[str, Any]) -> str:
    """Return apprise's notification type for the most severe alert of a message. It determines colors at the target."""
    open_ = [alert["severity"] for alert in body["alerts"] if not MessageCause(alert["telling"]).is_of_end]
    if all(alert["kind"] == "test" for alert in body["alerts"]):
        return "info"
    return min((_NOTIFICATION_TYPES[severity] for severity in open_), default="success")


def _create_apprise(target: Target, address: str) -> Apprise:
    with _suppress_apprise_output():
        try:
            import apprise
        except ImportError as error:
            raise WaterclockError(
                "E915",
                f"target {target.name} needs apprise, which is not installed",
                why=str(error),
                fix=extra_install_command("alerts"),
            ) from error
        asset = apprise.AppriseAsset(app_id="Waterclock", app_desc="Waterclock", storage_mode="memory")
        found = apprise.Apprise(asset=asset)
        is_known = found.add(address)
        kinds = [] if is_known else _list_schemes(apprise)
    if not is_known:
        kind = address.partition("://")[0] if "://" in address else ""
        is_kind = kind in kinds
        raise WaterclockError(
            "E914",
            f"apprise does not accept the address of target {target.name}",
            why=f"a part of the {kind}:// address is missing or misspelt"
            if is_kind
            else "its address does not begin with a known scheme",
            fix="the kinds are listed at https://github.com/caronc/apprise/wiki; a webhook of your own is webhook = …",
        )
    return found


def _list_schemes(apprise: Any) -> list[str]:
    """Return the names of the address schemes that apprise supports."""
    listed = apprise.Apprise().details()["schemas"]
    return [name for each in listed for kind in ("protocols", "secure_protocols") for name in each[kind] or ()]
