"""SASL OAUTHBEARER (RFC 7628) with signed tokens (JWT). It fails closed.

A token counts only if all of this holds: its algorithm is RS256 or ES256, it is signed by the key of the
JWKS file that it names, that key is of the algorithm's kind, it has not expired, and issuer and audience are
the expected ones. What the token says about itself chooses among those keys and nothing else: no algorithm
"none", no public key taken for a shared secret (HS256), no key inside or fetched from where the token says
(jwk, jku, x5u).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from barbicel.clock import Clock
from barbicel.errors import BarbicelError
from barbicel.gateway.access.authentication import AuthenticationFailed

__all__ = ["BadKeys", "KeySet", "OAuthExchange", "TokenKeys", "TokenRules", "parse_jwks"]

# Algorithm → the kind of key and the curve that it needs.
ALGORITHMS: Mapping[str, tuple[str, str | None]] = {"RS256": ("RSA", None), "ES256": ("EC", "P-256")}
MIN_RSA_BITS = 2048
MAX_MESSAGE_BYTES = 64 << 10
MAX_NAME_CHARS = 255
# The year 10000. What is later is no date, and as milliseconds may not fit into an answer.
MAX_EXPIRES_S = 253_402_300_800

_HEADER = re.compile(rb"n,(?:a=(?P<authzid>(?:[^\0,=]|=2C|=3D)+))?,")
_BEARER = re.compile(rb"[Bb]earer (?P<token>[A-Za-z0-9_.~+/=-]+)")
# What the client is told; it answers with one byte and is refused then.
_INVALID = json.dumps({"status": "invalid_token"}).encode()


class BadKeys(BarbicelError):
    """A file that is no JWKS, or does not say which key is which."""


class UnusableKey(BarbicelError):
    """One key of a JWKS."""


class TokenKey(NamedTuple):
    algorithm: str
    # The public key, of a type of the library.
    key: Any


# Key id → the key; None where the file has no id for it.
TokenKeys = Mapping[str | None, TokenKey]


class TokenRules(NamedTuple):
    """What has to hold beside the signature."""

    issuer: str
    audiences: tuple[str, ...]
    name_claim: str
    skew_seconds: int


class KeySet(NamedTuple):
    """`unusable` has why keys are passed over that are meant for tokens; RFC 7517, 5: they are no reason to
    do without the others, nor to go on with those that the file had before."""

    keys: TokenKeys
    unusable: list[str]


def parse_jwks(data: bytes) -> KeySet:
    """Keys for other purposes and other algorithms are passed over. Raises BadKeys."""
    found: dict[str | None, TokenKey] = {}
    unusable: list[str] = []
    for row in _rows(data):
        identity = row.get("kid")
        try:
            key = _parse_key(row)
        except UnusableKey as error:
            unusable.append(f"{str(identity)[:MAX_NAME_CHARS]!r}: {error.message}")
            continue
        if key is None:
            continue
        if identity in found:
            raise BadKeys(f"the key id {identity!r} is there twice")
        found[identity] = key
    return KeySet(found, unusable)


def _rows(data: bytes) -> list[dict[str, Any]]:
    try:
        rows = json.loads(data)["keys"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadKeys(f"this is no JWKS file: {type(error).__name__}: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadKeys("this is no JWKS file: its keys are no list of objects")
    return rows


def _parse_key(row: dict[str, Any]) -> TokenKey | None:
    """None if it is for something else. Raises UnusableKey."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    algorithm = _algorithm_of(row)
    if algorithm is None:
        return None
    if not isinstance(row.get("kid"), str | None):
        raise UnusableKey("its id is no text")
    try:
        key = PyJWK(row, algorithm).key
    except (AttributeError, KeyError, TypeError, ValueError, PyJWTError) as error:
        raise UnusableKey(f"{type(error).__name__}: {error}") from None
    if row["kty"] == "RSA" and key.key_size < MIN_RSA_BITS:
        raise UnusableKey(f"an RSA key of {key.key_size} bits, {MIN_RSA_BITS} are needed")
    return TokenKey(algorithm, key)


def _algorithm_of(row: Mapping[str, Any]) -> str | None:
    """What the key may be used with here. A private key in the file is no reason to use its public half."""
    for algorithm, (kind, curve) in ALGORITHMS.items():
        if row.get("kty") == kind and row.get("crv") == curve and row.get("use", "sig") == "sig":
            return algorithm if row.get("alg", algorithm) == algorithm else None
    return None


def _parse_first(message: bytes) -> tuple[bytes | None, str]:
    """Whom the client wants to act for, and its token: a header, then name=value and ^A for each, then ^A."""
    header, *pairs = message.split(b"\x01") if len(message) <= MAX_MESSAGE_BYTES else [b""]
    found = _HEADER.fullmatch(header)
    tokens = [value for name, _, value in (pair.partition(b"=") for pair in pairs) if name == b"auth"]
    bearer = _BEARER.fullmatch(tokens[0]) if len(tokens) == 1 and pairs[-2:] == [b"", b""] else None
    if found is None or bearer is None:
        raise AuthenticationFailed("the message of OAUTHBEARER cannot be understood")
    return found["authzid"], bearer["token"].decode("ascii")


class OAuthExchange:
    """client-first with the token; if it is refused, an error and the client's consent to it."""

    # Checking a signature; and the first one imports a library.
    is_slow = True

    def __init__(self, keys: Callable[[], TokenKeys], rules: TokenRules, clock: Clock) -> None:
        self._keys = keys
        self._rules = rules
        self._clock = clock
        self.refusal: AuthenticationFailed | None = None
        self.user: str | None = None
        self.expires_at_ms: int | None = None

    def step(self, message: bytes) -> bytes:
        if self.refusal is not None:
            raise self.refusal
        if self.user is not None:
            raise AuthenticationFailed("a message behind the end of OAUTHBEARER")
        authzid, token = _parse_first(message)
        try:
            claims = self._claims(token)
            user = self._name(claims, authzid)
        except AuthenticationFailed as refusal:
            self.refusal = refusal
            return _INVALID
        self.user, self.expires_at_ms = user, int(claims["exp"] * 1000)
        return b""

    def _claims(self, token: str) -> dict[str, Any]:
        import jwt

        try:
            key = self._key(jwt.get_unverified_header(token))
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm],
                audience=list(self._rules.audiences),
                issuer=self._rules.issuer,
                leeway=self._rules.skew_seconds,
                options={"require": ["exp", "iss", "aud", self._rules.name_claim]},
            )
        except jwt.exceptions.PyJWTError as error:
            raise AuthenticationFailed(f"the token is refused: {error}") from None
        except (RecursionError, ValueError, TypeError, OverflowError) as error:
            # Of what is no JSON that anybody would write; the library has no error of its own for it.
            raise AuthenticationFailed(f"the token is refused: {type(error).__name__}") from None
        # The library has the system's clock; ours is the one that sessions are measured by.
        expires_s = claims["exp"]
        is_number = isinstance(expires_s, int | float) and not isinstance(expires_s, bool)
        if not is_number or expires_s * 1000 + self._rules.skew_seconds * 1000 <= self._clock():
            raise AuthenticationFailed("the token is refused: it has expired")
        if expires_s > MAX_EXPIRES_S:
            raise AuthenticationFailed("the token is refused: no calendar has the day of its expiry")
        return claims

    def _key(self, header: Mapping[str, Any]) -> TokenKey:
        if header.get("alg") not in ALGORITHMS:
            raise AuthenticationFailed(
                f"the token is refused: its algorithm is {str(header.get('alg'))[:20]!r}"
            )
        if "crit" in header:
            raise AuthenticationFailed("the token is refused: it has extensions that must be understood")
        keys, identity = self._keys(), header.get("kid")
        key = keys.get(identity) if isinstance(identity, str) or identity is None else None
        if key is None and identity is None and len(keys) == 1:
            (key,) = keys.values()
        if key is None or key.algorithm != header["alg"]:
            raise AuthenticationFailed("the token is refused: it is signed by a key that is not known")
        return key

    def _name(self, claims: Mapping[str, Any], authzid: bytes | None) -> str:
        name = claims[self._rules.name_claim]
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME_CHARS or not name.isprintable():
            raise AuthenticationFailed("the token is refused: its name is none")
        if authzid is not None and authzid != name.replace("=", "=3D").replace(",", "=2C").encode():
            raise AuthenticationFailed("the client wants to act for somebody else")
        return name
