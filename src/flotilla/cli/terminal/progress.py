"""How far long work has come: a bar on standard error, for people only. In a pipe or a script nothing is shown."""

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn

from flotilla.cli.terminal.output import console


def progress_bar(*columns: ProgressColumn, is_quiet: bool = False, is_still: bool = False) -> Progress:
    """Name and bar, then the columns. It is gone at the end; one that is still moves only when it is told to."""
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
    """Work of known length whose parts have names. The bar moves between them only: nothing runs beside a part."""

    def __init__(self, total: int, *, is_quiet: bool) -> None:
        self.total = total
        self.begun = 0
        self._bar = progress_bar(MofNCompleteColumn(), is_quiet=is_quiet, is_still=True)
        self._task = self._bar.add_task("", total=total)

    def begin(self, name: str) -> None:
        """The one before is over."""
        self._bar.update(self._task, description=name, completed=self.begun, refresh=True)
        self.begun += 1

    def __enter__(self) -> "Stages":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
