"""Holds of retention: what is held back, since when, and what is said of it once."""

from flotilla.broker.retention_holds import LASTING_MS, HeldBack, Holds


def test_everything_from_the_first_hold_on_stays():
    assert Holds({}).first is None
    assert Holds({"a": 7, "b": 5}).first == 5
    assert Holds({"a": 7}, dying=3).first == 3


def test_a_group_is_told_of_once_when_it_begins_and_once_when_it_ends():
    held = HeldBack()
    news = []
    for now_ms in range(0, 3 * LASTING_MS, LASTING_MS // 10):
        held.note({"slow": 3, "fast": 20}, 0, 10, now_ms)
        news.append(held.news(now_ms))
    assert [each for each in news if each != ([], [])] == [(["slow"], [])]
    assert (held.messages, held.below) == ({"slow": 7}, 10)
    held.note({"slow": 10}, 0, 10, 4 * LASTING_MS)
    assert held.news(4 * LASTING_MS) == ([], ["slow"])
    assert held.news(5 * LASTING_MS) == ([], [])


def test_a_group_that_catches_up_again_and_again_is_not_told_of():
    held = HeldBack()
    for now_ms in range(0, 10 * LASTING_MS, LASTING_MS // 2):
        held.note({"group": 0}, 0, now_ms // (LASTING_MS // 2) % 2, now_ms)
        assert held.lasting(now_ms) == {}
        assert held.news(now_ms) == ([], [])


def test_only_what_is_in_the_log_counts():
    held = HeldBack()
    held.note({"archive": 0, "group": 9}, 4, 10, 0)
    assert held.messages == {"archive": 6, "group": 1}
