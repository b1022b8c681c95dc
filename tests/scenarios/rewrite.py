"""Records the output of every scenario anew: `python -m tests.scenarios.rewrite`. Read the difference afterwards."""

from tests.scenarios.play import play
from tests.scenarios.script import render, scenario_paths


def main() -> None:
    for path in scenario_paths():
        text = path.read_text(encoding="utf-8")
        played = render(play(text))
        if played != text:
            path.write_text(played, encoding="utf-8")
            print(f"rewrote {path.name}")


if __name__ == "__main__":
    main()
