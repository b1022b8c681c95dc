"""The schema topic: schemas of values by name, each with its versions and a rule of compatibility.

A version is one record of partition 0. Its number is in the record, and in the order of the log the first record with
the next number counts; every reader leaves out the same others. So of two that register at once one gets the number,
and the other one checks its schema again, against the winner.
"""

import json
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

from flotilla.client.bulk.stored_batches import StoredBatches
from flotilla.client.client import Client
from flotilla.lake.arrow import record_batches
from flotilla.lake.offset_range import OffsetRange
from flotilla.lake.values.compatibility import BACKWARD, RULES, incompatibilities
from flotilla.lake.values.value_schema import ValueSchema
from flotilla.types.errors import InvalidArgumentError, NotFoundError, UnavailableError
from flotilla.types.limits import KIB

SCHEMA_TOPIC: Final = "flotilla.schemas"
#: A record may say with which version of a schema its value was written: this header has the number.
VERSION_HEADER: Final = "schema-version"
#: Of a record in the schema topic.
RECORD_VERSION: Final = 1
#: A record has it in Base64.
DEFINITION_BYTES_MAX: Final = 512 * KIB
#: `@` stands before a version.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ATTEMPTS: Final = 20
_VALUE: Final = pa.schema([("value", pa.binary())])


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of a schema."""

    name: str
    #: From 1.
    version: int
    schema: ValueSchema
    #: The rule for the next version.
    compatibility: str = BACKWARD

    def payload(self) -> bytes:
        """As it is stored."""
        return json.dumps(
            {
                "record": RECORD_VERSION,
                "name": self.name,
                "version": self.version,
                "format": self.schema.format,
                "definition": b64encode(self.schema.definition).decode(),
                "message": self.schema.message,
                "compatibility": self.compatibility,
            }
        ).encode()


def read_payload(payload: bytes) -> RegisteredSchema | None:
    """None: it is no version of a schema. Its definition is not checked: all readers must count the same versions."""
    try:
        found = json.loads(payload)
        if found["record"] != RECORD_VERSION or found["compatibility"] not in RULES:
            return None
        definition = b64decode(found["definition"], validate=True)
        schema = ValueSchema(str(found["format"]), definition, str(found["message"]))
        return RegisteredSchema(str(found["name"]), int(found["version"]), schema, found["compatibility"])
    except (ValueError, KeyError, TypeError):
        return None


def read_reference(text: str) -> tuple[str, int | None]:
    """`NAME` or `NAME@VERSION`; no version: the newest. Raises InvalidArgumentError."""
    name, at, number = text.partition("@")
    if _NAME.fullmatch(name) is None or (at and not (number.isdecimal() and int(number) > 0)):
        raise InvalidArgumentError(f"a schema is named as NAME or NAME@VERSION, not {text!r}")
    return name, int(number) if at else None


class SchemaTopic:
    """Reads and extends the schema topic of a cluster. Belongs to one thread."""

    def __init__(self, client: Client, *, timeout_ms: int = 60_000) -> None:
        self._client = client
        self._timeout_ms = timeout_ms
        self._position = 0
        self._schemas: dict[str, list[RegisteredSchema]] = {}

    def names(self) -> list[str]:
        self._follow()
        return sorted(self._schemas)

    def versions(self, name: str) -> list[RegisteredSchema]:
        """All versions of a schema, the oldest first. Raises NotFoundError."""
        self._follow()
        if name not in self._schemas:
            there = ", ".join(sorted(self._schemas)) or "none"
            raise NotFoundError(f"there is no schema {name!r}; there are: {there}")
        return list(self._schemas[name])

    def find(self, reference: str) -> RegisteredSchema:
        """By `NAME` or `NAME@VERSION`. Raises NotFoundError."""
        name, version = read_reference(reference)
        versions = self.versions(name)
        if version is not None and version > len(versions):
            raise NotFoundError(f"schema {name!r} has no version {version}; the newest is {len(versions)}")
        return versions[(version or len(versions)) - 1]

    def check(self, name: str, schema: ValueSchema, compatibility: str | None = None) -> list[str]:
        """Why a schema cannot become the next version, by the rule of the name or by another one; empty: it can.

        Raises InvalidArgumentError for a schema that no value can be decoded with.
        """
        self._follow()
        return self._next(name, schema, compatibility)[1]

    def register(self, name: str, schema: ValueSchema, compatibility: str | None = None) -> RegisteredSchema:
        """The next version of a schema; the newest one as it is, if nothing changes.

        `compatibility` replaces the rule of the name, for this version and those after it; the first version has
        backward without one. Raises InvalidArgumentError for a schema that breaks the rule.
        """
        self._client.create_topic(SCHEMA_TOPIC, partitions=1, retention_ms=0, if_not_exists=True)
        for _ in range(_ATTEMPTS):
            self._follow()
            new, problems = self._next(name, schema, compatibility)
            if problems:
                more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
                raise InvalidArgumentError(f"schema {name!r} has the rule {new.compatibility}: {problems[0]}{more}")
            known = self._schemas.get(name, [])
            if known and known[-1] == RegisteredSchema(name, len(known), schema, new.compatibility):
                return known[-1]
            receipt = self._client.produce(
                SCHEMA_TOPIC, new.payload(), key=name.encode(), partition=0, timeout_ms=self._timeout_ms
            )
            self._follow(receipt.offset + 1)
            if self._schemas[name][new.version - 1] == new:
                return new
        raise UnavailableError(f"others register versions of schema {name!r} all the time")

    def _next(self, name: str, schema: ValueSchema, compatibility: str | None) -> tuple[RegisteredSchema, list[str]]:
        """The next version, whether it may be or not, and why not."""
        if _NAME.fullmatch(name) is None:
            raise InvalidArgumentError("a schema name has 1 to 249 letters, digits, dots, _ or -")
        if compatibility is not None and compatibility not in RULES:
            raise InvalidArgumentError(f"the rule is one of {', '.join(RULES)}, not {compatibility!r}")
        if len(schema.definition) > DEFINITION_BYTES_MAX:
            raise InvalidArgumentError(f"a schema has at most {DEFINITION_BYTES_MAX} bytes")
        schema.check()
        known = self._schemas.get(name, [])
        rule = compatibility or (known[-1].compatibility if known else BACKWARD)
        new = RegisteredSchema(name, len(known) + 1, schema, rule)
        return new, incompatibilities(schema, [(each.version, each.schema) for each in known], rule)

    def _follow(self, end_min: int = 0) -> None:
        """Reads what is new. Raises OffsetOutOfRangeError when retention has removed versions."""
        try:
            end = max(self._client.find_offset(SCHEMA_TOPIC, 0, "latest", timeout_ms=self._timeout_ms), end_min)
        except NotFoundError:
            end = 0
        if end < self._position:
            # The topic was deleted.
            self._position, self._schemas = 0, {}
        wanted = OffsetRange(SCHEMA_TOPIC, 0, self._position, end)
        stored = StoredBatches(self._client, SCHEMA_TOPIC, 0, self._position, end, timeout_ms=self._timeout_ms)
        for batch in record_batches(stored, wanted, _VALUE):
            for payload in batch.column("value").to_pylist():
                self._take(payload)
        self._position = end

    def _take(self, payload: bytes) -> None:
        found = read_payload(payload)
        if found is not None and found.version == len(self._schemas.get(found.name, ())) + 1:
            self._schemas.setdefault(found.name, []).append(found)
