"""A pytest plugin that writes down every call that tests make into the decode path, and what came
of it, for player.py.

`pytest -p recorder --record FILE` with this folder on the path. In: the tests as they are: those of
the modules, the law tests beside brute force, the conformance suite, the torture list, the wire
vectors. Out: a recording. What a test asserts here holds wherever the recording plays: a call that
gives there what it gave here has passed the same test. Only calls from outside are written down,
not those that detok_py makes itself.

A test that makes very many calls is sampled by objects: the more it has made, the fewer new objects
are recorded, and each for its whole life. What cannot be written down (a function as an argument, a
test's own class) is left out, and the objects that come of it. A test is on record up to the first
call that takes or gives megabytes.
"""

import functools
import importlib
import inspect
import json
import os
import random
from types import FunctionType

import layout
import player
import pytest

# A dict has no order in MicroPython, and its JSON escapes less, so that sums over JSON differ; ids
# of runs are random.
MAY_DIFFER = ("pack", "sha256", "digest", "detok_py.protocol.events.new_run_id")
# Fields in another order, and seconds rounded in the last binary digit; what is read back is equal
# (tests/browser/test_library_captures.py).
MAY_DIFFER += ("detok_py.protocol.runs.request_digest", "detok_py.protocol.capture.write_capture")
# What these read is shared memory, not an argument.
UNTOLD = ("Answer", "given_bytes", "inbox")
# The server's half of the protocol: its parts share a log, which the recorder does not see. Its
# frames are on record as what the client takes; script_session.py runs both halves.
UNTOLD += ("ServerSession", "Runs", "Run", "Log", "Reader", "Segments", "Allowance")
# Tests that count what is asked of a vocabulary, that repeat another one over longer inputs, that
# take seconds in MicroPython, or whose input is too deep to be written down.
NOT_RECORDED = (
    "does_not_walk_through",
    "longer_texts_with_one_stop",
    "by_byte_equal_the_text_decoders[b",
    "nested_without_end",
    "very_many_states",
)
# Of tests that differ in a seed, or in combinations of settings, every n-th is enough here.
THINNED = {
    "any_schedule_of_cuts": 50,
    "a_server_with_a_small_window": 4,
    "more_stops_tags_and_artifacts": 16,
    "shows_what_is_certain[": 3,
}
# Brute force costs more than it says after this: such a test ends when so much of it is on record.
ENDED_EARLY = "test_law_decoders.py"
MOST = 200
MOST_OF_ONE = 1000
MOST_CHARACTERS = 100_000


class Recorder:
    """Writes calls while `inside` is 0: those that come from outside of detok_py."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - closed when pytest ends
        self.inside = 0
        self.classes = []
        self.begin("")

    def begin(self, test):
        self.test = test
        self.objects = player.Objects(self.classes)
        self.looks = {}
        self.calls = 0
        self.calls_of = {}
        self.random = random.Random(test)

    def write(self, number, name, arguments, keywords, outcome, look):
        line = json.dumps(
            [number, name, arguments, keywords, outcome, look],
            ensure_ascii=False,
            separators=(",", ":"),
        )
        if len(line) > MOST_CHARACTERS:
            self.test = ""
        if not self.test:
            return
        if not self.calls:
            self.file.write(json.dumps([self.test]) + "\n")
        self.calls += 1
        self.file.write(line + "\n")
        if ENDED_EARLY in self.test and self.calls == MOST:
            pytest.skip("enough is on record")

    def forget(self, owner):
        """Record nothing more of an object: it has had a call that is not on record."""
        self.objects.numbers.pop(id(owner), None)

    def known(self, value):
        """Make sure that every object in an argument has a number; a vocabulary from elsewhere gets
        one by its packed form.
        """
        for each in (
            value
            if isinstance(value, list | tuple)
            else value.values()
            if isinstance(value, dict)
            else ()
        ):
            self.known(each)
        if value.__class__ in self.classes and id(value) not in self.objects.numbers:
            if not hasattr(value, "pack"):
                raise player.Untold
            self.inside += 1
            packed = self.objects.tell(value.pack())
            self.inside -= 1
            self.objects.add(value)
            self.write(
                None,
                "detok_py.decode.vocabulary.Vocabulary.unpack",
                [packed],
                {},
                {"o": self.objects.numbers[id(value)]},
                {},
            )

    def wants(self, owner, args):
        """Decide whether a call is recorded: those of an object up to a bound, new objects ever
        more rarely.
        """
        if owner is not None:
            self.calls_of[id(owner)] = self.calls_of.get(id(owner), 0) + 1
            if self.calls_of[id(owner)] > MOST_OF_ONE:
                self.test = (
                    ""  # the objects of a test act on each other: nothing more of any of them
                )
            return bool(self.test)
        if any(each.__class__ in self.classes and not hasattr(each, "pack") for each in args):
            return True
        return self.calls * 4 < MOST or self.random.random() * self.calls * 4 < MOST

    def look(self, value):
        """Return the public plain attributes of an object that have changed since they were last
        looked at.
        """
        names = list(getattr(value, "__dict__", ()))
        for cls in value.__class__.__mro__:
            names += cls.__dict__.get("__slots__", ())
        before = self.looks.setdefault(id(value), {})
        changed = {}
        for name in names:
            if name[0] == "_" or name in MAY_DIFFER:
                continue
            shown = getattr(value, name, None)
            if (shown is None or shown.__class__ in (str, int, bool, bytes)) and (
                name not in before or before[name] != shown
            ):
                before[name] = shown
                changed[name] = self.objects.tell(shown)
        return changed

    def call(self, function, owner, name, args, kwargs, makes=False):
        """Make a call, and write it down if that can be done.

        `owner` is the object that is called, or that is made.
        """
        number = told = None
        try:
            if owner is not None and not makes:
                number = self.objects.numbers[id(owner)]
            if not self.test or not self.wants(None if makes else owner, args):
                raise player.Untold
            self.known([*args, *kwargs.values()])
            told = [
                self.objects.tell(list(args)),
                {key: self.objects.tell(kwargs[key]) for key in kwargs},
            ]
            player.begin_call(self.calls)
        except (player.Untold, KeyError, TypeError):
            self.forget(owner)
        self.inside += 1
        failure = result = None
        try:
            result = (
                function(*args, **kwargs) if owner is None else function(owner, *args, **kwargs)
            )
        except Exception as error:
            failure = player.error_told(error)
            raise
        finally:
            self.inside -= 1
            if told is not None:
                self.came(number, name, told, failure, owner if makes else result, owner)
        return result

    def came(self, number, name, told, failure, result, owner):
        """Write down a call and its outcome."""
        try:
            outcome = failure or ("?" if name in MAY_DIFFER else self.objects.tell(result))
        except (player.Untold, TypeError):
            self.forget(owner)
            return
        seen = owner if owner is not None else result
        look = (
            self.look(seen)
            if id(seen) in self.objects.numbers and seen.__class__ in self.classes
            else {}
        )
        self.write(number, name, *told, outcome, look)


def wrapped(recorder, function, name, makes=False, of_class=False):
    """Return a function that is recorded."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        if recorder.inside:
            return function(*args, **kwargs)
        if of_class:  # a class method: the class is in its name already
            return recorder.call(
                lambda *rest, **named: function(args[0], *rest, **named),
                None,
                name,
                args[1:],
                kwargs,
            )
        if makes and args[0].__class__ not in recorder.classes:
            return function(*args, **kwargs)
        if makes or "." not in name:
            return recorder.call(function, args[0], name, args[1:], kwargs, makes)
        return recorder.call(function, None, name, args, kwargs)

    return call


def read(recorder, prop, name):
    """Return a property whose reading is recorded."""

    def get(self):
        if recorder.inside or id(self) not in recorder.objects.numbers:
            return prop.fget(self)
        number = recorder.objects.numbers[id(self)]
        recorder.inside += 1
        failure = value = None
        try:
            value = prop.fget(self)
        except Exception as error:
            failure = player.error_told(error)
            raise
        finally:
            recorder.inside -= 1
            recorder.came(number, name, [None, {}], failure, value, self)
        return value

    return property(get, prop.fset)


def watch(recorder, cls):
    """Put the recorder between a class and those who call it."""
    path = cls.__module__ + "." + cls.__name__
    for name, member in list(cls.__dict__.items()):
        if name == "__init__":
            cls.__init__ = wrapped(recorder, member, path, makes=True)
        elif name == "__len__":
            cls.__len__ = wrapped(recorder, member, name)
        elif name[0] == "_":
            continue
        elif isinstance(member, FunctionType):
            setattr(cls, name, wrapped(recorder, member, name))
            if cls.__dict__.get(f"__{name}__") is member:
                setattr(cls, f"__{name}__", getattr(cls, name))  # as copy.copy calls it
        elif isinstance(member, classmethod):
            setattr(
                cls,
                name,
                classmethod(wrapped(recorder, member.__func__, path + "." + name, of_class=True)),
            )
        elif isinstance(member, property):
            setattr(cls, name, read(recorder, member, name))

    def set_attribute(self, name, value):
        object.__setattr__(self, name, value)
        if not recorder.inside and id(self) in recorder.objects.numbers:
            try:
                recorder.write(
                    recorder.objects.numbers[id(self)],
                    "=" + name,
                    [recorder.objects.tell(value)],
                    {},
                    None,
                    {},
                )
            except player.Untold:
                recorder.forget(self)

    cls.__setattr__ = set_attribute


def pytest_addoption(parser):
    parser.addoption("--record", help="the file that calls are written to")
    parser.addoption("--every", type=int, default=1, help="record every n-th test")


def pytest_configure(config):
    package = importlib.import_module("detok_py")
    recorder = config.recorder = Recorder(config.getoption("--record"))
    found = [importlib.import_module("detok_py." + name) for name in layout.modules("MicroPython")]
    members = [
        (module, name, member) for module in found for name, member in list(vars(module).items())
    ]
    own = [
        (module, name, member)
        for module, name, member in members
        if getattr(member, "__module__", "") == module.__name__
    ]
    for _, name, member in own:
        is_plain = (
            inspect.isclass(member)
            and not issubclass(member, Exception | tuple)
            and not getattr(member, "_is_protocol", False)
        )
        if is_plain and name not in UNTOLD and name[0] != "_":
            recorder.classes.append(member)
    for member in recorder.classes:
        watch(recorder, member)
    for module, name, member in own:
        if isinstance(member, FunctionType) and name[0] != "_" and name not in UNTOLD:
            between = wrapped(recorder, member, module.__name__ + "." + name)
            for holder in (module, package):
                if vars(holder).get(name) is member:
                    setattr(holder, name, between)
    os.urandom = player.same_random


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    seen = {}
    kept = []
    for item in items:
        function = item.nodeid.split("[")[0]
        seen[function] = seen.get(function, 0) + 1
        thin = any(name in item.nodeid and seen[function] % nth for name, nth in THINNED.items())
        if not thin and not any(name in item.nodeid for name in NOT_RECORDED):
            kept.append(item)
    items[:] = kept[:: config.getoption("--every")]


def pytest_runtest_setup(item):
    item.config.recorder.begin(item.nodeid)


def pytest_runtest_teardown(item):
    item.config.recorder.begin("")


def pytest_unconfigure(config):
    config.recorder.file.close()
