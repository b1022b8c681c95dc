"""The lag that answers tell: each counts its partitions once, however they are polled together."""

from flotilla.client.queue._lag import KnownLag


def test_answers_of_all_leaders_add_up():
    lag = KnownLag()
    assert lag.total is None
    lag.learn([0, 1], 5)
    lag.learn([2], 7)
    assert lag.total == 12
    lag.learn([0, 1], 3)
    assert lag.total == 10


def test_a_partition_counts_once_after_its_leader_has_changed():
    lag = KnownLag()
    lag.learn([0, 1], 5)
    lag.learn([2], 7)
    lag.learn([1, 2], 8)
    assert lag.total == 8, "partition 0 is not known until it is polled again"
    lag.learn([0], 1)
    assert lag.total == 9
    lag.forget()
    assert lag.total is None
