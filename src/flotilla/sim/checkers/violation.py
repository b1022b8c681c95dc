"""A promise that was broken."""


class Violation(Exception):  # noqa: N818 -- it is a finding, not an error of the program.
    """`promise` is a short fixed name, the text says which node broke it and how."""

    def __init__(self, promise: str, text: str) -> None:
        super().__init__(f"{promise}: {text}")
        self.promise = promise
        self.text = text
