"""The end of a simulated process, raised in the middle of whatever it was doing."""


class SimulatedCrash(BaseException):
    """The process dies here. Not an Exception, so that no handler of the product can swallow it."""

    def __init__(self, point: str) -> None:
        super().__init__(point)
        self.point = point
