"""The terms of a log, as runs: a log has few terms and many entries."""

from bisect import bisect_right

from flotilla.types.ids import Index, Term


class TermRuns:
    """The term of every index from the base on. The base's own term begins the first run."""

    __slots__ = ("_firsts", "_terms", "last_term")

    def __init__(self, base_index: Index, base_term: Term) -> None:
        self._firsts: list[Index] = [base_index]
        self._terms: list[Term] = [base_term]
        self.last_term = base_term

    def term(self, index: Index) -> Term:
        assert index >= self._firsts[0]
        if index >= self._firsts[-1]:
            return self.last_term
        return self._terms[bisect_right(self._firsts, index) - 1]

    def append(self, index: Index, term: Term) -> None:
        if term != self.last_term:
            assert index > self._firsts[-1]
            assert term > self.last_term, f"term {term} at {index} is older than {self.last_term} before it"
            self._firsts.append(index)
            self._terms.append(term)
            self.last_term = term

    def truncate(self, first_dropped: Index) -> None:
        assert first_dropped > self._firsts[0]
        while self._firsts[-1] >= first_dropped:
            self._firsts.pop()
            self._terms.pop()
        self.last_term = self._terms[-1]

    def move_base(self, base_index: Index) -> None:
        at = bisect_right(self._firsts, base_index) - 1
        del self._firsts[:at]
        del self._terms[:at]
        self._firsts[0] = base_index

    def copy(self) -> "TermRuns":
        twin = TermRuns(0, 0)
        twin._firsts = self._firsts[:]
        twin._terms = self._terms[:]
        twin.last_term = self.last_term
        return twin

    def runs(self) -> list[tuple[Index, Term]]:
        """The first index of each run with its term; the first pair is the base."""
        return list(zip(self._firsts, self._terms, strict=True))
