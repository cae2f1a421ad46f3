from __future__ import annotations

import ssl

import pytest

from waterclock.connectors.kafka.login_errors import client_context


def test_a_broker_is_not_verified_more_strictly_than_by_kafka_s_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_as_python_3_13(**_: object) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    monkeypatch.setattr(ssl, "create_default_context", create_as_python_3_13)
    context = client_context(None)
    assert not context.verify_flags & (ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN)
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
