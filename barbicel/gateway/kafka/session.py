"""One client's standing: who it is, until when that holds, and what may be served before it has said so.

Connections have a session where that matters: on listeners with TLS or SASL, and where there are ACLs.
Elsewhere there is none, and nothing is looked at.

Before a client has said who it is, only ApiVersions, SaslHandshake and SaslAuthenticate are served, small
requests alone, and not for long. It may say so again at any time (KIP-368), in the same way and as the same
one.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from barbicel.codecs.kafka.acls import Operation, Resource
from barbicel.config.listeners import Listener
from barbicel.gateway.access.access import Access
from barbicel.gateway.access.authentication import AuthenticationFailed, Exchange, NotAdmitted
from barbicel.gateway.access.principals import ANONYMOUS, Principal, user
from barbicel.gateway.access.quotas import CONSUMED, PRODUCED, REQUESTS
from barbicel.gateway.kafka.api import Address, Api

__all__ = ["Session"]

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
BEFORE_AUTHENTICATION = frozenset({SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE})
# A client may not say again who it is before this time is over.
LEAST_REAUTH_MS = 1000


class Session:
    """`opened` is called when it is known who the client is, `end` when the client is to be sent away."""

    def __init__(self, access: Access, listener: Listener, peer: Address) -> None:
        self.access = access
        self.listener = listener
        self.peer = peer
        self.principal: Principal | None = None
        self.opened: Callable[[], None] = lambda: None
        self.end: Callable[[str], None] = lambda reason: None
        # Tokens come without a header of Kafka's (SaslHandshake version 0).
        self.is_raw = False
        self._mechanism: str | None = None
        self._exchange: Exchange | None = None
        self._expires_at_ms: int | None = None
        self._authenticated_at_ms: int | None = None
        # When the request began that is being served, by a clock that counts what it takes.
        self._busy_since_s: float | None = None
        self._busy_s = 0.0

    # --- before anything is served --------------------------------------------------------------------

    def begin(self) -> None:
        """The client is connected."""
        if not self.listener.has_tls and not self.listener.has_sasl:
            self._open(ANONYMOUS)

    def begin_encrypted(self, transport: Any) -> None:
        """TLS is established. Raises BadPrincipal: the certificate names nobody."""
        if self.listener.has_sasl:
            return
        from barbicel.gateway.access.tls import subject_of

        subject = subject_of(transport)
        self._open(ANONYMOUS if subject is None else self.access.principal_of(subject))

    def _open(self, principal: Principal) -> None:
        self.principal = principal
        self.opened()

    def admit(self, api: Api) -> None:
        """Whether this may be served now. Raises NotAdmitted."""
        if api.key in BEFORE_AUTHENTICATION:
            return
        if self.principal is None:
            raise NotAdmitted(f"{api.name} before it has said who it is")
        if self._expires_at_ms is not None and self.access.clock() >= self._expires_at_ms:
            raise NotAdmitted(f"the session of {self.principal} is over, and it did not say again who it is")

    def may(self, operation: Operation, resource: Resource, name: str) -> bool:
        """What ACLs say; without them everything is allowed."""
        authorizer = self.access.authorizer
        if authorizer is None:
            return True
        assert self.principal is not None
        return authorizer.is_allowed(self.principal, self.peer.host, operation, resource, name)

    def may_somewhere(self, operation: Operation, resource: Resource) -> bool:
        authorizer = self.access.authorizer
        if authorizer is None:
            return True
        assert self.principal is not None
        return authorizer.is_allowed_somewhere(self.principal, self.peer.host, operation, resource)

    # --- quotas ---------------------------------------------------------------------------------------

    def begin_request(self) -> None:
        if self.access.quota_book is not None:
            self._busy_since_s = perf_counter()

    def put_off_request(self) -> None:
        """Its answer comes later; what it took so far counts for the next one that is answered."""
        if self._busy_since_s is not None:
            self._busy_s += perf_counter() - self._busy_since_s
            self._busy_since_s = None

    def throttle_ms(self, client_id: str, sent_bytes: int, answer_bytes: int) -> int:
        """Count what a request took, and say how long the client has to wait for that."""
        book, now_ms = self.access.quota_book, self.access.clock()
        if book is None or self.principal is None:
            return 0
        self.put_off_request()
        # In percent of one processor.
        busy, self._busy_s = self._busy_s * 100, 0.0
        amounts = ((PRODUCED, sent_bytes), (CONSUMED, answer_bytes), (REQUESTS, busy))
        return max(
            book.throttle_ms(key, self.principal.name, client_id, amount, now_ms)
            for key, amount in amounts
            # Whoever has sent too much is not told again when it asks for something else.
            if amount or key == REQUESTS
        )

    # --- SASL -----------------------------------------------------------------------------------------

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self.access.mechanisms(self.listener.protocol)

    @property
    def may_begin(self) -> bool:
        """Whether a handshake has a place here: not within another, and not one after the other."""
        if not self.listener.has_sasl or self._exchange is not None:
            return False
        since_ms = self._authenticated_at_ms
        return since_ms is None or self.access.clock() - since_ms >= LEAST_REAUTH_MS

    def begin_exchange(self, mechanism: str, *, is_raw: bool) -> bool:
        """For a mechanism that is offered. Whoever says again who it is has to do it in the same way."""
        if self._mechanism not in (None, mechanism):
            return False
        self._mechanism = mechanism
        self._exchange = self.access.new_exchange(mechanism)
        self.is_raw = is_raw
        return True

    @property
    def exchange(self) -> Exchange | None:
        """The attempt that is under way."""
        return self._exchange

    @property
    def mechanism(self) -> str:
        return self._mechanism or ""

    def settle(self, exchange: Exchange) -> int | None:
        """After a step: for how long the session holds in ms, 0 for ever; None if there is more to be said.

        Raises AuthenticationFailed.
        """
        if exchange.user is None:
            return None
        self._exchange, self.is_raw = None, False
        principal = user(exchange.user)
        if self.principal not in (None, principal):
            raise AuthenticationFailed(f"first {self.principal}, and now {principal}")
        now_ms = self.access.clock()
        self._authenticated_at_ms = now_ms
        lifetime_ms = self._lifetime_ms(exchange, now_ms)
        self._expires_at_ms = now_ms + lifetime_ms if lifetime_ms else None
        if self.principal is None:
            self._open(principal)
        return lifetime_ms

    def _lifetime_ms(self, exchange: Exchange, now_ms: int) -> int:
        limits = [self.access.config.connections_max_reauth_ms] if self._has_reauth else []
        if exchange.expires_at_ms is not None:
            # 0 would be for ever; a clock may be off by more than what is left.
            limits.append(max(1, exchange.expires_at_ms - now_ms))
        return min(limits, default=0)

    @property
    def _has_reauth(self) -> bool:
        return self.access.config.connections_max_reauth_ms > 0

    def refuse(self, reason: str) -> None:
        """Nothing more is served; the client is sent away when it has its answer."""
        self._exchange, self.is_raw = None, False
        self.end(f"{self.mechanism}: {reason}" if self.mechanism else reason)
