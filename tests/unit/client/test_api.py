"""Both clients have the same names and signatures, and importing the package stays cheap."""

import inspect
import re
import subprocess
import sys

import pytest

import flotilla
from flotilla import (
    AsyncClient,
    AsyncDeadLetters,
    AsyncProducer,
    AsyncQueueConsumer,
    AsyncQueueMessage,
    AsyncReader,
    AsyncStreamConsumer,
    AsyncTransaction,
    Client,
    DeadLetters,
    Producer,
    QueueConsumer,
    QueueMessage,
    Reader,
    StreamConsumer,
    Transaction,
)
from flotilla.client._options import GroupOptions, TopicOptions
from flotilla.client.admin.cluster import Admin, AsyncAdmin
from flotilla.client.admin.schedules import AsyncSchedules, Schedules
from flotilla.client.producer.aio import AsyncDelivery
from flotilla.client.producer.sync import SyncDelivery
from flotilla.client.queue.options import QueueSettings
from flotilla.types.errors import (
    ALL_ERRORS,
    DeadlineError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    WrongTypeError,
)
from flotilla.types.group_settings import GROUP_SETTINGS
from flotilla.types.topics import SETTINGS

PAIRS = [
    (Client, AsyncClient),
    (Admin, AsyncAdmin),
    (Schedules, AsyncSchedules),
    (Producer, AsyncProducer),
    (Reader, AsyncReader),
    (SyncDelivery, AsyncDelivery),
    (QueueConsumer, AsyncQueueConsumer),
    (QueueMessage, AsyncQueueMessage),
    (DeadLetters, AsyncDeadLetters),
    (StreamConsumer, AsyncStreamConsumer),
    (Transaction, AsyncTransaction),
]
#: Names that the language gives to the same thing.
TWINS = {"__enter__": "__aenter__", "__exit__": "__aexit__", "__iter__": "__aiter__", "__next__": "__anext__"}
#: What shells share with each other, not with users.
INTERNAL = {"send_record", "send_all", "adapt", "abandon", "batch", "settle", "hurry", "is_usable"}


def names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")} - INTERNAL


def parameters(kind: type, name: str) -> list[tuple[str, object, object, str]]:
    if not callable(getattr(kind, name)):
        return []
    signature = inspect.signature(getattr(kind, name))
    return [(each.name, each.kind, each.default, plain(each.annotation)) for each in signature.parameters.values()][1:]


def plain(annotation: object) -> str:
    """A type without the name of its shell or module."""
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return re.sub(r"(\w+\.)+", "", text).replace("Async", "")


@pytest.mark.parametrize(("blocking", "other"), PAIRS)
def test_names_and_signatures_are_the_same(blocking, other):
    assert names(blocking) == names(other)
    for name in sorted(names(blocking)):
        assert parameters(blocking, name) == parameters(other, name), name
    assert parameters(Client, "__init__") == parameters(AsyncClient, "__init__")
    for name, twin in TWINS.items():
        if issubclass(blocking, tuple) and name == "__iter__":
            continue  # A message is a tuple in both shells.
        assert (name in dir(blocking)) == (twin in dir(other)), name


@pytest.mark.parametrize(("blocking", "other"), PAIRS)
def test_everything_is_documented_in_the_same_words(blocking, other):
    for name in sorted(names(blocking)):
        text = inspect.getdoc(getattr(blocking, name))
        assert text, name
        if name != "send":
            assert text == inspect.getdoc(getattr(other, name)), name


def test_results_have_the_same_types():
    for name in sorted(names(Client) - {"admin", "schedules"}):
        blocking, other = (inspect.signature(getattr(kind, name)).return_annotation for kind in (Client, AsyncClient))
        assert plain(other) == plain(blocking), name


def test_everything_public_can_be_imported():
    bound: dict[str, object] = {}
    exec("from flotilla import *", bound)
    assert bound.keys() - {"__builtins__"} == set(flotilla.__all__)
    for name in (*flotilla.__all__, *(error.__name__ for error in ALL_ERRORS)):
        assert getattr(flotilla, name) is bound[name]
        assert name in dir(flotilla)


def test_return_types_of_methods_can_be_imported():
    for kind, _ in PAIRS:
        for name in names(kind) - {"unresolved"}:
            if callable(getattr(kind, name)):
                returned = str(inspect.signature(getattr(kind, name)).return_annotation)
                assert not {*re.findall(r"flotilla[\w.]*\.(\w+)", returned)} - {*flotilla.__all__}, (kind, name)


def test_the_parameters_of_queue_are_those_of_a_worker():
    own = {"self", "topic", "group"}
    assert QueueSettings.__annotations__.keys() == inspect.signature(Client.queue).parameters.keys() - own


def test_settings_of_topics_and_groups_are_typed():
    assert TopicOptions.__annotations__.keys() == SETTINGS.keys()
    assert GroupOptions.__annotations__.keys() == GROUP_SETTINGS.keys()


def test_an_error_is_imported_without_the_client():
    code = "import sys; from flotilla import DeadlineError; print('flotilla.client' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "False"


@pytest.mark.parametrize(
    ("kind", "others"),
    [
        (DeadlineError, (TimeoutError,)),
        (UnavailableError, (ConnectionError,)),
        (InvalidArgumentError, (ValueError,)),
        (NotFoundError, (LookupError,)),
        (WrongTypeError, (InvalidArgumentError, TypeError)),
    ],
)
def test_errors_are_built_in_ones_as_well(kind, others):
    assert issubclass(kind, (flotilla.FlotillaError, *others))
    assert all(issubclass(kind, other) for other in others)
    assert str(kind("text")) == "text"


def test_names_that_do_not_exist():
    with pytest.raises(AttributeError):
        flotilla.nothing  # noqa: B018
    with pytest.raises(AttributeError):
        flotilla.NothingError  # noqa: B018


def test_importing_the_package_loads_its_version_and_nothing_else():
    code = "import sys, flotilla; print(sorted(name for name in sys.modules if name.startswith('flotilla')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "['flotilla', 'flotilla.types', 'flotilla.types.version']"
