"""Reasons that differ only in variable parts share a fingerprint."""

import pytest

from flotilla.client.admin.fingerprint import fingerprint_of, shape_of


@pytest.mark.parametrize(
    ("reason", "shape"),
    [
        ("timeout after 30 s", "timeout after <n> s"),
        ("timeout after 1,234.5 s", "timeout after <n> s"),
        ("balance is -17", "balance is <n>"),
        ("no stock for order-42", "no stock for order-<n>"),
        ("user 3f2b8c1e-9d4a-4c3b-8a7e-0123456789ab is gone", "user <id> is gone"),
        ("no such key: 'a b 3'", "no such key: <text>"),
        ('KeyError: "x"', "KeyError: <text>"),
        ("can't reach 10.0.0.7:5432, won't retry", "can't reach <address>, won't retry"),
        ("segfault at 0xDEADBEEF", "segfault at <hex>"),
        ("commit 9fceb02d0ae598e95dc970b74767f19372d61af8 is bad", "commit <hex> is bad"),
        ("since 2030-01-31T12:00:00.123Z", "since <time>"),
        ("since 2030-01-31 and on", "since <time> and on"),
        ("  two\n\tlines ", "two lines"),
        ('OSError: busy\n  File "shop/tasks.py", line 12, in handle\n    send(mail)', "OSError: busy"),
        ("", ""),
    ],
)
def test_shapes(reason: str, shape: str) -> None:
    assert shape_of(reason) == shape
    assert shape_of(shape) == shape, "a shape is its own shape"


def test_fingerprints_distinguish_reasons() -> None:
    assert fingerprint_of("timeout after 3 s") == fingerprint_of("timeout after 400 s")
    assert fingerprint_of("timeout after 3 s") != fingerprint_of("refused after 3 s")
