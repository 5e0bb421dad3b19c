"""What a failed request means, from texts as obstore prints them."""

from __future__ import annotations

import pytest

from barbicel.errors import ObjectChanged, ObjectMissing, StoreError, StoreRefused
from barbicel.tier.s3_errors import parse_failure, store_error

REQUEST = "Generic S3 error: Error performing PUT http://h/b/k in 1ms, after 2 retries, max_retries: 2"
DEBUG = '\n\nDebug source:\nGeneric { inner: Status { status: 503, body: "<Code>SlowDown</Code>" } }'


def answered(status: int, code: str = "", message: str = "") -> str:
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>" if code else ""
    return f"{REQUEST} - Server returned non-2xx status code: {status} Text: {body}{DEBUG}"


CASES: list[tuple[str, type[StoreError], bool]] = [
    (answered(500, "InternalError"), StoreError, True),
    (answered(502), StoreError, True),
    (answered(503, "SlowDown"), StoreError, True),
    (answered(504), StoreError, True),
    (answered(429), StoreError, True),
    (answered(408), StoreError, True),
    (answered(400, "RequestTimeout"), StoreError, True),
    (answered(404, "NoSuchUpload"), StoreError, True),
    (f"{REQUEST} - HTTP error: error sending request{DEBUG}", StoreError, True),
    (f"{REQUEST} - HTTP error: operation timed out{DEBUG}", StoreError, True),
    ("Generic S3 error: HTTP error: request or response body error", StoreError, True),
    (f"{REQUEST} - HTTP error: builder error{DEBUG}", StoreRefused, False),
    (answered(404, "NoSuchKey"), ObjectMissing, False),
    (answered(404), ObjectMissing, False),
    (answered(404, "NoSuchBucket"), StoreRefused, False),
    (answered(412, "PreconditionFailed"), ObjectChanged, False),
    (answered(409, "ConditionalRequestConflict"), ObjectChanged, False),
    (answered(416, "InvalidRange"), StoreError, False),
    (answered(400, "KeyTooLongError"), StoreRefused, False),
    (answered(401), StoreRefused, False),
    (answered(403, "AccessDenied"), StoreRefused, False),
    (answered(403, "RequestTimeTooSkewed"), StoreRefused, False),
    (answered(301, "PermanentRedirect"), StoreRefused, False),
    (answered(501, "NotImplemented"), StoreRefused, False),
    ("Generic S3 error: something that nobody has thought of", StoreRefused, False),
    (f"DeleteObjects request failed for key k: Denied. (code: AccessDenied){DEBUG}", StoreRefused, False),
]


@pytest.mark.parametrize(("text", "kind", "is_passing"), CASES)
def test_a_failure_is_translated(text: str, kind: type[StoreError], is_passing: bool) -> None:
    error = store_error("put", "the/key", text)
    assert type(error) is kind
    assert error.is_passing == is_passing
    assert error.path == "the/key"
    assert "Debug" not in str(error)


def test_what_s3_says_is_said() -> None:
    error = store_error("put", "key", answered(403, "AccessDenied", "Access Denied."))
    assert str(error) == (
        "key: put failed: 403 AccessDenied: Access Denied. (these credentials may not do that here)"
    )


def test_without_credentials_the_machine_is_asked_for_some_and_that_is_not_what_is_wrong() -> None:
    text = "Error performing PUT http://169.254.169.254/latest/api/token in 5s - HTTP error: timed out"
    error = store_error("get", "key", text)
    assert isinstance(error, StoreRefused)
    assert "AWS_ACCESS_KEY_ID" in str(error)


def test_only_what_the_request_says_counts() -> None:
    assert parse_failure(f"Generic S3 error: odd{DEBUG}").status == 0
    assert len(parse_failure(f"{'x' * 5000}").summary) == 300
