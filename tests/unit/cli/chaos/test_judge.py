"""The rules of a chaos run see every planted error, and nothing in a good history."""

import json
from pathlib import Path
from random import Random

import pytest

from flotilla.cli.chaos.judge.history import OK, UNKNOWN, Ack, History, Place, Send
from flotilla.cli.chaos.judge.plants import PLANTS, Planted, copy_history, good_history, plant_errors
from flotilla.cli.chaos.judge.rules import RULES, held_by_two, judge, unknown_but_stored

BOOKS = Place("books", 0)


def test_a_good_history_breaks_no_rule():
    assert judge(good_history()) == []


@pytest.mark.parametrize("seed", range(20))
def test_every_planted_error_is_seen(seed: int):
    assert plant_errors(good_history(), Random(seed)) == Planted(list(PLANTS), [])


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_leaves_the_original_alone(name: str):
    history = good_history()
    copied = copy_history(history)
    PLANTS[name].put(copied, Random(1))
    assert copied != history
    assert history == good_history()


def test_every_rule_has_a_plant():
    assert {plant.rule for plant in PLANTS.values()} == RULES.keys()


def test_a_blind_rule_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(RULES, "stale read", lambda history: iter(()))
    assert plant_errors(good_history(), Random(1)).missed == ["stale read"]


def test_a_history_without_a_place_for_an_error_does_without_it():
    history = good_history()
    history.transactions.clear()
    planted = plant_errors(history, Random(1))
    assert planted.missed == []
    assert set(PLANTS) - set(planted.seen) == {"half a transaction"}


def rules_broken(history: History) -> set[str]:
    return {finding.rule for finding in judge(history)}


def test_a_log_that_begins_late_is_a_loss_at_that_replica():
    history = good_history()
    replica = history.replicas[0]
    replica.start, replica.payloads = 3, replica.payloads[3:]
    assert rules_broken(history) == {"replicas agree"}


def test_a_missing_replica_is_seen():
    history = good_history()
    del history.replicas[0]
    assert rules_broken(history) == {"replicas agree"}


@pytest.mark.parametrize(("began", "broken"), [(3.9, set()), (14.0, {"settled again"})])
def test_two_that_have_a_message_may_both_acknowledge_it_and_nobody_later(began: float, broken: set[str]):
    history = good_history()
    history.acks.append(Ack("other", BOOKS, 3, began, 15.0, OK))
    assert rules_broken(history) == broken


def test_an_undecided_transaction_may_be_there_or_not_but_not_in_part():
    for there, broken in ((2, set()), (0, set()), (1, {"half a transaction"})):
        history = good_history()
        transaction = history.transactions[0]
        transaction.outcome = UNKNOWN
        for replica in history.replicas:
            kept = [payload for _, payload in transaction.records[:there]]
            replica.payloads = [
                payload for payload in replica.payloads if not payload.startswith("t.1") or payload in kept
            ]
        assert rules_broken(history) == broken


def test_what_happens_sometimes_is_counted():
    history = good_history()
    assert (held_by_two(history), unknown_but_stored(history)) == (0, 0)
    history.sends[3] = Send("p", 3, BOOKS, "p.3", 3, 4, UNKNOWN)
    assert unknown_but_stored(history) == 1


def test_a_history_is_kept_for_people(tmp_path: Path):
    good_history().save(tmp_path / "history.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert {line["call"] for line in lines} >= {"Send", "Ack", "Delivery", "TransactionEnd"}
    assert lines[0]["payload"] == "p.0"
