"""A strict reader of Prometheus' text format 0.0.4: anything that a lenient one would ignore is an error here."""

import re
from dataclasses import dataclass, field

_HELP = re.compile(r"# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)")
_TYPE = re.compile(r"# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)")
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Family:
    kind: str
    help: str
    #: By the sample's name and labels.
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)


def parse(text: str) -> dict[str, Family]:
    assert text.endswith("\n")
    families: dict[str, Family] = {}
    lines = text.splitlines()
    place = 0
    while place < len(lines):
        help_line = _HELP.fullmatch(lines[place])
        type_line = _TYPE.fullmatch(lines[place + 1])
        assert help_line, lines[place]
        assert type_line, lines[place + 1]
        name = type_line[1]
        assert help_line[1] == name
        assert name not in families, f"{name} stands in two places"
        family = families[name] = Family(type_line[2], help_line[2])
        place += 2
        while place < len(lines) and not lines[place].startswith("#"):
            _add(family, name, lines[place])
            place += 1
    return families


def _add(family: Family, name: str, line: str) -> None:
    sample = _SAMPLE.fullmatch(line)
    assert sample, line
    endings = ("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",)
    assert sample[1] in [name + ending for ending in endings], line
    key = (sample[1], _labels(sample[2] or ""))
    assert key not in family.samples, f"{line} stands there twice"
    family.samples[key] = float(sample[3])


def _labels(text: str) -> Labels:
    found = []
    place = 0
    while place < len(text):
        match = _LABEL.match(text, place)
        assert match, text
        found.append((match[1], re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], match[2])))
        place = match.end()
    return tuple(found)


def check_histogram(family: Family) -> None:
    """Bounds rise, counts never fall, and the last bucket holds everything."""
    series: dict[Labels, list[tuple[float, float]]] = {}
    for (name, labels), value in family.samples.items():
        if name.endswith("_bucket"):
            series.setdefault(labels[:-1], []).append((float(labels[-1][1]), value))
    for labels, buckets in series.items():
        assert buckets == sorted(buckets)
        assert [count for _, count in buckets] == sorted(count for _, count in buckets)
        base = next(name for name, _ in family.samples).removesuffix("_bucket")
        assert buckets[-1] == (float("inf"), family.samples[(f"{base}_count", labels)])
        assert family.samples[(f"{base}_sum", labels)] >= 0
