"""Progress bars on standard error, on a terminal only."""

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn

from flotilla.cli.terminal.output import console


def progress_bar(*columns: ProgressColumn, is_quiet: bool = False, is_still: bool = False) -> Progress:
    """A name, a bar and these columns, removed at the end. A still bar is drawn only on `refresh`."""
    printer = console(is_stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *columns,
        console=printer,
        auto_refresh=not is_still,
        transient=True,
        disable=is_quiet or not printer.is_terminal,
    )


class Stages:
    """A bar for a known number of named stages. It is drawn between them only, so that no thread disturbs a stage."""

    def __init__(self, total: int, *, is_quiet: bool) -> None:
        self.total = total
        self.begun = 0
        self._bar = progress_bar(MofNCompleteColumn(), is_quiet=is_quiet, is_still=True)
        self._task = self._bar.add_task("", total=total)

    def begin(self, name: str) -> None:
        """Ends the stage before."""
        self._bar.update(self._task, description=name, completed=self.begun, refresh=True)
        self.begun += 1

    def __enter__(self) -> "Stages":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
