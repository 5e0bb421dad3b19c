"""A server on which everybody may do everything has nothing of access control."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barbicel.config import Config, ConfigError, Listener
from barbicel.gateway.access.opening import open_access_if_needed
from tests.gateway.kafka.in_memory import in_memory_gateway

STARTED = """
import sys
sys.path[:] = {path!r}
from barbicel.config.settings import Config
from barbicel.disk import RealDisk
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway import service
reactor = service.install_reactor()
from barbicel.gateway.access.opening import open_access_if_needed
from barbicel.gateway.kafka.listening import kafka_factory
from barbicel.gateway.kafka.server import KafkaServer
from barbicel.gateway.kestrel.front_end import KestrelFrontEnd
config = Config(data_directory={data!r})
broker = Broker.open(RealDisk(), config, reactor)
assert open_access_if_needed(broker) is None
server = KafkaServer(broker, config, broker.reactor)
assert kafka_factory(server, config.listeners[0], None) is server
list(KestrelFrontEnd(broker, config, lambda: config, lambda: None).listenings())
broker.close()
print(*sys.modules)
"""
HEAVY = {
    "OpenSSL",
    "cryptography",
    "jwt",
    "service_identity",
    "twisted.protocols.tls",
    "barbicel.gateway.access.access",
    "barbicel.gateway.access.scram",
    "barbicel.gateway.kafka.session",
    "barbicel.gateway.kestrel.login",
}


def test_nothing_of_it_is_imported_at_the_start(tmp_path: Path) -> None:
    program = STARTED.format(path=sys.path, data=str(tmp_path / "data"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not HEAVY & set(done.stdout.split())


def test_its_connections_have_no_session(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data") as gateway:
        assert open_access_if_needed(gateway.broker) is None
        assert gateway.connect().connection._session is None
        assert not (tmp_path / "data" / "access").exists()


SASL = (Listener("SASL_PLAINTEXT", "127.0.0.1", 0),)
TLS = (Listener("SSL", "127.0.0.1", 0),)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"listeners": TLS}, "ssl.keystore.location is not set"),
        ({"kestrel_ssl_enable": True}, "ssl.keystore.location is not set"),
        ({"advertised_listeners": (Listener("SSL", "a", 1),)}, "which listeners has not"),
        ({"ssl_client_auth": "required"}, "needs ssl.truststore.location"),
        ({"listeners": SASL, "sasl_enabled_mechanisms": ("PLAIN",)}, "PLAIN and OAUTHBEARER need SASL_SSL"),
        ({"sasl_enabled_mechanisms": ("OAUTHBEARER",)}, "OAUTHBEARER needs"),
        ({"kestrel_auth_enable": True, "kestrel_host": "0.0.0.0"}, "needs kestrel.ssl.enable"),
        ({"kestrel_auth_enable": True, "kestrel_text_enable": True}, "has no authentication"),
    ],
)
def test_what_would_not_be_safe_does_not_start(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Config(**settings)  # type: ignore[arg-type]
