"""The console of a cluster that asks who its users are: it is led to log in, and offers what the user may do."""

from collections.abc import Iterator
from typing import Any

import pytest

from flotilla import Password
from flotilla.testing import LocalBroker
from flotilla.types.address import Address
from tests.integration.console.conftest import Console

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with LocalBroker(http_listen=Address("127.0.0.1", 0), authentication=True) as broker:
        with broker.client() as nobody:
            nobody.admin.users.create_administrator("root", "a long password")
        with broker.client(credentials=Password("root", "a long password")) as admin:
            for topic in ("mine", "other"):
                admin.create_topic(topic)
            admin.admin.users.create("anna", "another password")
            admin.admin.grants.add("anna", "produce", "mine")
            (found,) = [each.http for each in admin.admin.metadata().brokers]
        yield f"http://{found}"


def test_a_user_logs_in_and_is_offered_what_it_may_do(console: Console, origin: str) -> None:
    page: Any = console.page
    page.goto(f"{origin}/console")
    page.locator("#user").fill("anna")
    page.locator("#password").fill("another password")
    page.locator("button").click()
    console.see("user anna", ".top")
    console.open("topics")
    console.see("mine")
    assert page.get_by_text("other").count() == 0
    assert page.get_by_role("button", name="Create a topic").is_disabled()
    console.open("topics/mine")
    page.get_by_role("button", name="Delete", exact=True).wait_for()
    page.wait_for_function("() => [...document.querySelectorAll('main button:disabled')].length >= 3")
    console.act("Produce", payload="x")
    page.locator("td", has_text="node 1").wait_for()
    console.open("access")
    console.see("PERMISSION_DENIED")
    page.get_by_role("button", name="Log out").click()
    page.locator("#password").wait_for()
