"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the server's side. No I/O.

The server keeps keys that are made of a password, never the password. A user that there is not is asked for
the same proof as any other, with a salt that does not change, and fails at the end: whoever guesses names
learns nothing from answers or from how long they take.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from barbicel.codecs.access_file import ScramCredential
from barbicel.gateway.access.authentication import AuthenticationFailed

__all__ = [
    "ITERATIONS",
    "MAX_ITERATIONS",
    "MAX_SALT_BYTES",
    "MECHANISMS",
    "MIN_ITERATIONS",
    "MIN_SALT_BYTES",
    "SALT_BYTES",
    "USUAL_SHAPE",
    "Mechanism",
    "ScramExchange",
    "Shape",
    "credential_of_password",
    "credential_of_salted_password",
    "is_password",
    "nobody",
    "salted_password",
]

# Kafka's limits. Fewer are guessed too fast; the client has to do as many as it is told, so more could be an
# attack on it.
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
ITERATIONS = 8192
SALT_BYTES = 16
MIN_SALT_BYTES = 8
MAX_SALT_BYTES = 128

# Of RFC 5802: no comma, no NUL, and "=" only as =2C or =3D.
_SASLNAME = r"(?:[^\0,=]|=2C|=3D)+"
_CLIENT_FIRST = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<authzid>{_SASLNAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_SASLNAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]{{1,1024}})(?P<extensions>,[^\0]*)?)"
)
_CLIENT_FINAL = re.compile(
    r"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]=[^\0,]*)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class Mechanism(NamedTuple):
    name: str
    # Kafka's number of it (KIP-554).
    number: int
    hash_name: str

    @property
    def key_bytes(self) -> int:
        return hashlib.new(self.hash_name).digest_size


MECHANISMS: Mapping[str, Mechanism] = {
    one.name: one
    for one in (Mechanism("SCRAM-SHA-256", 1, "sha256"), Mechanism("SCRAM-SHA-512", 2, "sha512"))
}


def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """It takes milliseconds: that is its purpose."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of_salted_password(
    mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    client_key = _hmac(mechanism, salted, b"Client Key")
    return ScramCredential(
        salt, iterations, _hash(mechanism, client_key), _hmac(mechanism, salted, b"Server Key")
    )


def credential_of_password(
    mechanism: Mechanism, password: str, salt: bytes, iterations: int = ITERATIONS
) -> ScramCredential:
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of_salted_password(mechanism, salted, salt, iterations)


def is_password(mechanism: Mechanism, credential: ScramCredential, password: str) -> bool:
    """Compared in constant time. It takes milliseconds, as many for every credential of a mechanism."""
    found = credential_of_password(mechanism, password, credential.salt, credential.iterations)
    salted_password(mechanism, password, credential.salt, 1 + MAX_ITERATIONS - credential.iterations)
    return hmac.compare_digest(found.stored_key, credential.stored_key)


class Shape(NamedTuple):
    """What anybody can see of a user's keys who asks to log in as that one."""

    iterations: int
    salt_bytes: int


USUAL_SHAPE = Shape(ITERATIONS, SALT_BYTES)


def nobody(
    mechanism: Mechanism, secret: bytes, user: str, shapes: Sequence[Shape] = (USUAL_SHAPE,)
) -> ScramCredential:
    """What stands for a user that there is not: nobody can make its proof, for nobody has its password.

    It is always the same for a name, and has one of the shapes that users have.
    """
    keys, shape_key, *salts = (
        hmac.digest(secret, f"{purpose} {mechanism.name} {user}".encode(), "sha512")
        for purpose in ("keys", "shape", *(f"salt {number}" for number in range(MAX_SALT_BYTES // 64)))
    )
    shape = shapes[int.from_bytes(shape_key[:8], "big") % len(shapes)]
    stored_key = keys[: mechanism.key_bytes]
    return ScramCredential(
        b"".join(salts)[: shape.salt_bytes], shape.iterations, stored_key, stored_key[::-1]
    )


class ScramExchange:
    """client-first, server-first, client-final, server-final."""

    is_slow = False
    expires_at_ms = None
    refusal = None

    def __init__(
        self, mechanism: Mechanism, find: Callable[[str], tuple[ScramCredential, bool]], nonce: str
    ) -> None:
        """`find` gives the keys of a user and whether there is one; `nonce` nobody can foresee."""
        self._mechanism = mechanism
        self._find = find
        self._nonce = nonce
        self._next: Callable[[str], bytes] = self._begin
        self.user: str | None = None

    def step(self, message: bytes) -> bytes:
        following, self._next = self._next, self._refuse
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailed("a message of SCRAM that is no text") from None
        return following(text)

    def _begin(self, text: str) -> bytes:
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None:
            raise AuthenticationFailed("the first message of SCRAM cannot be understood")
        if found["extensions"]:
            # Mandatory ones (m=) we do not know; tokenauth is for delegation tokens, of which there are none.
            raise AuthenticationFailed("SCRAM with extensions, which are not known here")
        self._name = _unescape(found["user"])
        if found["authzid"] is not None and _unescape(found["authzid"]) != self._name:
            raise AuthenticationFailed("the client wants to act for somebody else")
        self._credential, self._is_known = self._find(self._name)
        self._header, self._both_nonces = found["header"], found["nonce"] + self._nonce
        salt = b64encode(self._credential.salt).decode()
        answer = f"r={self._both_nonces},s={salt},i={self._credential.iterations}"
        self._said = f"{found['bare']},{answer},"
        self._next = self._end
        return answer.encode()

    def _end(self, text: str) -> bytes:
        found = _CLIENT_FINAL.fullmatch(text)
        if found is None:
            raise AuthenticationFailed("the last message of SCRAM cannot be understood")
        if _decode(found["binding"]) != self._header.encode():
            raise AuthenticationFailed("SCRAM with another channel binding than it began with")
        if not hmac.compare_digest(found["nonce"], self._both_nonces):
            raise AuthenticationFailed("SCRAM with a nonce that is not this exchange's")
        said = (self._said + found["without_proof"]).encode()
        if not self._is_proof(_decode(found["proof"]), said):
            raise AuthenticationFailed(f"wrong password, or no such user: {self._name[:100]!r}")
        self.user = self._name
        signature = _hmac(self._mechanism, self._credential.server_key, said)
        return b"v=" + b64encode(signature)

    def _is_proof(self, proof: bytes, said: bytes) -> bool:
        """The same work for everybody, and no comparison that ends at the first difference."""
        signature = _hmac(self._mechanism, self._credential.stored_key, said)
        padded = proof.ljust(len(signature), b"\0")
        client_key = bytes(a ^ b for a, b in zip(padded, signature, strict=False))
        is_same = hmac.compare_digest(_hash(self._mechanism, client_key), self._credential.stored_key)
        return is_same and len(proof) == len(signature) and self._is_known

    def _refuse(self, text: str) -> bytes:
        raise AuthenticationFailed("a message behind the end of SCRAM")


def _unescape(saslname: str) -> str:
    return saslname.replace("=2C", ",").replace("=3D", "=")


def _decode(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise AuthenticationFailed("a message of SCRAM that is no base64") from None


def _hmac(mechanism: Mechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.hash_name)


def _hash(mechanism: Mechanism, data: bytes) -> bytes:
    return hashlib.new(mechanism.hash_name, data).digest()
