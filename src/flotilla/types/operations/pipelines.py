"""Pipelines: programs that read topics for ever, such as streaming queries, and what they say of their progress.

Reports are not replicated: the controller has the last one of each pipeline in memory, and forgets a pipeline that is
silent. After a change of controllers the next reports fill the list again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Final

from flotilla.types.access import ANYBODY, CONSUME, DESCRIBE, Resource
from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import PIPELINE_TOPICS_MAX
from flotilla.types.operations.request import CONTROLLER, READ, REPEATABLE, Done, May, Reply, Request

TEXT_CHARACTERS_MAX: Final = 200
#: Paths are longer than names.
LAKE_CHARACTERS_MAX: Final = 1_000
#: What JavaScript's numbers can hold.
_NUMBER_MAX: Final = 2**53 - 1


@dataclass(slots=True)
class Pipeline:
    #: Of a query, the same after it is restarted.
    id: str
    #: That people gave it.
    name: str
    topics: list[str]
    #: Where its progress is committed; empty: nowhere.
    group: str = ""
    #: Behind the latest offsets that it knew when it planned its last batch; bytes are estimated.
    records_behind: int = 0
    bytes_behind: int = 0
    records_per_second: int = 0
    #: The number of the last batch, its records, and how long it took.
    batch: int = 0
    batch_records: int = 0
    batch_ms: int = 0
    #: The controller's time of the report.
    reported_ms: int = 0
    #: The address of the lake that it writes; empty: it writes none.
    lake: str = ""
    #: Of the tables of its topics there: stored bytes, rows and files.
    lake_bytes: int = 0
    lake_rows: int = 0
    lake_files: int = 0
    #: When the one of them that was verified longest ago was found intact; 0: one is not.
    lake_verified_ms: int = 0


_NUMBERS: Final = tuple(each.name for each in fields(Pipeline) if each.type == "int" or each.type is int)
assert len(_NUMBERS) == 11


def check_pipeline(pipeline: Pipeline) -> None:
    """Raises InvalidArgumentError."""
    if not pipeline.id:
        raise InvalidArgumentError("a pipeline has an id")
    if not 1 <= len(pipeline.topics) <= PIPELINE_TOPICS_MAX:
        raise InvalidArgumentError(
            f"a pipeline has 1 to {PIPELINE_TOPICS_MAX} topics in its report, not {len(pipeline.topics)}"
        )
    for text in (pipeline.id, pipeline.name, pipeline.group, *pipeline.topics):
        if len(text) > TEXT_CHARACTERS_MAX:
            raise InvalidArgumentError(
                f"a text of a pipeline has at most {TEXT_CHARACTERS_MAX} characters: {text[:80]!r}..."
            )
    if len(pipeline.lake) > LAKE_CHARACTERS_MAX:
        raise InvalidArgumentError(f"the address of a lake has at most {LAKE_CHARACTERS_MAX} characters in a report")
    for name in _NUMBERS:
        if not 0 <= getattr(pipeline, name) <= _NUMBER_MAX:
            raise InvalidArgumentError(f"{name} of a pipeline is 0 to {_NUMBER_MAX}, not {getattr(pipeline, name)}")


@dataclass(slots=True)
class ReportPipeline(Request[Done], to=CONTROLLER, effect=REPEATABLE, needs=CONSUME):
    """The progress of a pipeline, in place of its last report; `is_over` ends it."""

    pipeline: Pipeline
    is_over: bool = False

    @property
    def resources(self) -> Sequence[Resource]:
        return tuple(Resource(topic) for topic in self.pipeline.topics)


@dataclass(slots=True)
class PipelineList(Reply):
    #: By name and id.
    pipelines: list[Pipeline] = field(default_factory=list)


@dataclass(slots=True)
class ListPipelines(Request[PipelineList], to=CONTROLLER, effect=READ, needs=ANYBODY):
    """Pipelines that report their progress, without those of topics that the caller may not describe."""

    def visible(self, reply: PipelineList, may: May) -> PipelineList:
        return PipelineList(
            [each for each in reply.pipelines if all(may(DESCRIBE, Resource(topic)) for topic in each.topics)]
        )
