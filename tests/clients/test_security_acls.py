"""Users and ACLs as operators and real clients meet them: made with the commands, enforced, revoked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import admin as confluent_admin
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import TopicAuthorizationFailedError

from barbicel.cli.main import cli
from tests.clients.secure_clients import CLIENTS, Login, Refused
from tests.support.secure_gateway import PASSWORDS, SecureGateway, running_secure_gateway

# Its types are too narrow for what it takes.
confluent: Any = confluent_admin

SETTINGS = {"authorizer_class_name": "StandardAuthorizer", "super_users": "User:admin"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureGateway]:
    with running_secure_gateway(tmp_path_factory.mktemp("acls"), ("SASL_SSL", "SSL"), **SETTINGS) as gateway:
        yield gateway


def login(user: str, password: str | None = None) -> Login:
    return Login("SASL_SSL", "SCRAM-SHA-512", user, PASSWORDS[user] if password is None else password)


def run(*arguments: str, password: str | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=None if password is None else f"{password}\n")


def as_admin(gateway: SecureGateway, *arguments: str, password: str | None = None) -> Any:
    """What the command prints as JSON."""
    settings = gateway.process.data.parent / "admin.properties"
    settings.write_text(
        "# of an operator\n"
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required"
        f' username="admin" password="{PASSWORDS["admin"]}";\n'
        f"ssl.truststore.location={gateway.authority.path}\n",
        encoding="utf-8",
    )
    server = ("--bootstrap-server", gateway.bootstrap("SASL_SSL"), "--command-config", str(settings))
    result = run(*arguments, *server, "--json", password=password)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("client", CLIENTS)
def test_allowed_and_revoked(gateway: SecureGateway, client: str) -> None:
    send = CLIENTS[client]
    topic = f"orders-{client}"
    with pytest.raises(Refused, match="(?i)authorization"):
        send(gateway, login("alice"), topic)
    rights = ("--principal", "User:alice", "--topic", topic)
    created = as_admin(gateway, "acl", "create", *rights, "--operation", "write", "--operation", "create")
    assert [acl["operation"] for acl in created["created"]] == ["WRITE", "CREATE"]
    assert send(gateway, login("alice"), topic) == 0
    with pytest.raises(Refused, match="(?i)authorization"):
        send(gateway, login("bob"), topic)
    assert len(as_admin(gateway, "acl", "delete", *rights)["would_delete"]) == 2
    assert send(gateway, login("alice"), topic) == 1
    assert len(as_admin(gateway, "acl", "delete", *rights, "--apply")["deleted"]) == 2
    with pytest.raises(Refused, match="(?i)authorization"):
        send(gateway, login("alice"), topic)
    assert f"User:alice may not DESCRIBE TOPIC {topic}" in gateway.log


def test_a_certificate_is_who_it_says(gateway: SecureGateway) -> None:
    rights = ("--principal", "User:carol", "--topic", "of-", "--prefixed", "--operation", "all")
    as_admin(gateway, "acl", "create", *rights)
    carol = Login("SSL", certificate=str(gateway.authority.issue("Carol")))
    assert CLIENTS["confluent-kafka"](gateway, carol, "of-carol") == 0
    nobody = Login("SSL")
    with pytest.raises(Refused, match="(?i)authorization"):
        CLIENTS["confluent-kafka"](gateway, nobody, "of-carol")


def test_readers_need_their_own_right(gateway: SecureGateway) -> None:
    as_admin(
        gateway, "acl", "create", "--principal", "User:bob", "--topic", "read", "--operation", "describe"
    )
    CLIENTS["confluent-kafka"](gateway, login("admin"), "read")

    def poll() -> dict[Any, list[Any]]:
        consumer = KafkaConsumer(
            bootstrap_servers=gateway.bootstrap("SASL_SSL"),
            security_protocol="SASL_SSL",
            ssl_cafile=str(gateway.authority.path),
            sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username="bob",
            sasl_plain_password=PASSWORDS["bob"],
            auto_offset_reset="earliest",
        )
        try:
            consumer.assign([TopicPartition("read", 0)])
            found: dict[Any, list[Any]] = consumer.poll(5000)
            return found
        finally:
            consumer.close()

    with pytest.raises(TopicAuthorizationFailedError):
        poll()
    as_admin(gateway, "acl", "create", "--principal", "User:bob", "--topic", "read", "--operation", "read")
    assert [record.value for records in poll().values() for record in records] == [b"x"]


def test_users_come_and_go(gateway: SecureGateway) -> None:
    dora = login("dora", "dora's password")
    with pytest.raises(Refused):
        CLIENTS["confluent-kafka"](gateway, dora, "t")
    as_admin(gateway, "user", "set", "dora", "--mechanism", "SCRAM-SHA-512", password="dora's password")
    as_admin(gateway, "acl", "create", "--principal", "User:dora", "--topic", "*", "--operation", "all")
    assert CLIENTS["confluent-kafka"](gateway, dora, "t") == 0
    listed = as_admin(gateway, "user", "list")["users"]
    assert {"user": "dora", "mechanism": "SCRAM-SHA-512", "iterations": 8192} in listed
    as_admin(gateway, "user", "delete", "dora")
    with pytest.raises(Refused):
        CLIENTS["confluent-kafka"](gateway, dora, "t")
    assert "dora's password" not in gateway.log


def test_nobody_else_manages_users_and_acls(gateway: SecureGateway, tmp_path: Path) -> None:
    settings = tmp_path / "alice.properties"
    settings.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f"sasl.username=alice\nsasl.password={PASSWORDS['alice']}\n"
        f"ssl.truststore.location={gateway.authority.path}\n",
        encoding="utf-8",
    )
    server = ("--bootstrap-server", gateway.bootstrap("SASL_SSL"), "--command-config", str(settings))
    for arguments in (
        ("user", "list"),
        ("user", "set", "mallory"),
        ("acl", "list"),
        ("acl", "create", "--principal", "User:alice", "--cluster", "--operation", "all"),
        ("acl", "delete", "--apply"),
    ):
        result = run(*arguments, *server, password="long enough")
        assert result.exit_code == 2, result.output
        assert "uthorization" in result.stderr
        assert PASSWORDS["alice"] not in result.output


def test_confluents_admin_client(gateway: SecureGateway) -> None:
    admin = confluent.AdminClient(
        {
            "bootstrap.servers": gateway.bootstrap("SASL_SSL"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": PASSWORDS["admin"],
            "ssl.ca.location": str(gateway.authority.path),
            "log_level": 0,
        }
    )
    rule = (
        confluent.ResourcePatternType.PREFIXED,
        "User:erin",
        "*",
        confluent.AclOperation.WRITE,
        confluent.AclPermissionType.ALLOW,
    )
    for future in admin.create_acls(
        [confluent.AclBinding(confluent.ResourceType.TOPIC, "erin-", *rule)]
    ).values():
        assert future.result(30) is None
    wanted = confluent.AclBindingFilter(
        confluent.ResourceType.TOPIC,
        "erin-x",
        confluent.ResourcePatternType.MATCH,
        "User:erin",
        None,
        confluent.AclOperation.ANY,
        confluent.AclPermissionType.ANY,
    )
    assert [acl.principal for acl in admin.describe_acls(wanted).result(30)] == ["User:erin"]
    mechanism = confluent.ScramCredentialInfo(confluent.ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = confluent.UserScramCredentialUpsertion("erin", mechanism, b"erin's password")
    for future in admin.alter_user_scram_credentials([upsertion]).values():
        assert future.result(30) is None
    (described,) = admin.describe_user_scram_credentials(["erin"]).values()
    assert [info.iterations for info in described.result(30).scram_credential_infos] == [4096]
    erin = Login("SASL_SSL", "SCRAM-SHA-256", "erin", "erin's password")
    with pytest.raises(Refused, match="(?i)authorization"):
        CLIENTS["confluent-kafka"](gateway, erin, "erin-x")  # which there is not, and it may not create it
    CLIENTS["confluent-kafka"](gateway, login("admin"), "erin-x")
    assert CLIENTS["confluent-kafka"](gateway, erin, "erin-x") == 1
    for future in admin.delete_acls([wanted]).values():
        assert len(future.result(30)) == 1


# --- the first user, in the files of a server that does not run ---------------------------------------------


def test_the_first_user(tmp_path: Path) -> None:
    data = tmp_path / "gateway" / "data"
    where = ("--data-directory", str(data))
    result = run("user", "set", "root", *where, password="the first password")
    assert result.exit_code == 0, result.output
    assert "root can log in with SCRAM-SHA-256 and SCRAM-SHA-512." in result.output
    with running_secure_gateway(tmp_path / "gateway", ("SASL_SSL",)) as gateway:
        assert CLIENTS["confluent-kafka"](gateway, login("root", "the first password")) == 0
        busy = run("user", "list", *where)
        assert busy.exit_code == 2
        assert "already open by process" in busy.stderr
    listed = run("user", "list", *where, "--json")
    assert "root" in {known["user"] for known in json.loads(listed.stdout)["users"]}
    assert run("user", "delete", "root", *where).exit_code == 0
    again = run("user", "delete", "root", *where)
    assert (again.exit_code, again.stderr) == (2, "Error: there is no user 'root'\n")


@pytest.mark.parametrize(
    ("arguments", "password"),
    [
        (("user", "set", "x"), "long enough"),
        (("user", "set", "x", "--data-directory", "d", "--bootstrap-server", "a:1"), "long enough"),
        (("user", "set", " ", "--data-directory", "d"), "long enough"),
        (("user", "set", "x", "--data-directory", "d"), "short"),
        (("user", "set", "x", "--data-directory", "d"), ""),
        (("acl", "list"), None),
        (("acl", "create", "--principal", "User:x", "--operation", "read"), None),
        (("acl", "create", "--principal", "User:x", "--operation", "read", "--topic", "t"), None),
        (("acl", "delete", "--topic", "t", "--group", "g"), None),
        (("acl", "create", "--principal", "x", "--operation", "any", "--topic", "t"), None),
    ],
)
def test_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], password: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    # Without this it is the default's, where somebody may have a server.
    monkeypatch.setenv("BARBICEL_LISTENERS", "PLAINTEXT://127.0.0.1:1")
    assert run(*arguments, password=password).exit_code == 2
    assert not list(tmp_path.rglob("users.json"))
