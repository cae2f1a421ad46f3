"""A certificate authority for servers and clients of the tests."""

from __future__ import annotations

import os
import pwd
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates that are valid for a day, and stores them in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {folder.name}")])
        made = self._begun(self.name, self.key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self._write("ca", made.sign(self.key, hashes.SHA256()), self.key)

    def sign(self, file: str, name: str, *, owner: Path | None = None, user: str = "postgres") -> None:
        """Create a certificate and its key. With `owner`, it is a server's, in that folder and owned by `user`."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._begun(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key)
        if owner is not None:
            made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(name))]), critical=False)
        self._write(file, made.sign(self.key, hashes.SHA256()), key)
        if owner is not None:
            for each in (f"{file}.crt", f"{file}.key", "ca.crt"):
                there = owner / each
                there.write_bytes((self.folder / each).read_bytes())
                there.chmod(0o600)
                if os.geteuid() == 0:
                    os.chown(there, pwd.getpwnam(user).pw_uid, -1)

    def _begun(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
        )

    def _write(self, file: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        (self.folder / f"{file}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        private = self.folder / f"{file}.key"
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        private.chmod(0o600)
