"""A gateway with every kind of listener, its certificates, users and tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from barbicel.disk import RealDisk
from barbicel.gateway.access.access_layout import AccessLayout
from barbicel.gateway.access.scram import MECHANISMS, MIN_ITERATIONS, credential_of_password
from barbicel.gateway.access.users import UserFile
from tests.support.certificates import Authority
from tests.support.gateway import Gateway
from tests.support.tokens import AUDIENCE, ISSUER, Issuer

__all__ = ["PASSWORDS", "SecureGateway", "add_users", "running_secure_gateway"]

PASSWORDS = {"alice": "alice's secret", "bob": "bob, with a comma=", "admin": "admin-secret"}
SERVED = re.compile(r"([A-Z_]+)://127\.0\.0\.1:([0-9]+)")
PROTOCOLS = ("SASL_SSL", "SSL", "SASL_PLAINTEXT", "PLAINTEXT")


def add_users(data: Path) -> None:
    """On a directory that no server has open."""
    (data / "tmp").mkdir(parents=True, exist_ok=True)
    users = UserFile(RealDisk(), AccessLayout(str(data)))
    users.change(
        {
            (user, name): credential_of_password(mechanism, password, b"a salt of 16 B..", MIN_ITERATIONS)
            for user, password in PASSWORDS.items()
            for name, mechanism in MECHANISMS.items()
        }
    )


class SecureGateway:
    """`process` is the server; what it trusts and issues is in files."""

    def __init__(self, directory: Path, settings: dict[str, str], protocols: tuple[str, ...]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(directory)
        self.issuer = Issuer(directory)
        self.certificate = self.authority.issue("gateway")
        defaults = {
            "listeners": ",".join(f"{name}://127.0.0.1:0" for name in protocols),
            "ssl_keystore_location": str(self.certificate),
            "ssl_truststore_location": str(self.authority.path),
            "ssl_client_auth": "requested",
            "ssl_principal_mapping_rules": "RULE:CN=([^,]*),O=Tests/$1/L,DEFAULT",
            "sasl_enabled_mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
            "sasl_oauthbearer_jwks_endpoint_url": f"file://{self.issuer.jwks}",
            "sasl_oauthbearer_expected_issuer": ISSUER,
            "sasl_oauthbearer_expected_audience": AUDIENCE,
            "connection_failed_authentication_delay_ms": "10",
        }
        self._settings = {**defaults, **settings}
        self.process = Gateway(directory, self._settings)
        add_users(self.process.data)

    @property
    def log(self) -> str:
        return self.process.log.read_text()

    def ports(self) -> dict[str, int]:
        line = next(line for line in reversed(self.log.splitlines()) if "Kafka clients are served" in line)
        return {protocol: int(port) for protocol, port in SERVED.findall(line)}

    def restart(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """kill -9, and again on the same ports."""
        listeners = (f"{protocol}://127.0.0.1:{port}" for protocol, port in self.ports().items())
        self._settings["listeners"] = ",".join(listeners)
        self.process.kill()
        meanwhile()
        self.process.start()

    def bootstrap(self, protocol: str) -> str:
        return f"127.0.0.1:{self.ports()[protocol]}"


@contextmanager
def running_secure_gateway(
    directory: Path, protocols: tuple[str, ...] = PROTOCOLS, **settings: str
) -> Iterator[SecureGateway]:
    gateway = SecureGateway(directory, settings, protocols)
    gateway.process.start()
    try:
        yield gateway
    finally:
        gateway.process.stop()
