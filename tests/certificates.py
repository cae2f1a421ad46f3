"""Creates certificates for tests on demand: an authority, and pairs that it signs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)
_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path

    @property
    def both(self) -> str:
        """Key and certificate in one text, the format in which Kafka's brokers read a keystore in PEM."""
        return self.key.read_text() + self.certificate.read_text()


@dataclass
class Authority:
    """Signs pairs that are trusted by clients which trust `certificate`.

    Certificates have the key identifiers and usages that Python requires since 3.13.
    """

    folder: Path
    name: str = "authority"
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        builder = self._builder(self.name, self.key, datetime.now(UTC) + _DAY)
        made = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        made = made.add_extension(_SIGNS_CERTIFICATES, critical=True)
        self.certificate.write_bytes(made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    @property
    def certificate(self) -> Path:
        """The authority's own certificate."""
        return self.folder / f"{self.name}.pem"

    def pair(self, name: str, *, host: str = "127.0.0.1", password: str = "", is_over: bool = False) -> Pair:
        """Create a certificate for a name at an address. `password` encrypts its key; `is_over`: expired last week."""
        key = ec.generate_private_key(ec.SECP256R1())
        ends = datetime.now(UTC) + (-_DAY if is_over else _DAY)
        builder = self._builder(name, key, ends).add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=False
        )
        made = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        made.certificate.write_bytes(builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        lock = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        made.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock))
        return made

    def _builder(self, name: str, key: ec.EllipticCurvePrivateKey, ends: datetime) -> x509.CertificateBuilder:
        own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(own)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(ends - 7 * _DAY)
            .not_valid_after(ends)
        )
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        own_key = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return builder.add_extension(signer, critical=False).add_extension(own_key, critical=False)
