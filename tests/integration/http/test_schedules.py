"""Schedules over HTTP."""

from base64 import b64encode


def test_a_schedule_lives_and_dies(http, broker):
    message = {"payload_json": {"all": True}, "key_text": "k", "headers": [{"name": "h", "value": "dg=="}]}
    body = {"name": "http-beat", "topic": "http-beats", "every_ms": 60_000, "message": message}
    made = http.post("/v1/schedules", json=body)
    assert made.status_code == 201, made.text
    shown = made.json()
    assert shown["message"] == {
        "payload": b64encode(b'{"all":true}').decode(),
        "key": "aw==",
        "headers": [{"name": "h", "value": "dg=="}],
        "content_type": 2,
    }
    assert http.post("/v1/schedules", json=body).status_code == 409
    del body["name"]
    assert http.put("/v1/schedules/http-beat", json=body).json() == shown

    path = "/v1/schedules/http-beat"
    assert http.post(f"{path}/pause", json={}).json()["is_paused"]
    assert http.post(f"{path}/run", json={}).json()["runs"] == 1
    resumed = http.post(f"{path}/resume", json={}).json()
    assert not resumed["is_paused"]
    found = http.get(path, params={"upcoming": 3}).json()
    assert len(found["upcoming_ms"]) == 3
    assert "http-beat" in [each["name"] for each in http.get("/v1/schedules").json()["schedules"]]
    assert http.get("/v1/schedules", params={"after": "http-beat"}).json()["schedules"] == []
    assert http.delete(path).json()["runs"] == 1
    assert http.get(path).status_code == 404
    assert http.delete(path).status_code == 404


def test_bad_input_is_refused(http):
    good = {"name": "http-bad", "topic": "http-beats", "cron": "@daily", "message": {"payload_text": "x"}}
    for change in (
        {"cron": "0 25 * * *"},
        {"cron": "@daily", "every_ms": 5_000},
        {"time_zone": "Mars/Base"},
        {"missed": "some"},
        {"missed_max": 0},
        {"message": {}},
        {"message": {"payload_text": "x", "key": ""}},
        {"message": {"payload_text": "x", "delay_ms": 5}},
        {"name": "a/b"},
    ):
        answer = http.post("/v1/schedules", json={**good, **change})
        assert answer.status_code == 400, (change, answer.text)
        assert answer.json()["code"] == "INVALID_ARGUMENT"
    assert http.get("/v1/schedules/http-bad").status_code == 404
