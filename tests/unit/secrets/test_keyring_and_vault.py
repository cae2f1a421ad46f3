"""The keyring with its library and a backend in a file; Vault with its library and a server of its protocol."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from waterclock.errors import WaterclockError
from waterclock.secrets import keyring_and_vault
from waterclock.secrets.reader import SecretPlaces, Secrets, VaultPlace

ROOT = "hvs.root"
MADE = "hvs.made-by-login"


class Vault(BaseHTTPRequestHandler):
    """Vault's documented paths and responses: KV 1 and 2, AppRole, and a namespace."""

    kept: ClassVar[dict[str, dict[str, Any]]] = {}
    asked: ClassVar[list[str]] = []
    broken: ClassVar[int | None] = None
    piece: ClassVar[int] = 1

    def do_GET(self) -> None:
        """Read a secret."""
        self.asked.append(self.path)
        if self.broken is not None:
            return self._answer(self.broken, {"errors": ["Vault is sealed"]})
        if self.headers["X-Vault-Token"] not in {ROOT, MADE}:
            return self._answer(403, {"errors": ["permission denied"]})
        found = self.kept.get(self.path.removeprefix("/v1/"))
        return self._answer(404, {"errors": []}) if found is None else self._answer(200, {"data": found})

    def do_POST(self) -> None:
        """Log in by AppRole."""
        self.asked.append(self.path)
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = {
            "/v1/auth/approle/login": {"role_id": "shop", "secret_id": "sesame"},
            "/v1/auth/kubernetes/login": {"role": "shop", "jwt": "of the pod"},
        }
        if said != known.get(self.path):
            return self._answer(400, {"errors": ["invalid role or secret ID"]})
        return self._answer(200, {"auth": {"client_token": MADE}})

    do_PUT = do_POST  # noqa: N815 - names of the base class

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Suppress log output."""


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    monkeypatch.delenv("VAULT_TOKEN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    Vault.kept = {"secret/data/shop/ops": {"data": {"password": "pässword"}, "metadata": {}}}
    Vault.asked = []
    Vault.broken = None
    monkeypatch.setattr(keyring_and_vault, "_SECONDS_KEPT", 0.0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Vault)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def reading(place: VaultPlace, folder: Path, **environ: str) -> Secrets:
    return Secrets(
        SecretPlaces(folder, vault=place), {f"WATERCLOCK_SECRET_{name}": said for name, said in environ.items()}
    )


def test_a_secret_of_vault_is_a_key_of_a_path(vault: str, tmp_path: Path) -> None:
    secrets = reading(VaultPlace(vault, path="shop", token="root"), tmp_path, ROOT=ROOT)
    assert secrets.read("ops/password") == "pässword"
    Vault.kept["secret/data/shop/ops"] = {"data": {"password": "changed"}, "metadata": {}}
    assert secrets.read("ops/password") == "changed"
    Vault.kept["secret/data/shop"] = {"data": {"token": 7}, "metadata": {}}
    assert secrets.read("token") == "7"


def test_variables_and_files_precede_vault_which_is_not_queried(vault: str, tmp_path: Path) -> None:
    secrets = reading(VaultPlace(vault, path="shop", token="root"), tmp_path, OPS_PASSWORD="here")
    assert secrets.read("ops/password") == "here"
    assert secrets.has("what/nobody/knows")
    assert Vault.asked == []


def test_the_first_version_of_the_store_has_other_paths(vault: str, tmp_path: Path) -> None:
    Vault.kept["kv/shop/ops"] = {"password": "first"}
    place = VaultPlace(vault, mount="kv", path="shop", version=1, token="root")
    assert reading(place, tmp_path, ROOT=ROOT).read("ops/password") == "first"


def test_a_role_logs_in_by_its_secret_id(vault: str, tmp_path: Path) -> None:
    place = VaultPlace(vault, path="shop", auth="approle", role="shop", secret_id="vault/id")
    assert reading(place, tmp_path, VAULT_ID="sesame").read("ops/password") == "pässword"
    with pytest.raises(WaterclockError) as raised:
        reading(place, tmp_path, VAULT_ID="w0rd").read("ops/password")
    assert raised.value.code == "E920"
    assert "invalid role or secret ID" in str(raised.value)
    assert "w0rd" not in str(raised.value)


def test_whoever_is_logged_in_is_known_by_the_token_of_the_machine(
    vault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = VaultPlace(vault, path="shop")
    with pytest.raises(WaterclockError, match=r"neither VAULT_TOKEN nor ~/\.vault-token"):
        reading(place, tmp_path).read("ops/password")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.vault-token").write_text(f"{ROOT}\n")
    assert reading(place, tmp_path).read("ops/password") == "pässword"
    monkeypatch.setenv("VAULT_TOKEN", "stale")
    with pytest.raises(WaterclockError, match="permission denied"):
        reading(place, tmp_path).read("ops/password")


def test_a_pod_is_known_by_its_service_account(vault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = tmp_path / "token"
    account.write_text("of the pod")
    monkeypatch.setattr(keyring_and_vault, "_SERVICE_ACCOUNT", account)
    place = VaultPlace(vault, path="shop", auth="kubernetes", role="shop")
    assert reading(place, tmp_path).read("ops/password") == "pässword"
    account.write_text("of another")
    with pytest.raises(WaterclockError, match="E920"):
        reading(place, tmp_path).read("ops/password")


def test_many_tables_of_one_connection_ask_vault_once(
    vault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring_and_vault, "_SECONDS_KEPT", 60.0)
    secrets = reading(VaultPlace(vault, path="shop", token="root"), tmp_path, ROOT=ROOT)
    assert {secrets.read("ops/password") for _ in range(1000)} == {"pässword"}
    assert len(Vault.asked) == 1


def test_a_missing_secret_is_reported_with_all_searched_places(vault: str, tmp_path: Path) -> None:
    secrets = reading(VaultPlace(vault, path="shop", token="root"), tmp_path / "secrets", ROOT=ROOT)
    for name in ("ops/user", "other/password"):
        with pytest.raises(WaterclockError) as raised:
            secrets.read(name)
        assert raised.value.code == "E225"
        path, key = name.split("/")
        assert f"then for {key} of secret/shop/{path} in Vault at {vault}" in str(raised.value)


def test_an_unreachable_or_sealed_vault_is_a_transient_error(vault: str, tmp_path: Path) -> None:
    Vault.broken = 503
    with pytest.raises(WaterclockError) as raised:
        reading(VaultPlace(vault, path="shop", token="root"), tmp_path, ROOT=ROOT).read("ops/password")
    assert (raised.value.code, raised.value.transient) == ("E920", True)
    gone = VaultPlace("http://127.0.0.1:9", path="shop", token="root")
    with pytest.raises(WaterclockError) as raised:
        reading(gone, tmp_path, ROOT=ROOT).read("ops/password")
    assert (raised.value.code, raised.value.transient) == ("E920", True)
    assert ROOT not in str(raised.value)


def test_a_name_of_one_word_needs_a_path(vault: str, tmp_path: Path) -> None:
    with pytest.raises(WaterclockError, match="has no path"):
        reading(VaultPlace(vault, token="root"), tmp_path, ROOT=ROOT).read("token")


@pytest.fixture
def keyring(tmp_path: Path) -> Iterator[Any]:
    import keyring
    from keyrings.alt.file import PlaintextKeyring

    before = keyring.get_keyring()
    kept = PlaintextKeyring()
    kept.file_path = str(tmp_path / "keyring.cfg")
    keyring.set_keyring(kept)
    yield keyring
    keyring.set_keyring(before)


def test_a_secret_of_the_keyring_is_a_name_of_a_service(keyring: Any, tmp_path: Path) -> None:
    keyring.set_password("waterclock", "ops/password", "kept")
    secrets = Secrets(SecretPlaces(tmp_path, keyring="waterclock"), {})
    assert secrets.has("ops/password")
    assert secrets.read("ops/password") == "kept"
    with pytest.raises(WaterclockError, match="ops/user of the service waterclock in the keyring") as raised:
        secrets.read("ops/user")
    assert raised.value.code == "E225"


def test_a_machine_without_a_keyring_is_reported(keyring: Any, tmp_path: Path) -> None:
    from keyring.backends.fail import Keyring

    keyring.set_keyring(Keyring())  # type: ignore[no-untyped-call]
    with pytest.raises(WaterclockError) as raised:
        Secrets(SecretPlaces(tmp_path, keyring="waterclock"), {}).read("ops/password")
    assert raised.value.code == "E920"


def _goes_on(of: Vault) -> None:
    of.send_response(200)
    of.send_header("Content-Type", "application/json")
    of.end_headers()
    with suppress(OSError):
        for _ in range(500):
            of.wfile.write(b" " * of.piece)
            time.sleep(0.01)


def test_headers_that_arrive_byte_by_byte_are_not_waited_for(
    vault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drip(of: Vault) -> None:
        of.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        until = time.monotonic() + 3
        with suppress(OSError):
            while time.monotonic() < until:
                of.wfile.write(b"a")
                time.sleep(0.05)

    monkeypatch.setattr(keyring_and_vault, "_MOST_SECONDS", 0.5)
    monkeypatch.setattr(Vault, "do_GET", drip)
    begun = time.monotonic()
    with pytest.raises(WaterclockError) as refused:
        reading(VaultPlace(vault, path="shop", token="root"), tmp_path, ROOT=ROOT).read("ops/password")
    assert (refused.value.code, refused.value.transient) == ("E920", True)
    assert time.monotonic() - begun < 2.5


@pytest.mark.parametrize("piece", [1, 100_000], ids=["slow", "big"])
def test_a_response_without_an_end_is_not_waited_for(
    vault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(keyring_and_vault, "_MOST_SECONDS", 0.5)
    monkeypatch.setattr(Vault, "piece", piece)
    monkeypatch.setattr(Vault, "do_GET", _goes_on)
    with pytest.raises(WaterclockError) as refused:
        reading(VaultPlace(vault, path="shop", token="root"), tmp_path, ROOT=ROOT).read("ops/password")
    assert (refused.value.code, refused.value.transient) == ("E920", True)


@pytest.mark.parametrize(
    "answer", [b"<html>log in</html>", b"[1]", b"null", b'{"data": null}', b'{"data": {"data": 5}}']
)
def test_an_answer_of_another_server_is_reported(
    vault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    def other(of: Vault) -> None:
        of.send_response(200)
        of.send_header("Content-Length", str(len(answer)))
        of.end_headers()
        of.wfile.write(answer)

    monkeypatch.setattr(Vault, "do_GET", other)
    with pytest.raises(WaterclockError) as refused:
        reading(VaultPlace(vault, path="shop", token="root"), tmp_path, ROOT=ROOT).read("ops/password")
    assert refused.value.code == "E920"
    assert "its answer cannot be read" in str(refused.value.why)
