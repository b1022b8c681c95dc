"""Every judge of the whole product can fail: a good history passes, and with one planted error it does not."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from io import StringIO
from typing import Any

import pytest

from flotilla.sim.checkers.violation import Violation
from flotilla.sim.devices.world import SECOND, World
from flotilla.sim.whole.history import NOT_DONE, UNKNOWN, Call, History
from flotilla.sim.whole.judges import judge_answers, judge_time_limits
from flotilla.sim.whole.workloads.admin_judge import judge_admin
from flotilla.sim.whole.workloads.contents import Contents, judge_contents
from flotilla.sim.whole.workloads.readers_judge import judge_copies, judge_readers
from flotilla.sim.whole.workloads.stream_group.judge import judge_stream
from flotilla.sim.whole.workloads.transactions_judge import ABORTED, COMMITTED, judge_transactions
from flotilla.types.errors import DeadlineError, FlotillaError, OutcomeUnknownError, OverloadedError
from tests.tidy.markdown import table_rows
from tests.tidy.tree import texts


class Book:
    """A history written by hand: one call after the other, each of ten microseconds."""

    def __init__(self) -> None:
        self.world = World(0)
        self.history = History(self.world)

    @property
    def calls(self) -> list[Call]:
        return self.history.calls

    def done(self, client: str, operation: str, arguments: dict[str, Any], **result: Any) -> Call:
        call = self.history.begin(client, operation, **arguments)
        self.world.now_us += 10
        self.history.done(call, **result)
        self.world.now_us += 10
        return call


# Answers.


@pytest.mark.parametrize(
    ("error", "is_good"),
    [(OverloadedError("busy"), True), (DeadlineError("late"), False), (OutcomeUnknownError("perhaps"), False)],
)
def test_without_faults_every_call_is_answered(error: FlotillaError, is_good: bool) -> None:
    book = Book()
    book.done("p", "produce", {})
    book.history.failed(book.history.begin("p", "produce"), error)
    book.history.begin("killed", "produce")
    book.history.cut("killed")
    with nullcontext() if is_good else pytest.raises(Violation, match="answered"):
        judge_answers(book.history)


@pytest.mark.parametrize(("took_ms", "is_good"), [(8_300, True), (9_000, False)])
def test_no_call_outlives_its_time_limit(took_ms: int, is_good: bool) -> None:
    book = Book()
    call = book.history.begin("p", "produce", 8_000)
    book.world.now_us += took_ms * 1_000
    book.history.done(call)
    with nullcontext() if is_good else pytest.raises(Violation, match="outlives"):
        judge_time_limits(book.history, book.world.now_us)


@pytest.mark.parametrize(("paused", "is_good"), [("p", True), ("q", False)])
def test_the_time_in_which_a_client_is_paused_does_not_count(paused: str, is_good: bool) -> None:
    book = Book()
    call = book.history.begin("p.2", "produce", 8_000)
    book.world.now_us += 5 * SECOND
    book.history.frozen(paused, 15 * SECOND)
    book.world.now_us += 18 * SECOND
    book.history.done(call)
    with nullcontext() if is_good else pytest.raises(Violation, match="outlives"):
        judge_time_limits(book.history, book.world.now_us)


def test_a_history_file_has_every_field_of_every_call() -> None:
    book = Book()
    book.history.begin("p", "produce", 8_000, payload=b"x")
    file = StringIO()
    book.history.write(file)
    fields = ["client", "operation", "arguments", "began_us", "ended_us", "timeout_ms", "outcome", "error", "result"]
    assert list(json.loads(file.getvalue())) == fields
    documented = {
        name for row in table_rows(texts()["docs/simulation.md"]) for name in row[0].replace("`", "").split(", ")
    }
    assert set(fields) - documented == set()


# Contents of a log.


def log_book() -> tuple[Book, Contents]:
    book = Book()
    for number, key in enumerate("abab"):
        arguments = {"topic": "t", "payload": f"p/{number}", "key": key, "partition": None}
        book.done("p", "produce", arguments, partition=number % 2, offset=number // 2)
    return book, {0: {0: "p/0", 1: "p/2"}, 1: {0: "p/1", 1: "p/3"}}


def lose(book: Book, contents: Contents) -> None:
    del contents[1][1]


def double(book: Book, contents: Contents) -> None:
    contents[1][2] = "p/0"


def make_up(book: Book, contents: Contents) -> None:
    contents[1][2] = "p/9"


def displace(book: Book, contents: Contents) -> None:
    contents[0] = {0: "p/2", 1: "p/0"}


def do_what_was_refused(book: Book, contents: Contents) -> None:
    book.calls[3].outcome = NOT_DONE


def swap_the_acknowledged(book: Book, contents: Contents) -> None:
    displace(book, contents)
    book.calls[0].result["offset"], book.calls[2].result["offset"] = 1, 0


def move_a_key(book: Book, contents: Contents) -> None:
    book.calls[0].arguments["key"] = "b"


def test_good_contents_pass() -> None:
    book, contents = log_book()
    judge_contents("t", book.calls, contents)


@pytest.mark.parametrize(
    ("error", "promise"),
    [
        (lose, "every acknowledged record is read at its offset"),
        (double, "no record is doubled"),
        (make_up, "nothing is made up"),
        (displace, "every acknowledged record is read at its offset"),
        (do_what_was_refused, "what was not done has not happened"),
        (swap_the_acknowledged, "a later record has a higher offset"),
        (move_a_key, "a key stays in its partition"),
    ],
)
def test_an_error_of_contents_is_found(error: Callable[[Book, Contents], None], promise: str) -> None:
    book, contents = log_book()
    error(book, contents)
    with pytest.raises(Violation) as found:
        judge_contents("t", book.calls, contents)
    assert found.value.promise == promise


# A stream group: one member reads two records and commits one; another one takes over.

GROUP = {"group": "g"}
STREAM: Contents = {0: {0: "r/0", 1: "r/1", 2: "r/2"}}


def stream_book() -> Book:
    book = Book()
    book.done("m1", "assign", {**GROUP, "partition": 0, "epoch": 1}, position=0)
    book.done("m1", "poll", GROUP, messages=[(0, 1, 0, "r/0"), (0, 1, 1, "r/1")])
    book.done("m1", "commit", {**GROUP, "epochs": {0: 1}}, offsets={0: 1})
    book.done("o", "committed", {**GROUP, "partition": 0}, offset=1)
    book.done("m2", "assign", {**GROUP, "partition": 0, "epoch": 2}, position=1)
    book.done("m2", "poll", GROUP, messages=[(0, 2, 1, "r/1"), (0, 2, 2, "r/2")])
    book.done("m2", "commit", {**GROUP, "epochs": {0: 2}}, offsets={0: 3})
    book.done("o", "committed", {**GROUP, "partition": 0}, offset=3)
    return book


def miss_a_record(book: Book) -> None:
    book.calls[5].result["messages"].pop()
    del book.calls[6:]


def get_another_payload(book: Book) -> None:
    book.calls[1].result["messages"][1] = (0, 1, 1, "r/2")


def share_an_epoch(book: Book) -> None:
    book.calls[4].arguments["epoch"] = 1


def commit_late(book: Book) -> None:
    book.done("m1", "commit", {**GROUP, "epochs": {0: 1}}, offsets={0: 3})


def leave_a_gap(book: Book) -> None:
    book.calls[4].result["position"] = 0


def read_twice(book: Book) -> None:
    book.calls[1].result["messages"].append((0, 1, 1, "r/1"))


def go_back(book: Book) -> None:
    book.done("o", "committed", {**GROUP, "partition": 0}, offset=2)


def commit_ahead(book: Book) -> None:
    book.calls[2].result["offsets"][0] = book.calls[3].result["offset"] = 3


def begin_behind(book: Book) -> None:
    book.calls[4].result["position"] = 2
    book.calls[5].result["messages"].pop(0)
    book.calls[1].result["messages"].pop()
    book.done("m3", "assign", {**GROUP, "partition": 0, "epoch": 3}, position=1)
    book.done("m3", "poll", GROUP, messages=[(0, 3, 1, "r/1")])


def commit_what_is_in_hand(book: Book) -> None:
    """An observer sees a position behind a record whose member has not asked for more."""
    del book.calls[6]


def test_a_good_stream_passes() -> None:
    judge_stream("g", stream_book().calls, STREAM)


@pytest.mark.parametrize(
    ("error", "promise"),
    [
        (miss_a_record, "every record is read by the group"),
        (get_another_payload, "members get what is stored"),
        (share_an_epoch, "one owner per epoch"),
        (commit_late, "late commits are refused"),
        (leave_a_gap, "an owner reads in order, without a gap"),
        (read_twice, "an owner reads in order, without a gap"),
        (go_back, "positions never go back"),
        (commit_ahead, "nothing is skipped behind a position"),
        (begin_behind, "nothing is skipped behind a position"),
        (commit_what_is_in_hand, "nothing is skipped behind a position"),
    ],
)
def test_an_error_of_a_stream_is_found(error: Callable[[Book], None], promise: str) -> None:
    book = stream_book()
    error(book)
    with pytest.raises(Violation) as found:
        judge_stream("g", book.calls, STREAM)
    assert found.value.promise == promise


# Transactions: one of two records, one that was aborted, one that nobody decided, and one that takes an input.


class Ledger(Book):
    def __init__(self) -> None:
        super().__init__()
        self.inputs: Contents = {0: {0: "in/1"}}
        self.outputs: dict[str, Contents] = {
            "a": {0: {0: "one/0/3", 1: "one/1/3", 2: "four/0/1"}},
            "b": {0: {0: "one/2/3"}},
        }
        records = [("a", 0, "one/0/3"), ("a", 0, "one/1/3"), ("b", 0, "one/2/3")]
        receipts = [("a", 0, 0), ("a", 0, 1), ("b", 0, 0)]
        self.one = self.begin("one", records, state=COMMITTED, receipts=receipts)
        self.two = self.begin("two", [("a", 0, "two/0/1")], state=ABORTED)
        self.three = self.begin("three", [("b", 0, "three/0/1")])
        self.three.outcome, self.three.result = UNKNOWN, {}
        receipts = [("a", 0, 2)]
        self.four = self.begin(
            "four", [("a", 0, "four/0/1")], more={"input": "in/1"}, state=COMMITTED, receipts=receipts
        )

    def begin(
        self, name: str, records: list[tuple[str, int, str]], more: dict[str, Any] | None = None, **result: Any
    ) -> Call:
        return self.done("w", "transaction", {"id": name, "records": records, **(more or {})}, **result)

    def version(self, name: str, **result: Any) -> None:
        self.begin(name, [("b", 0, f"{name}/0/1")], {"application_id": "job", "version": 1}, **result)

    def judge(self) -> None:
        judge_transactions(self.calls, self.inputs, self.outputs)


def show_half(ledger: Ledger) -> None:
    del ledger.outputs["b"][0][0]


def show_half_of_a_partition(ledger: Ledger) -> None:
    del ledger.outputs["a"][0][1]


def double_a_record(ledger: Ledger) -> None:
    ledger.outputs["b"][0][1] = "one/2/3"


def forget_a_commit(ledger: Ledger) -> None:
    ledger.outputs = {"a": {0: {2: "four/0/1"}}, "b": {0: {}}}


def show_what_was_aborted(ledger: Ledger) -> None:
    ledger.outputs["a"][0][3] = "two/0/1"


def show_what_failed(ledger: Ledger) -> None:
    ledger.three.outcome = NOT_DONE
    ledger.outputs["b"][0][1] = "three/0/1"


def show_what_was_resolved(ledger: Ledger) -> None:
    ledger.done("r", "resolve-transaction", {"id": "three"}, state=ABORTED)
    ledger.outputs["b"][0][1] = "three/0/1"


def hide_what_was_resolved(ledger: Ledger) -> None:
    ledger.done("r", "resolve-transaction", {"id": "three"}, state=COMMITTED)


def decide_twice(ledger: Ledger) -> None:
    ledger.done("r", "resolve-transaction", {"id": "one"}, state=ABORTED)


def show_a_stranger(ledger: Ledger) -> None:
    ledger.outputs["b"][0][1] = "five/0/1"


def swap_records(ledger: Ledger) -> None:
    ledger.outputs["a"][0] = {0: "one/1/3", 1: "one/0/3", 2: "four/0/1"}


def mix_transactions(ledger: Ledger) -> None:
    ledger.outputs["a"][0] = {0: "one/0/3", 1: "four/0/1", 2: "one/1/3"}


def give_a_false_receipt(ledger: Ledger) -> None:
    ledger.one.result["receipts"][2] = ("b", 0, 7)


def take_an_input_twice(ledger: Ledger) -> None:
    ledger.begin("five", [("b", 0, "five/0/1")], {"input": "in/1"}, state=COMMITTED, receipts=[("b", 0, 1)])
    ledger.outputs["b"][0][1] = "five/0/1"


def lose_an_input(ledger: Ledger) -> None:
    ledger.inputs[0][1] = "in/2"


def commit_a_version_twice(ledger: Ledger) -> None:
    for name, offset in (("six", 1), ("seven", 2)):
        ledger.version(name, state=COMMITTED, receipts=[("b", 0, offset)])
        ledger.outputs["b"][0][offset] = f"{name}/0/1"


def lose_a_version(ledger: Ledger) -> None:
    ledger.version("six", state=ABORTED, receipts=[])


def test_good_transactions_pass() -> None:
    ledger = Ledger()
    ledger.judge()
    # One that could not be staged, one that was committed, and one that came too late.
    ledger.version("six", state=ABORTED)
    ledger.version("seven", state=COMMITTED, receipts=[("b", 0, 2)])
    ledger.version("eight", state=ABORTED, receipts=[])
    ledger.outputs["b"][0][2] = "seven/0/1"
    ledger.judge()
    ledger.outputs["b"][0][1] = "three/0/1"
    ledger.judge()


@pytest.mark.parametrize(
    ("error", "promise"),
    [
        (show_half, "a transaction is seen whole or not at all"),
        (show_half_of_a_partition, "a transaction is seen whole or not at all"),
        (double_a_record, "a transaction is seen whole or not at all"),
        (forget_a_commit, "a committed transaction is seen"),
        (show_what_was_aborted, "an aborted transaction is not seen"),
        (show_what_failed, "an aborted transaction is not seen"),
        (show_what_was_resolved, "an aborted transaction is not seen"),
        (hide_what_was_resolved, "a committed transaction is seen"),
        (decide_twice, "the first decision stands"),
        (show_a_stranger, "nothing is made up"),
        (swap_records, "records of a transaction stand together, in order"),
        (mix_transactions, "records of a transaction stand together, in order"),
        (give_a_false_receipt, "receipts say where records are"),
        (take_an_input_twice, "each input is taken exactly once"),
        (lose_an_input, "each input is taken exactly once"),
        (commit_a_version_twice, "a version is committed once"),
        (lose_a_version, "a version is committed once"),
    ],
)
def test_an_error_of_transactions_is_found(error: Callable[[Ledger], None], promise: str) -> None:
    ledger = Ledger()
    error(ledger)
    with pytest.raises(Violation) as found:
        ledger.judge()
    assert found.value.promise == promise


# Readers: three records of one partition, read in every way.

READ: Contents = {0: {0: "p/0", 1: "p/1", 2: "p/2"}}
TIMES = {0: {0: 100, 1: 110, 2: 120}}


def readers_book() -> Book:
    book = Book()
    here = {"topic": "t", "partition": 0}
    for number in range(3):
        book.done("p", "produce", {**here, "payload": f"p/{number}"}, partition=0, offset=number)
    messages = list(READ[0].items())
    book.done("r", "read", {**here, "time_ms": None}, start=0, messages=messages[:])
    book.done("r", "read", {**here, "time_ms": 105}, start=1, messages=messages[1:])
    book.done("r", "fetch", {**here, "offset": 1, "is_linearizable": True}, messages=messages[1:], end=3)
    book.done("r", "find", {**here, "time_ms": None}, offset=3)
    book.done("r", "find", {**here, "time_ms": 115}, offset=2)
    book.done("r", "find", {**here, "time_ms": 125}, offset=-1)
    book.done("r", "read", {**here, "time_ms": 125}, start=3, messages=[])
    return book


def skip_a_record(book: Book) -> None:
    del book.calls[3].result["messages"][1]


def repeat_a_record(book: Book) -> None:
    book.calls[3].result["messages"].insert(1, (0, "p/0"))


def read_something_else(book: Book) -> None:
    book.calls[3].result["messages"][1] = (1, "p/2")


def begin_elsewhere(book: Book) -> None:
    del book.calls[3].result["messages"][0]


def leave_out_the_first(book: Book) -> None:
    del book.calls[5].result["messages"][0]


def be_stale(book: Book) -> None:
    book.calls[5].result["end"] = 2


def find_an_old_end(book: Book) -> None:
    book.calls[6].result["offset"] = 2


def find_too_late(book: Book) -> None:
    book.calls[7].result["offset"] = -1


def find_too_early(book: Book) -> None:
    book.calls[7].result["offset"] = 1


def begin_too_late(book: Book) -> None:
    book.calls[4].result.update(start=2, messages=[(2, "p/2")])


def begin_before_the_end(book: Book) -> None:
    book.calls[9].result["start"] = 2


def test_good_readers_pass() -> None:
    judge_readers("t", readers_book().calls, READ, TIMES)


@pytest.mark.parametrize(
    ("error", "promise"),
    [
        (skip_a_record, "a reader gets one record after the other"),
        (repeat_a_record, "a reader gets one record after the other"),
        (read_something_else, "every replica has the same records"),
        (begin_elsewhere, "a reader begins where it says"),
        (leave_out_the_first, "a replica leaves nothing out"),
        (be_stale, "a linearizable read shows what was acknowledged"),
        (find_an_old_end, "a linearizable read shows what was acknowledged"),
        (find_too_late, "a time leads to the first record of that time"),
        (find_too_early, "a time leads to a record of that time"),
        (begin_too_late, "a time leads to the first record of that time"),
        (begin_before_the_end, "a linearizable read shows what was acknowledged"),
    ],
)
def test_an_error_of_readers_is_found(error: Callable[[Book], None], promise: str) -> None:
    book = readers_book()
    error(book)
    with pytest.raises(Violation) as found:
        judge_readers("t", book.calls, READ, TIMES)
    assert found.value.promise == promise


@pytest.mark.parametrize("copy", [{0: b"x", 1: b"z"}, {0: b"x"}, {0: b"x", 1: b"y", 2: b"z"}])
def test_a_replica_that_differs_is_found(copy: dict[int, bytes]) -> None:
    good = {0: b"x", 1: b"y"}
    judge_copies("t", {0: {1: good, 2: dict(good)}})
    with pytest.raises(Violation, match="nodes 1 and 3 differ"):
        judge_copies("t", {0: {1: good, 2: dict(good), 3: copy}})


# Names: a topic with one record and a committed offset is deleted, and made anew.


def admin_book() -> Book:
    book = Book()
    facts = {"topic_id": 1, "partitions": 1, "max_deliveries": 5}
    wanted = {"partitions": 1, "max_deliveries": 5}
    here = {"name": "k-1"}
    book.done("k", "create", {**here, **wanted, "life": 1}, **facts)
    book.done("k", "store", {**here, "life": 1, "partition": 0, "payload": "k-1/1/1"}, offset=0)
    book.done("k", "commit offset", {**here, "partition": 0, "offset": 1}, offset=1)
    book.done("k", "delete", {**here, "life": 1}, **facts)
    book.done("k", "list", here, has=False)
    book.done("k", "create", {**here, **wanted, "life": 2}, **{**facts, "topic_id": 2})
    book.done("k-witness", "describe", here, **{**facts, "topic_id": 2})
    book.done("k", "store", {**here, "life": 2, "partition": 0, "payload": "k-1/2/2"}, offset=0)
    book.done("k", "read", {**here, "partition": 0, "topic_id": 2}, records={0: "k-1/2/2"})
    book.done("k", "committed offset", {**here, "partition": 0}, offset=None)
    book.done("k", "groups", here, groups=[])
    return book


def show_an_earlier_life(book: Book) -> None:
    book.calls[8].result["records"] = {0: "k-1/1/1"}


def show_it_to_a_visitor(book: Book) -> None:
    book.done("v", "read", {"name": "k-1", "partition": 0, "topic_id": 2}, records={0: "k-1/1/1"})


def use_an_id_again(book: Book) -> None:
    book.calls[5].result["topic_id"] = 1


def show_an_old_topic(book: Book) -> None:
    book.calls[6].result["topic_id"] = 1


def list_what_was_deleted(book: Book) -> None:
    book.calls[4].result["has"] = True


def not_find_what_was_made(book: Book) -> None:
    book.calls[6].outcome, book.calls[6].error = NOT_DONE, "NotFoundError: no topic"


def lose_a_record(book: Book) -> None:
    book.calls[8].result["records"] = {}


def keep_an_offset(book: Book) -> None:
    book.calls[9].result["offset"] = 1


def keep_a_group(book: Book) -> None:
    book.calls[10].result["groups"] = ["keepers"]


def make_something_else(book: Book) -> None:
    book.calls[5].result["partitions"] = 2


def test_good_names_pass() -> None:
    judge_admin(admin_book().calls)


@pytest.mark.parametrize(
    ("error", "promise"),
    [
        (show_an_earlier_life, "an earlier life never comes back"),
        (show_it_to_a_visitor, "an earlier life never comes back"),
        (use_an_id_again, "each life of a name has an id of its own"),
        (show_an_old_topic, "a client sees its own changes"),
        (list_what_was_deleted, "a client sees its own changes"),
        (not_find_what_was_made, "a client sees its own changes"),
        (lose_a_record, "a topic holds what was stored in this life"),
        (keep_an_offset, "a group is what was made of it in this life"),
        (keep_a_group, "a group is what was made of it in this life"),
        (make_something_else, "a change is what was asked for"),
    ],
)
def test_an_error_of_names_is_found(error: Callable[[Book], None], promise: str) -> None:
    book = admin_book()
    error(book)
    with pytest.raises(Violation) as found:
        judge_admin(book.calls)
    assert found.value.promise == promise
