"""A certificate authority for tests: keys and certificates as PEM files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

__all__ = ["Authority"]

DAY = timedelta(days=1)


class Authority:
    """Its certificate is in `path`. Each certificate that it signs lies in one file with its key."""

    def __init__(self, directory: Path, name: str = "Test CA") -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._certificate = (
            self._builder(self._name, self._key.public_key(), DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.path = directory / f"{name.replace(' ', '-').lower()}.pem"
        self.path.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(self, common_name: str, *, file_name: str | None = None, lifetime: timedelta = DAY) -> Path:
        """A server's or a client's, for 127.0.0.1 and localhost."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")]
        certificate = (
            self._builder(_name(common_name), key.public_key(), lifetime)
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        path = self._directory / f"{file_name or common_name}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(private + certificate.public_bytes(Encoding.PEM))
        return path

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * DAY)
            .not_valid_after(now + lifetime)
        )


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tests"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )
