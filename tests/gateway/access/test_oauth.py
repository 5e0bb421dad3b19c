"""OAUTHBEARER fails closed: a token that is not right in every way is refused."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from barbicel.gateway.access.authentication import AuthenticationFailed
from barbicel.gateway.access.oauth import BadKeys, OAuthExchange, TokenRules, parse_jwks
from tests.support.tokens import AUDIENCE, ISSUER, Issuer

RULES = TokenRules(ISSUER, (AUDIENCE,), "sub", 30)


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


def exchange(issuer: Issuer, rules: TokenRules = RULES, now_ms: int | None = None) -> OAuthExchange:
    keys = parse_jwks(issuer.jwks.read_bytes()).keys
    return OAuthExchange(lambda: keys, rules, lambda: now_ms or time.time_ns() // 1_000_000)


def first(token: str, header: str = "n,,") -> bytes:
    return f"{header}\x01auth=Bearer {token}\x01\x01".encode()


def refused(one: OAuthExchange, token: str) -> str:
    """Why: first the error as RFC 7628 has it, then the end."""
    assert json.loads(one.step(first(token))) == {"status": "invalid_token"}
    with pytest.raises(AuthenticationFailed) as refusal:
        one.step(b"\x01")
    assert one.user is None
    assert token not in str(refusal.value)
    return str(refusal.value)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_good_token(issuer: Issuer, algorithm: str) -> None:
    one = exchange(issuer)
    expires_s = int(time.time()) + 100
    token = issuer.token("alice", algorithm, exp=expires_s)
    assert one.step(first(token)) == b""
    assert (one.user, one.expires_at_ms) == ("alice", expires_s * 1000)
    with pytest.raises(AuthenticationFailed, match="behind the end"):
        one.step(first(token))


def test_other_fields_and_the_own_name_may_be_in_the_message(issuer: Issuer) -> None:
    one = exchange(issuer)
    token = issuer.token("a=b,c")
    message = f"n,a=a=3Db=2Cc,\x01host=x\x01auth=bearer {token}\x01traceId=1\x01\x01"
    assert one.step(message.encode()) == b""
    assert one.user == "a=b,c"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "tomorrow"}, "xp"),
        ({"exp": 10**17}, "no calendar"),
        ({"exp": 1.5e300}, "no calendar"),
        ({"iss": "https://elsewhere.example"}, "issuer"),
        ({"iss": None}, "iss"),
        ({"aud": "somebody else"}, "udience"),
        ({"aud": None}, "aud"),
        ({"aud": []}, "aud"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "name"),
        ({"sub": "a\nb"}, "name"),
        ({"nbf": int(time.time()) + 3600}, "not yet valid"),
    ],
)
def test_every_claim_counts(issuer: Issuer, changed: dict[str, Any], reason: str) -> None:
    assert reason in refused(exchange(issuer), issuer.token("alice", **changed))


def test_the_clock_is_ours(issuer: Issuer) -> None:
    in_an_hour_ms = time.time_ns() // 1_000_000 + 3_600_000
    assert "expired" in refused(exchange(issuer, now_ms=in_an_hour_ms), issuer.token("alice"))


def test_an_unsigned_token(issuer: Issuer) -> None:
    assert "its algorithm is 'none'" in refused(exchange(issuer), issuer.unsigned("alice"))


def test_a_signature_that_was_taken_off(issuer: Issuer) -> None:
    refused(exchange(issuer), issuer.token("alice").rpartition(".")[0] + ".")


def test_a_changed_claim(issuer: Issuer) -> None:
    head, _, signature = issuer.token("alice").split(".")
    claims = urlsafe_b64encode(json.dumps(issuer.claims("admin")).encode()).decode().rstrip("=")
    assert "ignature" in refused(exchange(issuer), f"{head}.{claims}.{signature}")


def test_the_public_key_is_never_a_shared_secret(issuer: Issuer) -> None:
    """Confusion of algorithms: HS256 with the public key, which everybody has, as the secret."""
    import hashlib
    import hmac

    public = issuer.rsa.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def part(content: Any) -> str:
        return urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    said = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': 'r1'})}.{part(issuer.claims('admin'))}"
    mac = urlsafe_b64encode(hmac.digest(public, said.encode(), hashlib.sha256)).decode().rstrip("=")
    assert "its algorithm is 'HS256'" in refused(exchange(issuer), f"{said}.{mac}")


def test_a_key_that_the_token_brings_along(issuer: Issuer) -> None:
    own = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    brought = jwt.algorithms.RSAAlgorithm.to_jwk(own.public_key(), as_dict=True)
    headers = {"kid": "r1", "jwk": brought, "jku": "https://attacker.example/keys"}
    assert "ignature" in refused(
        exchange(issuer), jwt.encode(issuer.claims("admin"), own, "RS256", headers=headers)
    )


def test_a_key_that_is_not_known_and_one_of_another_kind(issuer: Issuer) -> None:
    token = jwt.encode(issuer.claims("alice"), issuer.rsa, "RS256", headers={"kid": "elsewhere"})
    assert "not known" in refused(exchange(issuer), token)
    token = jwt.encode(issuer.claims("alice"), issuer.rsa, "RS256", headers={"kid": "e1"})
    assert "not known" in refused(exchange(issuer), token)
    token = jwt.encode(issuer.claims("alice"), issuer.rsa, "RS256")  # which of the two keys?
    assert "not known" in refused(exchange(issuer), token)


DEEP = urlsafe_b64encode(b'{"alg":' + b"[" * 20_000).decode().rstrip("=")
HUGE = urlsafe_b64encode(b'{"alg":1' + b"0" * 10_000 + b"}").decode().rstrip("=")


@pytest.mark.parametrize(
    "token", ["x", "a.b.c", "e30.e30.", "....", "e30", f"{DEEP}.e30.e30", f"{HUGE}.e30.e30"]
)
def test_what_is_no_token(issuer: Issuer, token: str) -> None:
    refused(exchange(issuer), token)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"p=tls,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
        b"n,,\x01\x01",
        b"n,," + b"\x01auth=Bearer x" * 50_000,
    ],
)
def test_what_is_no_message(issuer: Issuer, message: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="cannot be understood"):
        exchange(issuer).step(message)


def test_nobody_acts_for_somebody_else(issuer: Issuer) -> None:
    one = exchange(issuer)
    assert b"invalid_token" in one.step(first(issuer.token("alice"), "n,a=admin,"))
    assert one.user is None


def test_which_files_have_keys(tmp_path: Path) -> None:
    small = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    weak = jwt.algorithms.RSAAlgorithm.to_jwk(small.public_key(), as_dict=True)
    other_curve = ec.generate_private_key(ec.SECP384R1())
    unused = jwt.algorithms.ECAlgorithm.to_jwk(other_curve.public_key(), as_dict=True)
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "s"}
    for rows, reasons in (
        ([], ""),
        ([secret, unused, {}], ""),
        ([weak], "1024 bits"),
        ([{"kty": "RSA"}], "InvalidKeyError"),
        ([{"kty": "RSA", "kid": []}], "no text"),
    ):
        found = parse_jwks(json.dumps({"keys": rows}).encode())
        assert not found.keys
        assert reasons in " ".join(found.unusable)
        assert len(found.unusable) == bool(reasons)
    for data in (b"", b"[]", b"\xff", b"{}", b'{"keys": {}}', b'{"keys": ["x"]}', b"[" * 100_000):
        with pytest.raises(BadKeys, match="no JWKS file"):
            parse_jwks(data)


def test_a_key_that_cannot_be_used_is_no_reason_to_do_without_the_others(issuer: Issuer) -> None:
    """RFC 7517, 5. Or one bad key in a new file would keep the ones in force that it takes away."""
    written = json.loads(issuer.jwks.read_bytes())
    found = parse_jwks(json.dumps({"keys": [{"kty": "RSA", "kid": "bad"}, *written["keys"]]}).encode())
    assert set(found.keys) == {"r1", "e1"}
    assert "'bad'" in found.unusable[0]
    with pytest.raises(BadKeys, match="'r1' is there twice"):
        parse_jwks(json.dumps({"keys": [*written["keys"], *written["keys"]]}).encode())


def test_cve_2025_27817_keys_come_from_a_file_that_the_operator_names_and_from_nowhere_else() -> None:
    from barbicel.config import Config, ConfigError

    for url in ("https://attacker.example/keys", "http://169.254.169.254/", "ftp://x", "/etc/passwd"):
        with pytest.raises(ConfigError, match="only file:///path is read"):
            Config(
                sasl_enabled_mechanisms=("OAUTHBEARER",),
                sasl_oauthbearer_jwks_endpoint_url=url,
                sasl_oauthbearer_expected_issuer=ISSUER,
                sasl_oauthbearer_expected_audience=AUDIENCE,
            )
