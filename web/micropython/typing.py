"""The names of `typing` that the decode path imports, for MicroPython: they only have to exist and
to be subscripted.
"""

from collections import namedtuple

TYPE_CHECKING = False


class _Form:
    """Any type: `Callable[[int], str]`, `TypeVar("T")` and `A | B` give the same object again."""

    def __getitem__(self, parameters):
        return self

    def __call__(self, *args, **options):
        return self

    def __or__(self, other):
        return self

    def __ror__(self, other):
        return self


Any = Callable = ClassVar = Dict = Final = Generator = Iterable = Iterator = List = Literal = (
    Mapping
) = _Form()
NoReturn = Optional = Self = Sequence = Set = Tuple = Type = TypeAlias = TypeVar = Union = Any


class _Base:
    """A base class without anything: what `Generic[T]` gives."""


class _Generic:
    """A class can only have a class as its base, and a class can't be subscripted."""

    def __getitem__(self, parameters):
        return _Base


Generic = _Generic()


class Protocol:
    """A base class without anything."""


def NamedTuple(name, fields):
    """The functional form: `NamedTuple("Point", [("x", int), ("y", int)])`."""
    return namedtuple(name, [field for field, _ in fields])


def cast(kind, value):
    """Return `value`."""
    return value


def overload(function):
    """Return `function`; the last definition, the real one, is what remains."""
    return function


final = overload
