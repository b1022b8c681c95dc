"""The chart shows each subject once and says why it is not there."""

from pathlib import Path

from bench.broker.beside import figure
from bench.chart import bars, draw


def test_each_subject_has_one_bar_whatever_it_was_set_beside() -> None:
    figures = [
        figure("flotilla@3 pipelined 100 B", "msg/s", [(5.0, 1.0)], "disk"),
        figure("flotilla@3 pipelined 100 B", "msg/s", [(5.0, 2.0)], "loopback"),
        figure("nats:fsync@3 pipelined 100 B", "msg/s", [(4.0, 1.0)], "disk"),
        figure("nats:fsync@3 pipelined 1 KB", "msg/s", [(3.0, 1.0)], "disk"),
    ]
    found = bars(figures, "pipelined 100 B")
    assert {name: each.value for name, each in found.items()} == {"flotilla@3": 5.0, "nats:fsync@3": 4.0}


def test_nothing_measured_is_no_picture(tmp_path: Path) -> None:
    assert draw([], tmp_path / "chart.png", "a machine").startswith("no chart")
    assert list(tmp_path.iterdir()) == []
