"""The file of token keys: one without keys lets nobody in, one that is broken changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from barbicel.clock import wall_clock_ms
from barbicel.config import Config
from barbicel.disk import RealDisk
from barbicel.gateway.access.access import Access
from barbicel.gateway.access.authentication import AuthenticationFailed
from barbicel.gateway.access.oauth import BadKeys
from tests.support.tokens import AUDIENCE, ISSUER, Issuer


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


def opened(issuer: Issuer) -> Access:
    reactor: Any = Clock()
    config = Config(
        sasl_enabled_mechanisms=("OAUTHBEARER",),
        sasl_oauthbearer_jwks_endpoint_url=f"file://{issuer.jwks}",
        sasl_oauthbearer_expected_issuer=ISSUER,
        sasl_oauthbearer_expected_audience=AUDIENCE,
    )
    return Access(RealDisk(), str(issuer.jwks.parent / "data"), config, reactor, wall_clock_ms)


def is_let_in(access: Access, token: str) -> bool:
    exchange = access.new_exchange("OAUTHBEARER")
    exchange.step(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    return exchange.user is not None


UNUSED = '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}'
INCOMPLETE = '{"keys": [{"kty": "RSA", "kid": "r1"}]}'


@pytest.mark.parametrize("text", ['{"keys": []}', UNUSED, INCOMPLETE])
def test_a_file_without_a_key_revokes_all(
    issuer: Issuer, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    access, token, keys = opened(issuer), issuer.token("alice"), issuer.jwks.read_text()
    assert is_let_in(access, token)
    issuer.jwks.write_text(text)
    access._look_again()
    assert not is_let_in(access, token)
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert told == [f"{issuer.jwks} has no key for RS256 or ES256: nobody can log in with a token"]
    # A restart is no different.
    assert not is_let_in(opened(issuer), token)
    issuer.jwks.write_text(keys)
    access._look_again()
    assert is_let_in(access, token)


@pytest.mark.parametrize("text", ["", '{"keys": [', "{}", '{"keys": 1}'])
def test_a_broken_file_changes_nothing(issuer: Issuer, caplog: pytest.LogCaptureFixture, text: str) -> None:
    access, token = opened(issuer), issuer.token("alice")
    issuer.jwks.write_text(text)
    access._look_again()
    assert is_let_in(access, token)
    assert f"the old one stays: {issuer.jwks}: this is no JWKS file" in caplog.text
    with pytest.raises(BadKeys, match="no JWKS file") as caught:
        opened(issuer)
    assert caught.value.path == str(issuer.jwks)


def test_a_key_that_is_passed_over_is_told(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    issuer.jwks.write_text(INCOMPLETE)
    access = opened(issuer)
    assert "a key is passed over: 'r1': InvalidKeyError" in caplog.text
    exchange = access.new_exchange("OAUTHBEARER")
    exchange.step(f"n,,\x01auth=Bearer {issuer.token('alice')}\x01\x01".encode())
    with pytest.raises(AuthenticationFailed, match="a key that is not known"):
        exchange.step(b"\x01")
