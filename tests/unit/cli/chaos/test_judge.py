"""The rules of a chaos run see every planted error, and nothing in a good history."""

from random import Random

import pytest

from flotilla.cli.chaos.judge.history import OK, UNKNOWN, Ack, History, Place, Send
from flotilla.cli.chaos.judge.plants import PLANTS, copy_history, good_history, missed_plants
from flotilla.cli.chaos.judge.rules import RULES, held_by_two, judge, unknown_but_stored

BOOKS = Place("books", 0)


def test_a_good_history_breaks_no_rule():
    assert judge(good_history()) == []


@pytest.mark.parametrize("seed", range(20))
def test_every_planted_error_is_seen(seed: int):
    assert missed_plants(good_history(), Random(seed)) == []


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
    assert missed_plants(good_history(), Random(1)) == ["stale read"]


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


def test_two_acknowledgements_of_one_message_are_one_too_many():
    history = good_history()
    history.acks.append(Ack("other", BOOKS, 3, 4.0, 4.1, OK))
    assert rules_broken(history) == {"settled again"}


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
