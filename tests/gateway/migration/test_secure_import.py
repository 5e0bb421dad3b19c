"""Imports into a gateway that wants TLS and a login, and has ACLs: real processes, real sockets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)

from barbicel.disk import RealDisk
from barbicel.errors import BarbicelError
from barbicel.gateway.access.access_layout import AccessLayout
from barbicel.gateway.access.users import UserFile
from barbicel.gateway.client import kafka_connection
from barbicel.gateway.client.connecting import ServerRefused
from barbicel.gateway.migration.gateway_target import GatewayTarget
from barbicel.gateway.migration.importing import FamilyOutcome, ImportRules, Outcome, import_family
from barbicel.gateway.migration.source import open_source
from barbicel.gateway.migration.target import TargetRefused
from barbicel.gateway.migration.verify import FamilyVerdict, Verdict, verify_family
from barbicel.gateway.migration.watch import Quiet
from tests.gateway.migration.test_gateway_import import items, kilobytes, wait_until_it_writes, write
from tests.golden.kestrel.writer import addx
from tests.support.secure_gateway import PASSWORDS, SecureGateway, running_secure_gateway

FAR_MS = 4_000_000_000_000
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
# What docs/migration.md says that an import and its verification need.
NEEDED = [
    (TOPIC, "q-", ("READ", "WRITE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")),
    (TOPIC, "barbicel-imports", ("CREATE", "READ", "WRITE")),
    (GROUP, "barbicel-import.", ("READ", "DELETE")),
    (GROUP, "kestrel", ("DESCRIBE",)),
    (CLUSTER, "kafka-cluster", ("DESCRIBE_CONFIGS",)),
]
NEEDED_TO_VERIFY = [
    (TOPIC, "q-", ("READ",)),
    (TOPIC, "barbicel-imports", ("READ",)),
    (GROUP, "barbicel-import.", ("DESCRIBE",)),
    (GROUP, "kestrel", ("DESCRIBE",)),
]
EVERYTHING = [(TOPIC, "*", ("ALL",)), (GROUP, "*", ("ALL",)), (CLUSTER, "kafka-cluster", ("ALL",))]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureGateway]:
    with running_secure_gateway(
        tmp_path_factory.mktemp("secure"),
        kestrel_ssl_enable="true",
        kestrel_auth_enable="true",
        authorizer_class_name="StandardAuthorizer",
        super_users="User:admin",
    ) as gateway:
        grant(gateway, "alice", NEEDED)
        grant(gateway, "bob", EVERYTHING)
        yield gateway


def grant(
    secure: SecureGateway,
    user: str,
    rights: Sequence[tuple[Any, str, tuple[str, ...]]],
    *,
    is_denied: bool = False,
) -> None:
    """Names that end in a sign are beginnings of names."""
    permission = ACLPermissionType.DENY if is_denied else ACLPermissionType.ALLOW
    acls = []
    for kind, name, operations in rights:
        is_prefix = name.endswith(("-", ".")) or name == "kestrel"
        pattern = ACLResourcePatternType.PREFIXED if is_prefix else ACLResourcePatternType.LITERAL
        for operation in operations:
            resource = ResourcePattern(kind, name, pattern)
            acls.append(ACL(f"User:{user}", "*", ACLOperation[operation], permission, resource))
    with open_target(secure, sasl(secure, "admin")) as target:
        target.admin.create_acls(acls)


def sasl(secure: SecureGateway, user: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": PASSWORDS[user],
        "ssl_cafile": str(secure.authority.path),
    }


def with_certificate(secure: SecureGateway, user: str) -> dict[str, Any]:
    """Kafka's port knows the certificate; Kestrel's wants a password beside it."""
    pem = str(secure.authority.issue(user))
    files = {"ssl_certfile": pem, "ssl_keyfile": pem}
    return {**sasl(secure, user), "security_protocol": "SSL", **files}


def open_target(
    secure: SecureGateway, settings: Mapping[str, Any], protocol: str | None = None
) -> GatewayTarget:
    port = secure.ports()[protocol or settings["security_protocol"]]
    return GatewayTarget.open(("127.0.0.1", port), ("127.0.0.1", secure.process.kestrel_port), settings)


def run_import(secure: SecureGateway, source: str, settings: Mapping[str, Any]) -> list[FamilyOutcome]:
    journals = open_source(RealDisk(), source)
    with open_target(secure, settings) as target:
        completed = target.completed()
        return [
            import_family(journals, family, target, completed, ImportRules(), Quiet())
            for family in journals.families
        ]


def verify(secure: SecureGateway, source: str, settings: Mapping[str, Any]) -> list[FamilyVerdict]:
    journals = open_source(RealDisk(), source)
    with open_target(secure, settings) as target:
        completed = target.completed()
        return [verify_family(journals, family, target, completed, Quiet()) for family in journals.families]


@pytest.mark.parametrize("how", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "a certificate"])
def test_with_what_the_documents_name_all_comes_over(secure: SecureGateway, tmp_path: Path, how: str) -> None:
    is_certificate = how == "a certificate"
    settings = with_certificate(secure, "alice") if is_certificate else sasl(secure, "alice", how)
    name = f"q-{how.lower().replace(' ', '-')}"
    # The second item needs a larger limit, the last one a later time than the topic has.
    large = [addx(bytes(700_000), 5), addx(bytes(1_100_000), 6), addx(b"far", FAR_MS)]
    source = write(tmp_path, {name: [*items(1, 2), *large], f"{name}+child": items(2, 3)})
    (outcome,) = run_import(secure, source, settings)
    assert (outcome.outcome, outcome.problem) == (Outcome.IMPORTED, None)
    (verdict,) = verify(secure, source, settings)
    assert verdict.verdict is Verdict.COMPLETE, verdict
    assert [one.outcome for one in run_import(secure, source, settings)] == [Outcome.ALREADY]


def test_less_is_needed_to_verify(secure: SecureGateway, tmp_path: Path) -> None:
    """The rights are the certificate's; Kestrel's port, which has none, is told another user."""
    grant(secure, "dora", NEEDED_TO_VERIFY)
    source = write(tmp_path, {"q-seen": items(1, 2), "q-seen+child": items(2)})
    pem = str(secure.authority.issue("dora"))
    dora = {**with_certificate(secure, "alice"), "ssl_certfile": pem, "ssl_keyfile": pem}
    (refused,) = run_import(secure, source, dora)
    assert refused.outcome is Outcome.FAILED
    run_import(secure, source, sasl(secure, "alice"))
    (verdict,) = verify(secure, source, dora)
    assert verdict.verdict is Verdict.COMPLETE, verdict


@pytest.mark.parametrize(
    ("protocol", "changes", "said"),
    [
        ("SASL_SSL", {"sasl_plain_password": "not-his"}, "the login was refused"),
        ("SASL_SSL", {"sasl_plain_username": "nobody-at-all"}, "the login was refused"),
        ("SASL_SSL", {"ssl_cafile": None}, "CERTIFICATE_VERIFY_FAILED"),
        ("SASL_SSL", {"security_protocol": "PLAINTEXT"}, "closed the connection"),
        ("SASL_SSL", {"security_protocol": "SSL"}, "closed the connection"),
        ("SASL_SSL", {"security_protocol": "SSL", "sasl_plain_username": ""}, "wants a login"),
        ("SASL_SSL", {"sasl_plain_password": ""}, "there is no sasl.password"),
        ("SASL_SSL", {"sasl_mechanism": "GSSAPI"}, "sasl.mechanism is none of"),
        ("PLAINTEXT", {}, "127.0.0.1"),
        ("SSL", {}, "it wants no login"),
    ],
)
def test_who_is_not_let_in_is_told_at_once(
    secure: SecureGateway,
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
    changes: dict[str, Any],
    said: str,
) -> None:
    def fail(_: float) -> None:
        raise AssertionError("it is tried again")

    monkeypatch.setattr("barbicel.gateway.migration.patience.time.sleep", fail)
    settings = {**sasl(secure, "bob"), **changes}
    with pytest.raises(BarbicelError, match=said) as caught:
        open_target(secure, settings, protocol)
    assert PASSWORDS["bob"] not in str(caught.value)
    assert "not-his" not in str(caught.value)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_a_login_that_kafkas_port_refuses(secure: SecureGateway, mechanism: str) -> None:
    """Kestrel's is asked first: it knows the same users."""
    from barbicel.gateway.migration.kafka_appends import KafkaAppends

    settings = {**sasl(secure, "bob", mechanism), "sasl_plain_password": "not-his"}
    with KafkaAppends(("127.0.0.1", secure.ports()["SASL_SSL"]), settings) as appends:
        with pytest.raises(ServerRefused, match=f"invalid credentials with SASL mechanism {mechanism}"):
            appends.greet()
        with pytest.raises(ServerRefused, match="invalid credentials"):
            appends.append("q", 0, b"")


@pytest.mark.parametrize(
    ("number", "kind", "name", "operation", "said"),
    [
        (0, TOPIC, "d0", "DESCRIBE", "topic 'd0' cannot be looked at: TOPIC_AUTHORIZATION_FAILED"),
        (1, TOPIC, "d1", "READ", "the group 'barbicel-import.d1' cannot be made: TopicAuthorizationFailed"),
        (2, TOPIC, "d2", "WRITE", "d2: TOPIC_AUTHORIZATION_FAILED"),
        (3, TOPIC, "d3", "DESCRIBE_CONFIGS", "the settings of topic 'd3' cannot be looked at"),
        (4, TOPIC, "d4", "ALTER_CONFIGS", "message.timestamp.after.max.ms cannot be raised"),
        (5, GROUP, "barbicel-import.d5", "READ", "the group 'barbicel-import.d5' cannot be made"),
        (6, GROUP, "barbicel-import.d6", "DESCRIBE", "GroupAuthorizationFailedError"),
        (7, GROUP, "barbicel-import.d7", "DELETE", "the group 'barbicel-import.d7' cannot be deleted"),
    ],
)
def test_what_an_acl_forbids_is_named(
    secure: SecureGateway, tmp_path: Path, number: int, kind: Any, name: str, operation: str, said: str
) -> None:
    grant(secure, "bob", [(kind, name, (operation,))], is_denied=True)
    source = write(tmp_path, {f"d{number}": [*items(1), addx(b"far", FAR_MS)]})
    (outcome,) = run_import(secure, source, sasl(secure, "bob"))
    assert outcome.outcome is Outcome.FAILED
    assert said in (outcome.problem or "")


def test_a_broker_whose_settings_are_not_shown_is_told_of(secure: SecureGateway) -> None:
    with open_target(secure, sasl(secure, "bob")) as target:
        grant(secure, "bob", [(CLUSTER, "kafka-cluster", ("DESCRIBE_CONFIGS",))], is_denied=True)
        with pytest.raises(TargetRefused, match="DESCRIBE_CONFIGS on the cluster"):
            target.request_limit_bytes()


@pytest.mark.parametrize("operation", ["READ", "DESCRIBE"])
def test_a_ledger_that_may_not_be_read_is_not_an_empty_one(
    secure: SecureGateway, tmp_path: Path, operation: str
) -> None:
    """Or what it has would be imported a second time."""
    source = write(tmp_path, {f"q-ledger-{operation}": items(1)})
    assert run_import(secure, source, sasl(secure, "admin"))[0].outcome is Outcome.IMPORTED
    grant(secure, "bob", [(TOPIC, "barbicel-imports", (operation,))], is_denied=True)
    with pytest.raises(
        TargetRefused, match="barbicel-imports.*AUTHORIZATION|barbicel-imports.*Authorization"
    ):
        run_import(secure, source, sasl(secure, "bob"))


# --- gateways of their own ------------------------------------------------------------------------------


def test_a_gateway_that_is_killed_meanwhile_is_logged_in_to_again(tmp_path: Path) -> None:
    """One run, with all kinds of connections."""
    (tmp_path / "journals").mkdir()
    queues = {"a": kilobytes(6000), "b": items(1), "c": items(2, 3), "c+d": items(3)}
    source = write(tmp_path / "journals", queues)
    with running_secure_gateway(
        tmp_path, ("SASL_SSL",), kestrel_ssl_enable="true", kestrel_auth_enable="true"
    ) as gateway:
        process = begin(gateway, source, tmp_path)
        assert wait_until_it_writes(process, gateway.process, "a")
        gateway.restart()
        process.communicate(timeout=120)
        assert process.returncode == 0
        assert {one.verdict for one in verify(gateway, source, sasl(gateway, "bob"))} == {Verdict.COMPLETE}


def begin(gateway: SecureGateway, source: str, directory: Path) -> subprocess.Popen[bytes]:
    file = directory / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.username=bob\nsasl.password={PASSWORDS['bob']}\n"
        f"ssl.truststore.location={gateway.authority.path}\n"
    )
    address = ("--bootstrap", gateway.bootstrap("SASL_SSL"))
    kestrel = ("--kestrel", f"127.0.0.1:{gateway.process.kestrel_port}")
    return subprocess.Popen(
        [
            *(sys.executable, "-W", "ignore", "-m", "barbicel.cli.main"),
            *("import-journals", source, *address, *kestrel, "--client-config", str(file)),
        ],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_a_user_who_is_deleted_meanwhile_is_not_tried_again(tmp_path: Path) -> None:
    """By a process of its own: kafka-python leaves sockets open that it could not connect."""
    (tmp_path / "journals").mkdir()
    source = write(tmp_path / "journals", {"a": kilobytes(6000), "b": items(1)})
    with running_secure_gateway(
        tmp_path, ("SASL_SSL",), kestrel_ssl_enable="true", kestrel_auth_enable="true"
    ) as gateway:
        process = begin(gateway, source, tmp_path)
        assert wait_until_it_writes(process, gateway.process, "a")
        gateway.restart(meanwhile=lambda: forget(gateway, "bob"))
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 3
    assert b"a: 127.0.0.1" in said
    assert b"the login was refused" in said
    assert b"b: " in said
    assert b"invalid credentials" in said
    assert PASSWORDS["bob"].encode() not in said


def forget(gateway: SecureGateway, user: str) -> None:
    users = UserFile(RealDisk(), AccessLayout(str(gateway.process.data)))
    users.change({}, [key for key in users.credentials if key[0] == user])


def test_a_login_that_counts_for_a_while_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway hangs up on whoever goes on after that; here it is renewed before each batch."""
    monkeypatch.setattr(kafka_connection, "RENEW_AFTER", 0.0)
    opened: list[object] = []
    real = kafka_connection.KafkaConnection.open

    def noting(*arguments: Any) -> Any:
        opened.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(kafka_connection.KafkaConnection, "open", noting)
    (tmp_path / "journals").mkdir()
    source = write(tmp_path / "journals", {"q": items(1, 2)})
    with running_secure_gateway(
        tmp_path,
        ("SASL_SSL",),
        kestrel_ssl_enable="true",
        kestrel_auth_enable="true",
        connections_max_reauth_ms="60000",
    ) as gateway:
        assert run_import(gateway, source, sasl(gateway, "bob"))[0].outcome is Outcome.IMPORTED
    # For the greeting, the items, and the entry in the ledger.
    assert len(opened) == 3
