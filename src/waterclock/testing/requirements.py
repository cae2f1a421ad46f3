"""Requirements that all suites share: secrets are not shown, wrong secrets are reported, and reads are atomic."""

from __future__ import annotations

import base64
import inspect
import json
import logging
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import pytest

from waterclock.connectors.interface import Collected, Collector, Connector, Setting
from waterclock.errors import ProjectErrors, WaterclockError
from waterclock.flow.capabilities import Capabilities
from waterclock.flow.declarations import Columns, Unit

if TYPE_CHECKING:
    from waterclock.connectors.delivering import Deliverer

WRONG = "wr0ng+secret/of'n0body"
"""The wrong value that replaces a secret."""
SOON = 15.0
"""Seconds within which a wrong secret must be reported."""


class System(Protocol):
    """A new and empty system under test.

    `secrets`: the names of the options in `setting` that are secrets, or () if there are none. The system must check
    each of them, and refuse access if one is wrong.
    """

    connector: Connector
    setting: Setting
    unit: Unit
    secrets: Sequence[str]


class RowCut(System, Protocol):
    """A system under test that can fail while it is read."""

    def failing_midway(self) -> AbstractContextManager[None] | None:
        """Return a context in which a read fails after it has started, and after which the system works again.

        Return None if no reader can detect the failure, for example because lines of text can be cut off unnoticed.
        """
        ...


class KeepsSecrets:
    """Base class of the suites.

    It checks in every test that no result, error or log line of a connector shows a secret.
    """

    @pytest.fixture(autouse=True)
    def _no_secret_is_shown(
        self, system: System, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[None]:
        if not system.secrets:
            yield
            return
        secrets = {WRONG, *_values(system.setting, system.secrets)}
        monkeypatch.setattr(system, "connector", Watched(system.connector, tuple(system.secrets)))
        with caplog.at_level(logging.INFO):
            yield
        require_hidden(secrets, [record.getMessage() for record in caplog.get_records("call")], "a log")


@dataclass(frozen=True, slots=True)
class Watched:
    """Wraps a connector so that the results and errors of its collectors and deliverers are searched for secrets."""

    inner: Connector
    names: tuple[str, ...]

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the wrapped connector."""
        return self.inner.capabilities

    def collector(self, setting: Setting) -> Collector:
        """Open a source whose results and errors are searched for secrets."""
        made: Collector = self._open_watched(self.inner.collector, setting)
        return made

    def deliverer(self, setting: Setting) -> Deliverer:
        """Open a destination whose results and errors are searched for secrets."""
        made: Deliverer = self._open_watched(self.inner.deliverer, setting)
        return made

    def _open_watched(self, opens: Callable[[Setting], Any], setting: Setting) -> Any:
        secrets = _values(setting, self.names)
        opened = _wrap_secret_search(opens, secrets)(setting)
        methods = {
            name: staticmethod(_wrap_secret_search(getattr(opened, name), secrets))
            for name in dir(type(opened))
            if not name.startswith("_") and callable(inspect.getattr_static(opened, name))
        }
        return type(type(opened).__name__, (), methods)()


def refused(system: System, act: Callable[[Setting], object]) -> None:
    """Check that `act`, called with each secret wrong in turn, soon raises one error that names the connection.

    Skip the test of a system without secrets.
    """
    if not system.secrets:
        pytest.skip("it knows no secrets")
    for name in system.secrets:
        wrong = replace(system.setting, options={**system.setting.options, name: WRONG})
        begun = time.monotonic()
        with pytest.raises(WaterclockError) as caught:
            act(wrong)
        took, error = time.monotonic() - begun, caught.value
        assert took < SOON, f"a wrong {name} was reported after {took:.0f} seconds"
        assert not isinstance(error, ProjectErrors), "one wrong secret must give one error"
        assert system.setting.name in error.render(), "the error names the connection"
        assert error.fix, "the error must have a fix"
        require_hidden({WRONG, *_values(system.setting, system.secrets)}, _texts(error), f"the error of a wrong {name}")


def cut_midway(system: RowCut, collector: Collector, columns: Columns, read: Callable[[], object]) -> None:
    """Check that `read`, interrupted half-way, returns no rows and raises an error that the collector explains.

    Skip the test of a system that cannot detect the interruption.
    """
    midway = system.failing_midway()
    if midway is None:
        pytest.skip("nothing shows that it was cut")
    with midway, pytest.raises(Exception) as caught:  # noqa: PT011 (its own, or Spark's)
        read()
    raised = caught.value
    error = raised if isinstance(raised, WaterclockError) else collector.explain(system.unit, columns, raised)
    assert error is not None, f"the collector explains what cut it: {raised}"
    assert error.where
    assert error.fix
    require_hidden(_values(system.setting, system.secrets), _texts(error), "the error of a read that was cut")


def require_hidden(secrets: Iterable[str], texts: Iterable[str], where: str) -> None:
    """Fail the test if any text contains a secret, plain or encoded as in URLs, JSON and Base64."""
    shown = [text.encode(errors="surrogatepass") for text in texts]
    for secret in secrets:
        if any(form in text for form in _forms(secret) for text in shown):
            pytest.fail(f"{where} shows a secret")


def rows_of(read: Collected) -> list[dict[str, Any]]:
    """Evaluate the collected rows, close the read, and return the rows."""
    try:
        return [row.asDict() for row in read.frame.collect()]
    finally:
        read.close()


def _values(setting: Setting, names: Iterable[str]) -> frozenset[str]:
    return frozenset(str(setting.options[name]) for name in names if name in setting.options)


def _wrap_secret_search(method: Callable[..., Any], secrets: Iterable[str]) -> Callable[..., Any]:
    """Wrap a method so that its results and errors are searched for secrets."""

    def call(*values: Any, **named: Any) -> Any:
        try:
            given = method(*values, **named)
        except Exception as error:
            require_hidden(secrets, _texts(error), f"an error of {method.__qualname__}")
            raise
        require_hidden(secrets, _texts(given), f"what {method.__qualname__} gives")
        return given

    return call


def _texts(shown: Any) -> list[str]:
    """Return all texts in which a value can be shown: in messages, in logs, and in stored facts about it."""
    texts = [repr(shown), str(shown)]
    if isinstance(shown, BaseException):
        texts += traceback.format_exception(shown)
    if isinstance(shown, WaterclockError):
        texts.append(_json(shown.to_dict()))
    if isinstance(shown, Collected):
        texts.append(_json(shown.source))
    return texts


def _json(kept: Mapping[str, Any]) -> str:
    return json.dumps(kept, default=str, ensure_ascii=False)


def _forms(secret: str) -> set[bytes]:
    raw = secret.encode()
    texts = {secret, quote(secret), quote(secret, safe=""), ascii(secret)[1:-1], json.dumps(secret)[1:-1], raw.hex()}
    # within a longer text, the Base64 form of a secret depends on its offset, and its ends on the neighbouring bytes
    encoded = {base64.b64encode(b"\0" * before + raw)[before and 4 : -4] for before in range(3)}
    return {raw, *(text.encode() for text in texts), *(text for text in encoded if len(text) > 7)}
