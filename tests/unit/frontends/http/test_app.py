"""The routes of the HTTP endpoint, without a server."""

import asyncio

from flotilla.frontends.http import app
from flotilla.frontends.http.framework.operation import Call
from flotilla.gateway.gateway import Gateway


def test_the_description_is_made_when_it_is_first_asked_for_and_once(monkeypatch):
    """Broker starts are quicker without it."""
    made = []
    monkeypatch.setattr(app, "make_document", lambda table: made.append(1) or {"operations": len(table)})
    table = app.operations(Gateway(list))
    handler = next(row.handler for row in app._description_pages(table) if row.path == "/openapi.json")
    assert not made
    answers = [asyncio.run(handler(Call({}, {}, None, {}))) for _ in range(2)]
    assert [answer.body for answer in answers] == [b'{"operations":%d}' % len(table)] * 2
    assert made == [1]
