"""What pipelines report of their progress: the last report of each, at the controller, in bounded memory."""

from dataclasses import replace

from flotilla.broker.catalog import Catalog
from flotilla.broker.ports import Done, Outside
from flotilla.types.errors import FlotillaError
from flotilla.types.limits import PIPELINE_COUNT_MAX, PIPELINE_SILENT_MS_MAX
from flotilla.types.operations import Done as DoneReply
from flotilla.types.operations.pipelines import ListPipelines, Pipeline, PipelineList, ReportPipeline, check_pipeline


class Pipelines:
    def __init__(self, catalog: Catalog, outside: Outside) -> None:
        self._catalog = catalog
        self._outside = outside
        #: By id, the last reported at the end.
        self._reports: dict[str, Pipeline] = {}

    def report_pipeline(self, request: ReportPipeline, done: Done) -> None:
        """Beyond PIPELINE_COUNT_MAX, the one that was silent longest is forgotten."""
        self._catalog.leading()
        check_pipeline(request.pipeline)
        self._reports.pop(request.pipeline.id, None)
        if not request.is_over:
            self._reports[request.pipeline.id] = replace(request.pipeline, reported_ms=self._outside.now_ms())
        while len(self._reports) > PIPELINE_COUNT_MAX:
            del self._reports[next(iter(self._reports))]
        done(DoneReply())

    def list_pipelines(self, _: ListPipelines, done: Done) -> None:
        self._catalog.leading()
        done(PipelineList(self._current()))

    def measured(self) -> list[Pipeline]:
        """For metrics: of the controller, and nothing of any other node."""
        try:
            self._catalog.leading()
        except FlotillaError:
            self._reports.clear()
        return self._current()

    def _current(self) -> list[Pipeline]:
        oldest_ms = self._outside.now_ms() - PIPELINE_SILENT_MS_MAX
        self._reports = {each.id: each for each in self._reports.values() if each.reported_ms >= oldest_ms}
        return sorted(self._reports.values(), key=lambda each: (each.name, each.id))
