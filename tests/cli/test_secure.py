"""Commands at a gateway that wants TLS and a login, by both protocols, with one file of client settings."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.live import invoke
from tests.cli.support import environment
from tests.golden.kestrel.writer import addx, join
from tests.support.secure_gateway import PASSWORDS, SecureGateway, running_secure_gateway


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureGateway]:
    with running_secure_gateway(
        tmp_path_factory.mktemp("secure"),
        ("SASL_SSL", "PLAINTEXT"),
        kestrel_ssl_enable="true",
        kestrel_auth_enable="true",
    ) as gateway:
        yield gateway


def client_file(secure: SecureGateway, directory: Path, **changes: str) -> str:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": PASSWORDS["alice"],
        "ssl.truststore.location": str(secure.authority.path),
        # A client that is refused tries again until it has no more time.
        "default.api.timeout.ms": "2500",
    }
    settings |= {name.replace("_", "."): value for name, value in changes.items()}
    path = directory / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items() if value))
    return str(path)


def kafka(secure: SecureGateway, file: str, *arguments: str, stdin: bytes = b"") -> Result:
    return invoke(
        *arguments, "--bootstrap", secure.bootstrap("SASL_SSL"), "--client-config", file, stdin=stdin
    )


def kestrel(secure: SecureGateway, file: str, *arguments: str) -> Result:
    address = f"127.0.0.1:{secure.process.kestrel_port}"
    return invoke(*arguments, "--kestrel", address, "--client-config", file)


def test_whoever_logs_in_is_served(secure: SecureGateway, tmp_path: Path) -> None:
    file = client_file(secure, tmp_path)
    assert kafka(secure, file, "topic", "create", "letters").exit_code == 0
    assert kafka(secure, file, "produce", "letters", stdin=b"a\nb\n").exit_code == 0
    assert kafka(secure, file, "consume", "letters", "--group", "g").stdout == "a\nb\n"
    assert "letters" in kafka(secure, file, "group", "describe", "g").stdout
    assert kestrel(secure, file, "queue", "put", "jobs", "x").exit_code == 0
    assert kestrel(secure, file, "queue", "get", "jobs").stdout == "x\n"


@pytest.fixture
def journals(tmp_path: Path) -> Path:
    directory = tmp_path / "journals"
    directory.mkdir()
    (directory / "old").write_bytes(join([addx(b"a", 1_600_000_000_000), addx(b"b", 1_600_000_000_001)]))
    return directory


def both(secure: SecureGateway) -> list[str]:
    kestrel_port = secure.process.kestrel_port
    return ["--bootstrap", secure.bootstrap("SASL_SSL"), "--kestrel", f"127.0.0.1:{kestrel_port}"]


def test_journals_come_over_with_a_login(secure: SecureGateway, tmp_path: Path, journals: Path) -> None:
    arguments = [str(journals), *both(secure), "--client-config", client_file(secure, tmp_path)]
    imported = invoke("import-journals", *arguments)
    assert (imported.exit_code, imported.stderr) == (0, "")
    verified = invoke("verify-import", *arguments)
    assert (verified.exit_code, verified.stderr) == (0, "")
    assert "Complete" in verified.stdout


@pytest.mark.parametrize("verb", ["import-journals", "verify-import"])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sasl_password": "not-hers"}, "the login was refused"),
        ({"ssl_truststore_location": ""}, "CERTIFICATE_VERIFY_FAILED"),
        ({"security_protocol": "PLAINTEXT"}, "--client-config whether it wants TLS or a login"),
        ({"sasl_mechanism": "SCRAM"}, "sasl.mechanism is none of"),
    ],
)
def test_journals_do_not_come_over_without(
    secure: SecureGateway, tmp_path: Path, journals: Path, verb: str, changes: dict[str, str], said: str
) -> None:
    file = client_file(secure, tmp_path, **changes)
    result = invoke(verb, str(journals), *both(secure), "--client-config", file)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "not-hers" not in result.output + result.stderr
    assert PASSWORDS["alice"] not in result.output + result.stderr


def refused(secure: SecureGateway, file: str) -> Iterator[str]:
    """What is said by both protocols. In processes of their own: kafka-python leaves its sockets open."""
    for verb, option, address in (
        ("topic", "--bootstrap", secure.bootstrap("SASL_SSL")),
        ("queue", "--kestrel", f"127.0.0.1:{secure.process.kestrel_port}"),
    ):
        command = [sys.executable, "-W", "ignore", "-m", "barbicel.cli.main", verb, "list", option, address]
        done = subprocess.run(
            [*command, "--client-config", file],
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
        assert done.returncode == 2
        yield done.stderr


def test_a_wrong_password_is_said_and_not_repeated(secure: SecureGateway, tmp_path: Path) -> None:
    of_kafka, of_kestrel = refused(secure, client_file(secure, tmp_path, sasl_password="not-hers"))
    assert "invalid credentials" in of_kafka
    assert "the login was refused" in of_kestrel
    assert "not-hers" not in of_kafka + of_kestrel


def test_a_server_that_nobody_vouches_for_is_not_trusted(secure: SecureGateway, tmp_path: Path) -> None:
    for said in refused(secure, client_file(secure, tmp_path, ssl_truststore_location="")):
        assert "CERTIFICATE_VERIFY_FAILED" in said
