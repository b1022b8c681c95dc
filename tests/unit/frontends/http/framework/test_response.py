"""Responses: large JSON bodies are the same as others, encoded in pieces."""

import json

import pytest

from flotilla.frontends.http.framework.response import json_response, large_json_response


@pytest.mark.parametrize("items", [[], [{"a": "ä"}], [{"a": 1}, {"b": [None]}]])
@pytest.mark.parametrize("more", [{}, {"next": 7, "end": "x"}])
def test_a_large_body_is_encoded_as_any_other(items: list[object], more: dict[str, object]) -> None:
    body = {"records": items, **more}
    response = large_json_response(body, "records")
    plain = json_response(body)
    assert (response.body, response.headers, response.status) == (plain.body, plain.headers, plain.status)
    assert isinstance(response.body, bytes)
    assert json.loads(response.body) == body
