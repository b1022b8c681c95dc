"""The page of formats names every version and every magic number, with its value."""

import re
from ast import literal_eval

from tests.tidy.markdown import table_rows
from tests.tidy.tree import ROOT, package_modules

PAGE = (ROOT / "docs" / "reference" / "formats.md").read_text("utf-8")

#: A constant that stands for a version of a format or for its first bytes, and its value.
CONSTANT = re.compile(
    r"^(_?[A-Z_]*(?:VERSION|VERSION_MIN|VERSION_MAX|MAGIC))(?:: Final)? = (\w+|b\"\w+\")$", re.MULTILINE
)
#: Numbers of other things.
OTHERS = ("peers.handshake.REFUSED_VERSION", "broker.cluster.controller.JOINING_VERSION")
#: Magic numbers inside of entries, which the page names in its text.
IN_TEXT = {
    "codec.batch.header.MAGIC": "`0x4C46` batch",
    "partition.commands.partition_commands.MAGIC": "`0x4351` command of a partition",
    "metadata.commands.MAGIC": "`0x444D` command of the metadata",
}


def constants() -> dict[str, int | bytes]:
    """Every such constant of the package with its value."""
    found: dict[str, int | bytes] = {}
    for module in package_modules():
        if not module.name.startswith(("codec.generated", "sim")):
            found |= {f"{module.name}.{name}": literal_eval(value) for name, value in CONSTANT.findall(module.text)}
    return {name: value for name, value in found.items() if name not in OTHERS}


def test_every_version_stands_there_with_its_value() -> None:
    named = {constant.strip("`"): value.strip("`") for _, constant, value, *_ in table_rows(PAGE) if "." in constant}
    real = {name: value for name, value in constants().items() if name not in IN_TEXT}
    assert named == {name: value.decode() if isinstance(value, bytes) else str(value) for name, value in real.items()}


def test_magic_numbers_of_entries_stand_there() -> None:
    found = constants()
    for name, text in IN_TEXT.items():
        assert text in PAGE
        assert found[name] == int(text[1:7], 16)
