"""SCRAM, the client's side, for tests."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

__all__ = ["ScramClient"]


class ScramClient:
    def __init__(self, hash_name: str, user: str, password: str, nonce: str = "clientnonce") -> None:
        self._hash = hash_name
        self._user = user.replace("=", "=3D").replace(",", "=2C")
        self._password = password.encode()
        self._nonce = nonce
        self._server_signature = b""

    def first(self, header: str = "n,,", extensions: str = "") -> bytes:
        self._header = header
        self._bare = f"n={self._user},r={self._nonce}{extensions}"
        return (header + self._bare).encode()

    def final(self, server_first: bytes, *, binding: str | None = None, nonce: str | None = None) -> bytes:
        fields = dict(part.split("=", 1) for part in server_first.decode().split(","))
        bound = b64encode((self._header if binding is None else binding).encode()).decode()
        bare = f"c={bound},r={fields['r'] if nonce is None else nonce}"
        said = f"{self._bare},{server_first.decode()},{bare}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, b64decode(fields["s"]), int(fields["i"]))
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), said, self._hash)
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), said, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{bare},p={b64encode(proof).decode()}".encode()

    def believes(self, server_final: bytes) -> bool:
        return server_final == b"v=" + b64encode(self._server_signature)
