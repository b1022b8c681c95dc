"""Types of columns as SQL writes them, `id BIGINT, items ARRAY<STRUCT<name: STRING>>`, as Arrow types, and back."""

import re
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

from flotilla.types.errors import InvalidArgumentError

_PLAIN: Final[dict[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
}
_ALSO: Final = {"BYTE": "TINYINT", "SHORT": "SMALLINT", "INTEGER": "INT", "LONG": "BIGINT", "REAL": "FLOAT"}
_DECIMAL_DEFAULT: Final = (10, 0)
_WORDS: Final = re.compile(r"\s+|(`(?:[^`]|``)+`|\w+|'(?:[^'\\]|\\.)*'|[<>(),:])")
_DEPTH_MAX: Final = 32


def read_columns(text: str) -> pa.StructType:
    """Columns, separated by commas, as one struct. Raises InvalidArgumentError."""
    return _Parser(text).fields("", 0)


def write_type(kind: pa.DataType) -> str:
    """Raises InvalidArgumentError for a type that SQL does not have."""
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{_quoted(field.name)}: {write_type(field.type)}' for field in kind)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{write_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{write_type(kind.key_type)}, {write_type(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    for name, known in _PLAIN.items():
        if kind == known:
            return name
    raise InvalidArgumentError(f"there is no column of type {kind}")


def list_of(kind: pa.DataType) -> pa.DataType:
    """Lists name their items as Parquet does."""
    return pa.list_(pa.field("element", kind))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._words: list[str] = []
        at = 0
        while at < len(text):
            found = _WORDS.match(text, at)
            if found is None:
                raise InvalidArgumentError(f"the columns {text!r} have {text[at]!r}, which is no part of a type")
            at = found.end()
            if found[1]:
                self._words.append(found[1])
        self._at = 0

    def fields(self, end: str, depth: int) -> pa.StructType:
        """Fields up to a closing bracket, or to the end of the text."""
        found: list[pa.Field] = []
        while True:
            name = self._name()
            if self._peek() == ":":
                self._take()
            found.append(pa.field(name, self._type(depth + 1)))
            self._skip_notes()
            if self._peek() != ",":
                break
            self._take()
        if self._peek() != end:
            raise self._unexpected()
        if len({field.name.lower() for field in found}) < len(found):
            raise InvalidArgumentError(f"the columns {self._text!r} have a name twice")
        return pa.struct(found)

    def _type(self, depth: int) -> pa.DataType:
        if depth > _DEPTH_MAX:
            raise InvalidArgumentError(f"types are at most {_DEPTH_MAX} deep")
        name = self._take().upper()
        name = _ALSO.get(name, name)
        if name in _PLAIN:
            return _PLAIN[name]
        if name in ("DECIMAL", "DEC", "NUMERIC"):
            return self._decimal()
        if name == "ARRAY":
            self._expect("<")
            kind = list_of(self._type(depth + 1))
        elif name == "MAP":
            self._expect("<")
            key = self._type(depth + 1)
            self._expect(",")
            kind = pa.map_(key, self._type(depth + 1))
        elif name == "STRUCT":
            self._expect("<")
            kind = self.fields(">", depth)
        else:
            raise InvalidArgumentError(f"there is no type {name!r}; there are {', '.join(_PLAIN)}, DECIMAL, ARRAY, ...")
        self._expect(">")
        return kind

    def _decimal(self) -> pa.DataType:
        numbers = list(_DECIMAL_DEFAULT)
        if self._peek() == "(":
            self._take()
            numbers = [self._number(), 0]
            if self._peek() == ",":
                self._take()
                numbers[1] = self._number()
            self._expect(")")
        if not 1 <= numbers[0] <= 38 or numbers[1] > numbers[0]:
            raise InvalidArgumentError(f"DECIMAL({numbers[0]}, {numbers[1]}) has 1 to 38 digits")
        return pa.decimal128(*numbers)

    def _skip_notes(self) -> None:
        """`NOT NULL` and comments: every column of a value may be missing."""
        while self._peek().upper() in ("NOT", "COMMENT"):
            self._take()
            self._take()

    def _name(self) -> str:
        word = self._take()
        if word.startswith("`"):
            return word[1:-1].replace("``", "`")
        if re.fullmatch(r"\w+", word) is None:
            self._at -= 1
            raise self._unexpected()
        return word

    def _number(self) -> int:
        word = self._take()
        if not word.isdecimal():
            self._at -= 1
            raise self._unexpected()
        return int(word)

    def _expect(self, word: str) -> None:
        if self._peek() != word:
            raise self._unexpected()
        self._take()

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _take(self) -> str:
        if self._at == len(self._words):
            raise InvalidArgumentError(f"the columns {self._text!r} end too early")
        self._at += 1
        return self._words[self._at - 1]

    def _unexpected(self) -> InvalidArgumentError:
        place = f"at {self._peek()!r}" if self._peek() else "at their end"
        return InvalidArgumentError(f"the columns {self._text!r} are not understood {place}")


def merged_type(old: pa.DataType, new: pa.DataType, kept: list[str], place: str = "") -> pa.DataType:
    """A type with the fields of both, the old ones first. Fields of both keep their old type; `kept` gets a sentence
    for each where the new one is another."""
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        fields = {field.name.lower(): field for field in old}
        for field in new:
            known = fields.setdefault(field.name.lower(), field)
            inside = f"{place}.{field.name}" if place else field.name
            if known.name != field.name:
                kept.append(f"{inside} differs only in its case from {known.name}, which stays")
            else:
                fields[field.name.lower()] = field.with_type(merged_type(known.type, field.type, kept, inside))
        return pa.struct(list(fields.values()))
    if pa.types.is_list(old) and pa.types.is_list(new):
        return list_of(merged_type(old.value_type, new.value_type, kept, place))
    if pa.types.is_map(old) and pa.types.is_map(new) and old.key_type == new.key_type:
        return pa.map_(old.key_type, merged_type(old.item_type, new.item_type, kept, place))
    if old != new:
        kept.append(f"{place} stays {write_type(old)}, and does not become {write_type(new)}")
    return old
