"""Settings of who is let in and what they may do: rows of the table in settings.py, under Kafka's names.

Kafka reads keys and certificates from keystores; here they are PEM files, as with its ssl.keystore.type=PEM.
Without any of these settings nothing is encrypted, nobody is asked who they are, and everybody may do
everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from barbicel.config.setting import row
from barbicel.config.values import LONG_MAX, Choice, Names, Switch, Text, Whole

if TYPE_CHECKING:
    from barbicel.config.settings import Config

__all__ = [
    "MECHANISMS",
    "SECRET_MECHANISMS",
    "SecuritySettings",
    "WayPastAcls",
    "offered_mechanisms",
    "security_contradictions",
    "ways_past_acls",
]

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS

# In the order in which clients are told of them.
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER", "PLAIN")
# Those that send what must not be overheard: never without TLS.
SECRET_MECHANISMS = frozenset({"OAUTHBEARER", "PLAIN"})
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
JWKS_PREFIX = "file://"


@dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    """A field is a setting."""

    ssl_keystore_location: str = row(
        "ssl.keystore.location",
        "",
        Text(is_optional=True),
        "A PEM file with the server's certificate and those that sign it, for SSL and SASL_SSL listeners.",
        section="Security (docs/security.md)",
    )
    ssl_keystore_key: str = row(
        "ssl.keystore.key",
        "",
        Text(is_optional=True),
        "A PEM file with the private key, not encrypted, if it is not in ssl.keystore.location as well.",
    )
    ssl_truststore_location: str = row(
        "ssl.truststore.location",
        "",
        Text(is_optional=True),
        "A PEM file with the certificates that sign those of clients.",
    )
    ssl_client_auth: str = row(
        "ssl.client.auth",
        "none",
        Choice(("none", "requested", "required")),
        "Whether a client has to show a certificate. On an SSL listener it is who the client is.",
    )
    ssl_principal_mapping_rules: str = row(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        Text(),
        "How the subject of a certificate becomes a name: rules as RULE:pattern/replacement/L (or U),"
        " separated by commas, the first that matches counts. DEFAULT is the whole subject.",
    )
    ssl_enabled_protocols: tuple[str, ...] = row(
        "ssl.enabled.protocols",
        ("TLSv1.2", "TLSv1.3"),
        Names(("TLSv1.2", "TLSv1.3")),
        "The versions of TLS that are spoken.",
    )
    ssl_cipher_suites: str = row(
        "ssl.cipher.suites",
        "",
        Text(is_optional=True),
        "What may be used with TLS 1.2, in OpenSSL's form; nothing means what is thought secure today.",
    )
    ssl_reload_interval_ms: int = row(
        "ssl.reload.interval.ms",
        30 * SECOND_MS,
        Whole(100, LONG_MAX),
        "How often it is looked whether certificates, keys or token keys were replaced on the disk. New"
        " connections use the new ones; files that cannot be used are logged and the old ones stay.",
    )

    sasl_enabled_mechanisms: tuple[str, ...] = row(
        "sasl.enabled.mechanisms",
        ("SCRAM-SHA-512", "SCRAM-SHA-256"),
        Names(MECHANISMS),
        "How clients of listeners with SASL_SSL or SASL_PLAINTEXT may say who they are. PLAIN and OAUTHBEARER"
        " are offered on SASL_SSL alone.",
    )
    sasl_server_max_receive_size: int = row(
        "sasl.server.max.receive.size",
        512 << 10,
        Whole(1 << 10),
        "The largest request of a client that has not said yet who it is.",
    )
    sasl_server_authentication_timeout_ms: int = row(
        "sasl.server.authentication.timeout.ms",
        10 * SECOND_MS,
        Whole(100),
        "How long a client may take to say who it is.",
    )
    connection_failed_authentication_delay_ms: int = row(
        "connection.failed.authentication.delay.ms",
        100,
        Whole(0, MINUTE_MS),
        "How long a client waits for the answer that it is not let in, so that guessing takes time.",
    )
    connections_max_reauth_ms: int = row(
        "connections.max.reauth.ms",
        0,
        Whole(0, LONG_MAX),
        "A client has to say again who it is within this time, or loses its connection; 0 never asks, except"
        " for tokens that expire.",
    )
    sasl_oauthbearer_jwks_endpoint_url: str = row(
        "sasl.oauthbearer.jwks.endpoint.url",
        "",
        Text(is_optional=True),
        "The keys that sign tokens: a JWKS file, as file:///path. It is not fetched over the network.",
    )
    sasl_oauthbearer_expected_issuer: str = row(
        "sasl.oauthbearer.expected.issuer",
        "",
        Text(is_optional=True),
        "Who a token must come from (iss). OAUTHBEARER needs it.",
    )
    sasl_oauthbearer_expected_audience: str = row(
        "sasl.oauthbearer.expected.audience",
        "",
        Text(is_optional=True),
        "Whom a token must be for (aud), one or several separated by commas. OAUTHBEARER needs it.",
    )
    sasl_oauthbearer_sub_claim_name: str = row(
        "sasl.oauthbearer.sub.claim.name", "sub", Text(), "The claim that is the client's name."
    )
    sasl_oauthbearer_clock_skew_seconds: int = row(
        "sasl.oauthbearer.clock.skew.seconds",
        30,
        Whole(0, 3600),
        "How far the clock of whoever issues tokens may be off.",
    )

    authorizer_class_name: str = row(
        "authorizer.class.name",
        "none",
        Choice(("none", "StandardAuthorizer", STANDARD_AUTHORIZER)),
        "StandardAuthorizer lets clients do what ACLs allow, none lets them do everything.",
    )
    super_users: str = row(
        "super.users",
        "",
        Text(is_optional=True),
        "Who may do everything whatever ACLs say: User:alice;User:bob.",
    )
    allow_everyone_if_no_acl_found: bool = row(
        "allow.everyone.if.no.acl.found",
        False,
        Switch(),
        "What no ACL is about may be used by everybody.",
    )
    quota_window_num: int = row(
        "quota.window.num", 11, Whole(2, 3600), "How many windows of time a quota is measured over."
    )
    quota_window_size_seconds: int = row(
        "quota.window.size.seconds", 1, Whole(1, 3600), "How long each of these windows is."
    )

    kestrel_ssl_enable: bool = row(
        "kestrel.ssl.enable", False, Switch(), "Kestrel clients use TLS, with the certificates above."
    )
    kestrel_auth_enable: bool = row(
        "kestrel.auth.enable",
        False,
        Switch(),
        "Kestrel clients of the memcache protocol say who they are before anything else, as memcached's -Y"
        ' has it: a set whose value is "user password". Needs kestrel.ssl.enable or a loopback kestrel.host.',
    )

    @property
    def has_authorizer(self) -> bool:
        return self.authorizer_class_name != "none"


def offered_mechanisms(config: SecuritySettings, protocol: str) -> tuple[str, ...]:
    """Those of a listener, in the order in which clients are told of them."""
    if not protocol.startswith("SASL_"):
        return ()
    return tuple(
        name
        for name in MECHANISMS
        if name in config.sasl_enabled_mechanisms
        and (protocol == "SASL_SSL" or name not in SECRET_MECHANISMS)
    )


def security_contradictions(config: Config) -> Iterator[str]:
    """What cannot be served as it is set, a line each."""
    protocols = [listener.protocol for listener in config.listeners]
    has_tls = config.kestrel_ssl_enable or any(name in ("SSL", "SASL_SSL") for name in protocols)
    if has_tls and not config.ssl_keystore_location:
        yield "TLS needs a certificate: ssl.keystore.location is not set"
    if config.ssl_client_auth != "none" and not config.ssl_truststore_location:
        yield f"ssl.client.auth is {config.ssl_client_auth}, which needs ssl.truststore.location"
    for protocol in protocols:
        if protocol.startswith("SASL_") and not offered_mechanisms(config, protocol):
            yield (
                f"none of sasl.enabled.mechanisms may be used on {protocol}:"
                " PLAIN and OAUTHBEARER need SASL_SSL"
            )
    for listener in config.advertised_listeners:
        if listener.protocol not in protocols:
            yield f"advertised.listeners has {listener.protocol}, which listeners has not"
    if "OAUTHBEARER" in config.sasl_enabled_mechanisms:
        yield from _oauth_contradictions(config)
    if config.kestrel_auth_enable and not (config.kestrel_ssl_enable or _is_loopback(config.kestrel_host)):
        yield "kestrel.auth.enable sends passwords: it needs kestrel.ssl.enable, or a loopback kestrel.host"
    if config.kestrel_auth_enable and config.kestrel_enable and config.kestrel_text_enable:
        yield "kestrel.text.enable has no authentication, so it cannot be beside kestrel.auth.enable"


class WayPastAcls(NamedTuple):
    what: str
    advice: str


def ways_past_acls(config: Config) -> Iterator[WayPastAcls]:
    """What clients may do whatever ACLs say, and how that ends. The start tells it, and doctor."""
    if config.has_authorizer and config.kestrel_enable and not config.kestrel_auth_enable:
        yield WayPastAcls(
            f"ACLs do not hold for Kestrel's clients: whoever can connect to {config.kestrel_host} may read"
            " and write every topic there, without a login",
            "set kestrel.enable = false, or kestrel.auth.enable = true: then only users with a password get"
            " in there, for whom ACLs do not hold either",
        )


def _oauth_contradictions(config: Config) -> Iterator[str]:
    for name in (
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.expected.audience",
    ):
        if not config.value(name):
            yield f"OAUTHBEARER needs {name}"
    url = config.sasl_oauthbearer_jwks_endpoint_url
    if url and not url.startswith(JWKS_PREFIX):
        yield f"sasl.oauthbearer.jwks.endpoint.url is {url!r}, only {JWKS_PREFIX}/path is read"


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
