"""Access control put together, from the settings and the data directory, for every protocol of the server."""

from __future__ import annotations

import logging
import os
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from twisted.internet.defer import Deferred
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from barbicel.clock import Clock
from barbicel.codecs.access_file import Entity, Quotas
from barbicel.codecs.kafka.acls import Acl
from barbicel.config.security_settings import offered_mechanisms
from barbicel.config.settings import Config
from barbicel.disk import Disk
from barbicel.gateway.access.access_layout import AccessLayout
from barbicel.gateway.access.acl_file import AclFile
from barbicel.gateway.access.authentication import Exchange
from barbicel.gateway.access.authorizer import Authorizer
from barbicel.gateway.access.logins import Logins
from barbicel.gateway.access.oauth import OAuthExchange, TokenKeys, TokenRules
from barbicel.gateway.access.plain import PlainExchange
from barbicel.gateway.access.principals import Principal, map_subject, parse_mapping_rules, parse_super_users
from barbicel.gateway.access.quota_file import QuotaFile
from barbicel.gateway.access.quotas import QuotaBook
from barbicel.gateway.access.scram import MECHANISMS, ScramExchange
from barbicel.gateway.access.token_key_file import read_token_keys, token_key_path
from barbicel.gateway.access.users import UserFile
from barbicel.gateway.access.watching import Watched
from barbicel.gateway.twisted_types import Reactor

if TYPE_CHECKING:
    from barbicel.gateway.access.tls import TlsConnections
    from barbicel.gateway.broker.client_notes import ClientNotes

__all__ = ["Access"]

# Calls something in a thread, after whatever it was given before.
InTurn: TypeAlias = Callable[[Callable[[], Any]], Deferred[Any]]

NONCE_BYTES = 24
LOGIN_THREADS = 1


class Access:
    """Made before the reactor runs; then `start` it; at the end `stop` it, and `close` it."""

    def __init__(self, disk: Disk, root: str, config: Config, reactor: Reactor, clock: Clock) -> None:
        """Waits for the disk. Raises BarbicelError for files that are damaged or cannot be used."""
        self.config = config
        self.clock = clock
        self._disk = disk
        self._reactor = reactor
        self._mapping_rules = parse_mapping_rules(config.ssl_principal_mapping_rules)
        layout = AccessLayout(root)
        self.users = UserFile(disk, layout)
        self.acls = AclFile(disk, layout)
        self.authorizer = self._new_authorizer()
        self.quotas = QuotaFile(disk, layout)
        # None as long as nobody has a quota, so that nothing is counted.
        self.quota_book: QuotaBook | None = None
        self._use_quotas(self.quotas.quotas)
        self._watched: list[Watched[Any]] = []
        self.tls = self._load_tls()
        self._token_keys = self._load_token_keys()
        self._watch: LoopingCall | None = None
        self._login_thread: ThreadPool | None = None
        self.logins = Logins(self._in_login_thread)

    def _new_authorizer(self) -> Authorizer | None:
        config = self.config
        if not config.has_authorizer:
            return None
        super_users = parse_super_users(config.super_users)
        return Authorizer(self.acls.acls, super_users, allow_if_no_acl=config.allow_everyone_if_no_acl_found)

    def change_acls(
        self, in_turn: InTurn, *, created: Sequence[Acl] = (), deleted: Sequence[Acl] = ()
    ) -> Deferred[None]:
        """Fires when they are durable and hold. `in_turn` calls what changes the disk."""
        return in_turn(partial(self.acls.change, created, deleted)).addCallback(self._use_acls)

    def _use_acls(self, acls: frozenset[Acl]) -> None:
        if self.authorizer is not None:
            self.authorizer.replace(acls)

    def change_quotas(
        self, in_turn: InTurn, changes: Mapping[Entity, Mapping[str, float | None]]
    ) -> Deferred[None]:
        """Fires when they are durable and hold."""
        return in_turn(partial(self.quotas.change, changes)).addCallback(self._use_quotas)

    def _use_quotas(self, quotas: Quotas) -> None:
        if not quotas:
            self.quota_book = None
        elif self.quota_book is not None:
            self.quota_book.replace(quotas)
        else:
            config = self.config
            window_ms = config.quota_window_size_seconds * 1000
            self.quota_book = QuotaBook(quotas, window_ms, config.quota_window_num)

    def with_tls(self, factory: Any, notes: ClientNotes) -> Any:
        """A factory whose clients use TLS. `notes` are for those that are not let in."""
        from barbicel.gateway.access.tls import TlsFactory

        assert self.tls is not None
        seconds = self.config.sasl_server_authentication_timeout_ms / 1000
        tell = partial(notes.tell, level=logging.WARNING, by_host=True)
        return TlsFactory(self.tls, factory, self._reactor, seconds, tell)

    # --- what is replaced while the server runs -------------------------------------------------------

    def _load_tls(self) -> TlsConnections | None:
        config = self.config
        if not config.ssl_keystore_location:
            return None
        from barbicel.gateway.access.tls import TlsConnections, load_context

        paths = (config.ssl_keystore_location, config.ssl_keystore_key, config.ssl_truststore_location)
        certificate = Watched(
            self._disk,
            "certificate",
            [path for path in paths if path],
            partial(load_context, self._disk, config),
        )
        self._watched.append(certificate)
        self._certificate = certificate
        return TlsConnections(certificate.value)

    def _load_token_keys(self) -> Watched[TokenKeys] | None:
        if "OAUTHBEARER" not in self.config.sasl_enabled_mechanisms:
            return None
        path = token_key_path(self.config)
        keys = Watched(self._disk, "file of token keys", [path], partial(read_token_keys, self._disk, path))
        self._watched.append(keys)
        return keys

    def start(self, in_thread: Callable[[Callable[[], None]], Deferred[None]]) -> None:
        if not self._watched:
            return
        self._watch = LoopingCall(lambda: in_thread(self._look_again).addCallback(self._use))
        self._watch.clock = self._reactor  # type: ignore[assignment]  # of an interface that is no type
        self._watch.start(self.config.ssl_reload_interval_ms / 1000, now=False)

    def stop(self) -> None:
        if self._watch is not None and self._watch.running:
            self._watch.stop()

    def close(self) -> None:
        """Waits for the login that is under way."""
        if self._login_thread is not None:
            self._login_thread.stop()
            self._login_thread = None

    def _look_again(self) -> None:
        for watched in self._watched:
            watched.look_again()

    def _use(self, _: object) -> None:
        if self.tls is not None:
            self.tls.context = self._certificate.value

    # --- who a client is ----------------------------------------------------------------------------

    def mechanisms(self, protocol: str) -> tuple[str, ...]:
        """What is offered on a listener."""
        return offered_mechanisms(self.config, protocol)

    def new_exchange(self, mechanism: str) -> Exchange:
        """For a mechanism that is offered."""
        if mechanism in MECHANISMS:
            nonce = b64encode(os.urandom(NONCE_BYTES)).decode()
            return ScramExchange(MECHANISMS[mechanism], partial(self.users.find, mechanism), nonce)
        if mechanism == "PLAIN":
            return PlainExchange(self.users.is_password)
        config, keys = self.config, self._token_keys
        assert mechanism == "OAUTHBEARER"
        assert keys is not None
        audiences = tuple(name.strip() for name in config.sasl_oauthbearer_expected_audience.split(","))
        rules = TokenRules(
            config.sasl_oauthbearer_expected_issuer,
            audiences,
            config.sasl_oauthbearer_sub_claim_name,
            config.sasl_oauthbearer_clock_skew_seconds,
        )
        return OAuthExchange(lambda: keys.value, rules, self.clock)

    def _in_login_thread(self, function: Callable[[], Any]) -> Deferred[Any]:
        """Checking passwords is slow on purpose: whoever sends many must not keep others' work waiting."""
        if self._login_thread is None:
            self._login_thread = ThreadPool(0, LOGIN_THREADS, "logins")
            self._login_thread.start()
        reactor: Any = self._reactor  # deferToThreadPool wants an interface that is no type
        return deferToThreadPool(reactor, self._login_thread, function)

    def principal_of(self, subject: str) -> Principal:
        """Of a certificate. Raises BadPrincipal."""
        return map_subject(self._mapping_rules, subject)
