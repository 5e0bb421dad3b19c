"""The file of token keys: where it is, and what counts of it. Read at the start and whenever it was replaced.

A JWKS without a key that can be used is taken as it is: nobody gets in then. That is how keys are revoked,
and going on with the old ones would be the opposite of what was asked for.
"""

from __future__ import annotations

import logging

from barbicel.config.security_settings import JWKS_PREFIX, SecuritySettings
from barbicel.disk import Disk, read_file
from barbicel.gateway.access.oauth import BadKeys, TokenKeys, parse_jwks

__all__ = ["read_token_keys", "token_key_path"]

_log = logging.getLogger(__name__)

MAX_JWKS_BYTES = 1 << 20


def token_key_path(config: SecuritySettings) -> str:
    return config.sasl_oauthbearer_jwks_endpoint_url.removeprefix(JWKS_PREFIX)


def read_token_keys(disk: Disk, path: str) -> TokenKeys:
    """Waits for the disk. Raises BadKeys, naming the file, and DiskError."""
    try:
        keys, unusable = parse_jwks(read_file(disk, path, MAX_JWKS_BYTES))
    except BadKeys as error:
        error.path = path
        error.hint = 'it needs to be a JWKS: {"keys": [...]}, with public keys for RS256 or ES256'
        raise
    for reason in unusable:
        _log.warning("%s: a key is passed over: %s", path, reason)
    if not keys:
        _log.error("%s has no key for RS256 or ES256: nobody can log in with a token", path)
    return keys
