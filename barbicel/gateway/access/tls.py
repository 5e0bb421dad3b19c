"""TLS: certificates from PEM files, and connections that use the newest ones. Imported where TLS is used.

A client that is connected keeps what it began with. Sessions are not resumed: a client whose certificate is
not trusted any more cannot come back with an old one, and nothing secret is kept between connections.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL
from OpenSSL.crypto import X509
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IAddress, IOpenSSLServerConnectionCreator
from twisted.internet.protocol import connectionDone
from twisted.protocols.tls import BufferingTLSTransport, TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from barbicel.config.security_settings import SecuritySettings
from barbicel.disk import Disk, read_file
from barbicel.errors import BarbicelError
from barbicel.gateway.twisted_types import Timer

__all__ = ["BadCertificate", "TlsConnections", "TlsFactory", "load_context", "reason_of", "subject_of"]

# Who was not let in, and why.
Tell: TypeAlias = Callable[[tuple[str, int], str], None]

MAX_PEM_BYTES = 1 << 20
# How long a client may take to say goodbye.
GOODBYE_SECONDS = 5.0
# For TLS 1.2: forward secrecy and authenticated encryption alone.
CIPHERS = b"ECDHE+AESGCM:ECDHE+CHACHA20"
VERIFY = {
    "none": SSL.VERIFY_NONE,
    "requested": SSL.VERIFY_PEER,
    "required": SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT,
}
VERSIONS = {"TLSv1.2": SSL.TLS1_2_VERSION, "TLSv1.3": SSL.TLS1_3_VERSION}
# What OpenSSL says → what it means for an operator.
REASONS = {
    "http request": "an HTTP client, on a port with TLS",
    "https proxy request": "an HTTP client, on a port with TLS",
    "wrong version number": "not TLS at all, on a port with TLS (a client without TLS?)",
    "record layer failure": "not TLS at all, on a port with TLS (a client without TLS?)",
    "packet length too long": "not TLS at all, on a port with TLS (a client without TLS?)",
    "unsupported protocol": "a version of TLS that ssl.enabled.protocols has not",
    "no shared cipher": "no cipher that both sides know",
    "peer did not return a certificate": "it shows no certificate, and ssl.client.auth is required",
    "certificate verify failed": "its certificate is not signed by ssl.truststore.location, or has expired",
    "tlsv1 alert unknown ca": "it does not trust our certificate",
    "ssl/tls alert bad certificate": "it does not trust our certificate",
    "ssl/tls alert certificate unknown": "it does not trust our certificate",
    "tlsv1 alert decrypt error": "it does not trust our certificate",
}


class BadCertificate(BarbicelError):
    """PEM files that cannot be used together."""


class Material(NamedTuple):
    """What the files hold."""

    chain: bytes
    key: bytes
    trusted: bytes


def load_context(disk: Disk, config: SecuritySettings) -> SSL.Context:
    """Waits for the disk. Raises BadCertificate, DiskError."""
    chain = _read(disk, config.ssl_keystore_location)
    key = _read(disk, config.ssl_keystore_key) if config.ssl_keystore_key else chain
    trusted = _read(disk, config.ssl_truststore_location) if config.ssl_truststore_location else b""
    try:
        return _context(config, Material(chain, key, trusted))
    except (ValueError, TypeError, SSL.Error) as error:
        raise BadCertificate(
            f"the certificate or its key cannot be used: {error or type(error).__name__}",
            path=config.ssl_keystore_location,
            hint="PEM files are needed: the certificate first, then its signers; the key not encrypted",
        ) from error


def _read(disk: Disk, path: str) -> bytes:
    data = read_file(disk, path, MAX_PEM_BYTES + 1)
    if len(data) > MAX_PEM_BYTES:
        raise BadCertificate(f"larger than {MAX_PEM_BYTES} bytes", path=path, hint="this is no PEM file")
    return data


def _context(config: SecuritySettings, material: Material) -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    versions = [VERSIONS[name] for name in config.ssl_enabled_protocols]
    context.set_min_proto_version(min(versions))
    context.set_max_proto_version(max(versions))
    context.set_cipher_list(config.ssl_cipher_suites.encode() or CIPHERS)
    context.set_options(
        SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_TICKET | SSL.OP_CIPHER_SERVER_PREFERENCE
    )
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    certificate, *others = x509.load_pem_x509_certificates(material.chain)
    context.use_certificate(certificate)
    for other in others:
        context.add_extra_chain_cert(other)
    key: Any = load_pem_private_key(material.key, password=None)
    context.use_privatekey(key)
    context.check_privatekey()
    _trust(context, config, material.trusted)
    return context


def _trust(context: SSL.Context, config: SecuritySettings, trusted: bytes) -> None:
    store = context.get_cert_store()
    assert store is not None
    for certificate in x509.load_pem_x509_certificates(trusted) if trusted else ():
        store.add_cert(X509.from_cryptography(certificate))
        context.add_client_ca(certificate)
    # OpenSSL decides; nothing is let through that it refuses.
    context.set_verify(VERIFY[config.ssl_client_auth], lambda *found: bool(found[-1]))


@implementer(IOpenSSLServerConnectionCreator)
class TlsConnections:
    """Each new connection has the context of the moment."""

    def __init__(self, context: SSL.Context) -> None:
        self.context = context

    def serverConnectionForTLS(self, protocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        return SSL.Connection(self.context, None)


class GuardedTls(BufferingTLSTransport):
    """One connection: its handshake and its end have a deadline, and why a handshake failed is told."""

    factory: TlsFactory
    _deadline: Timer | None = None

    def makeConnection(self, transport: Any) -> None:
        self._set_deadline(self.factory.handshake_seconds, self._end_late_handshake)
        begin: Any = super().makeConnection  # it has no types
        begin(transport)

    def _end_late_handshake(self) -> None:
        if not self._handshakeDone:
            self._tell("the handshake was not finished in time")
            self._abort()

    def loseConnection(self) -> None:
        """TLS waits for the other side's goodbye, which may never come, and has to be read if it does."""
        super().loseConnection()
        if self.connected and self.transport is not None:
            self.transport.resumeProducing()
            self._set_deadline(GOODBYE_SECONDS, self._abort)

    def _abort(self) -> None:
        transport: Any = self
        transport.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._cancel_deadline()
        found = self._reason  # of Twisted: what went wrong within TLS
        if not self._handshakeDone and found is not None and isinstance(found.value, SSL.Error):
            self._tell(reason_of(found.value))
        super().connectionLost(reason)

    def _tell(self, reason: str) -> None:
        transport: Any = self
        peer = transport.getPeer()
        self.factory.tell((peer.host, peer.port), f"not let in: TLS: {reason}")

    def _set_deadline(self, seconds: float, late: Callable[[], None]) -> None:
        self._cancel_deadline()
        self._deadline = self.factory.call_later(seconds, late)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None


class TlsFactory(TLSMemoryBIOFactory):
    """TLS around what another factory makes, if that lets the client in at all."""

    protocol = GuardedTls

    def __init__(
        self, connections: TlsConnections, inner: Any, reactor: Any, handshake_seconds: float, tell: Tell
    ) -> None:
        """`tell` is for the log: who was not let in, and why."""
        creator: Any = connections  # of an interface that is no type
        super().__init__(creator, False, inner, reactor)
        self.handshake_seconds = handshake_seconds
        self.tell = tell
        self.call_later: Callable[[float, Callable[[], None]], Timer] = reactor.callLater

    # Twisted says that there is always a protocol; its ports take None for a client that is refused.
    def buildProtocol(self, addr: IAddress | None) -> TLSMemoryBIOProtocol | None:  # type: ignore[override]
        assert isinstance(addr, IPv4Address | IPv6Address)
        made = self.wrappedFactory.buildProtocol(addr)
        return None if made is None else self.protocol(self, made)


def subject_of(transport: Any) -> str | None:
    """Of the certificate that the client has shown and that was verified: RFC 4514, as Java's RFC 2253."""
    certificate: x509.Certificate | None = transport.getHandle().get_peer_certificate(as_cryptography=True)
    return None if certificate is None else certificate.subject.rfc4514_string()


def reason_of(error: SSL.Error) -> str:
    """Why a handshake failed, for the log."""
    texts: Sequence[str] = [str(part[-1]) for part in (error.args[0] if error.args else ()) if part]
    known = next((REASONS[text] for text in texts if text in REASONS), None)
    return known or ", ".join(filter(None, texts)) or "the connection was closed within the handshake"
