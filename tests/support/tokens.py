"""Whoever issues tokens, for tests: keys, a JWKS file, and tokens good and bad."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

__all__ = ["AUDIENCE", "ISSUER", "Issuer"]

ISSUER = "https://issuer.example"
AUDIENCE = "barbicel"


class Issuer:
    """`jwks` is the file with the public keys."""

    def __init__(self, directory: Path) -> None:
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        self.jwks = directory / "jwks.json"
        rows: list[dict[str, Any]] = [
            {**RSAAlgorithm.to_jwk(self.rsa.public_key(), as_dict=True), "kid": "r1", "use": "sig"},
            {**ECAlgorithm.to_jwk(self.ec.public_key(), as_dict=True), "kid": "e1", "use": "sig"},
        ]
        self.jwks.write_text(json.dumps({"keys": rows}), encoding="utf-8")

    def claims(self, user: str, **changed: Any) -> dict[str, Any]:
        """A claim that is changed to None is left out."""
        now = int(time.time())
        claims = {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 600, **changed}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, user: str, algorithm: str = "RS256", **changed: Any) -> str:
        key, kid = (self.rsa, "r1") if algorithm == "RS256" else (self.ec, "e1")
        return jwt.encode(self.claims(user, **changed), key, algorithm, headers={"kid": kid})

    def unsigned(self, user: str) -> str:
        return jwt.encode(self.claims(user), "", "none")
