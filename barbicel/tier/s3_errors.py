"""What an S3 request's failure means: its text, as obstore prints it, as one of our errors.

obstore has a class for a few statuses and text for the rest, so the status and S3's own error code are taken
from the text. What is not known here is no passing error: nobody should try for ever what cannot be.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from barbicel.errors import ObjectChanged, ObjectMissing, StoreError, StoreRefused

__all__ = ["Failure", "parse_failure", "store_error"]

_STATUS = re.compile(r"status code: ([0-9]{3})")
_CODE = re.compile(r"<Code>(\w{1,64})</Code>|\(code: (\w{1,64})\)")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")
_DEBUG = "\n\nDebug source:"
# Where a program without credentials looks for those of its machine.
_NO_CREDENTIALS = ("169.254.169.254", "/latest/api/token", "169.254.170.2", "[fd00:ec2::254]")
# The connection broke, or nothing came in time; obstore has tried again by then.
_BROKEN = ("HTTP error", "error sending request", "error decoding response body", "body error", "timed out")
# The endpoint is no URL that a request can be made of.
_NO_REQUEST = "builder error"

_PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504, 509})
_PASSING_CODES = frozenset(
    {
        "ConditionalRequestConflict",
        "InternalError",
        "NoSuchUpload",  # a multipart upload that somebody aborted: the next one is another
        "OperationAborted",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "ThrottlingException",
        "TooManyRequests",
    }
)
_HINTS = {
    "AccessDenied": "these credentials may not do that here",
    "ExpiredToken": "the session token has expired",
    "InvalidAccessKeyId": "see AWS_ACCESS_KEY_ID",
    "NoSuchBucket": "create the bucket first",
    "PermanentRedirect": "the bucket is in another region: see AWS_REGION",
    "RequestTimeTooSkewed": "this machine's clock is wrong",
    "SignatureDoesNotMatch": "see AWS_SECRET_ACCESS_KEY",
}


class Failure(NamedTuple):
    """Status 0 and an empty code where there was no answer."""

    status: int
    code: str
    summary: str
    lacks_credentials: bool
    is_broken: bool

    @property
    def is_passing(self) -> bool:
        return self.is_broken or self.status in _PASSING_STATUSES or self.code in _PASSING_CODES


def parse_failure(text: str) -> Failure:
    """Of an error's text; only what a request says of itself, not the debugging part."""
    said = text.partition(_DEBUG)[0]
    status = _STATUS.search(said)
    code = _CODE.search(said)
    message = _MESSAGE.search(said)
    return Failure(
        status=int(status[1]) if status else 0,
        code=(code[1] or code[2]) if code else "",
        summary=message[1] if message else " ".join(said.partition("<?xml")[0].split())[:300],
        lacks_credentials=any(place in said for place in _NO_CREDENTIALS),
        is_broken=not status and _NO_REQUEST not in said and any(sign in said for sign in _BROKEN),
    )


def store_error(operation: str, key: str, text: str) -> StoreError:
    """The error to raise for a failed request. For 412 and 409 ObjectChanged: who writes has to look."""
    failure = parse_failure(text)
    if failure.lacks_credentials:
        return StoreRefused(
            f"{operation} failed: no credentials",
            path=key,
            hint="see AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY",
        )
    what = " ".join(filter(None, (str(failure.status or ""), failure.code)))
    message = f"{operation} failed: {what}{': ' if what else ''}{failure.summary}"
    if failure.status in (409, 412):
        return ObjectChanged(message, path=key)
    if failure.is_passing:
        return StoreError(message, path=key, is_passing=True)
    if failure.status == 404 and failure.code != "NoSuchBucket":
        return ObjectMissing("there is no such object", path=key)
    if failure.status == 416:
        return StoreError("the range does not lie within the object", path=key)
    return StoreRefused(message, path=key, hint=_HINTS.get(failure.code))
