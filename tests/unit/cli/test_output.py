"""Tables for terminals and pipes; control characters are escaped."""

import pytest
from rich.console import Console

from flotilla.cli.terminal.output import complain, escaped, print_table, shown, table


@pytest.mark.parametrize(
    ("value", "for_people", "for_pipes"),
    [
        (1234567, "1,234,567", "1234567"),
        (True, "yes", "yes"),
        (False, "no", "no"),
        ("plain", "plain", "plain"),
        ("\x1b[31mred", "\\x1b[31mred", "\\x1b[31mred"),
        ("line\nbreak", "line\\nbreak", "line\\nbreak"),
    ],
)
def test_a_value_is_one_printable_line(value, for_people, for_pipes):
    assert shown(value) == for_people
    assert shown(value, is_terminal=False) == for_pipes


def test_escaping_keeps_letters_of_any_language():
    assert escaped("Grüße 🚢 \u202e\x07") == "Grüße 🚢 \\u202e\\x07"


def test_a_piped_table_has_one_line_per_row_without_padding(capsys):
    print_table(("name", "count"), [("a" * 300, 1000), ("[red]b[/red]", 2)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["name", "count"], ["a" * 300, "1000"], ["[red]b[/red]", "2"]]
    assert all(line == line.rstrip() for line in lines)


def test_numbers_stand_at_the_right_and_truth_at_the_left():
    made = table(("n", "alive"), [(1, True)])
    assert [column.justify for column in made.columns] == ["right", "left"]


def test_an_empty_table_is_its_head():
    console = Console(width=40)
    with console.capture() as capture:
        console.print(table(("a", "b"), []))
    assert capture.get().split() == ["a", "b"]


def test_a_complaint_is_one_line_whatever_it_says(capsys):
    complain("first\nsecond\tthird")
    assert capsys.readouterr().err == "flotilla: first second third\n"
