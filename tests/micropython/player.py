"""Calls that were recorded in CPython, made again in whatever Python this is: each must give what
it gave there. (recorder.py records.)

In: a file of JSON lines: `[name of a test]`, and `[object, name, arguments, keywords, outcome,
look]` for each call. Out: JSON, what was played and what came out otherwise. Runs in MicroPython,
so it keeps to what that has.

`object` is the number of the object that the call is made on; for functions and classes it is null,
and `name` is dotted. Objects are numbered as they come to light. `arguments` is null where a
computed attribute is read; `=name` sets an attribute. `outcome` is what was returned, {"!": [type,
message]} of what was raised, or "?" for what differs between Pythons and may. `look` are the
object's public attributes that have changed. `[script, lines]` is a script beside this file and
what it says.
"""

import json
import os
import sys

# What Python itself says about a wrong argument is worded by each Python as it likes; the type is
# the same.
WORDED_BY_PYTHON = (
    "TypeError",
    "AttributeError",
    "KeyError",
    "IndexError",
    "OverflowError",
    "ZeroDivisionError",
)
# Rules by regular expression need unicodedata: MicroPython refuses them, and says so.
NEEDS_PYODIDE = "a regular expression needs Pyodide"
MOST_WRONG = 4000

_random = [0]


def same_random(size):
    """Stand in for `os.urandom`: the same bytes, in the same order, in every Python."""
    _random[0] += 1
    return bytes([(_random[0] >> 8 * (i % 4) ^ 89 * i) & 255 for i in range(size)])


def begin_call(count):
    """Derive the random values of a call from the number of calls before it in its test."""
    _random[0] = 1000 * count


class Untold(Exception):
    """A value that cannot be written down."""


class Objects:
    """The objects of one test, by number."""

    def __init__(self, classes):
        self.classes = classes
        self.by_number = []
        self.numbers = {}

    def add(self, value):
        self.numbers[id(value)] = len(self.by_number)
        self.by_number.append(value)

    def tell(self, value):
        """Return a value as JSON has it; objects that are new get the next number. Raises
        Untold.
        """
        if value is None or value is True or value is False or value.__class__ in (int, float):
            return value
        if isinstance(value, str):
            return value if is_plain(value) else {"u": [ord(c) for c in value]}
        if isinstance(value, (bytes, bytearray, memoryview)):
            return {"b": "".join([f"{byte:02x}" for byte in bytes(value)])}
        if value.__class__ in (list, range):
            return [self.tell(item) for item in value]
        if isinstance(value, tuple):
            name = value.__class__.__name__
            return {"t": [self.tell(item) for item in value], "n": "" if name == "tuple" else name}
        if isinstance(value, (set, frozenset)):
            return {"s": [self.tell(item) for item in sorted(value)]}
        if isinstance(value, dict):
            pairs = [[self.tell(key), self.tell(value[key])] for key in value]
            return {"d": sorted(pairs, key=lambda pair: json.dumps(pair[0]))}
        if value.__class__ in self.classes:
            if id(value) not in self.numbers:
                self.add(value)
            return {"o": self.numbers[id(value)]}
        raise Untold(str(value.__class__))

    def value(self, told):
        """Return the value that `tell` has written."""
        if isinstance(told, list):
            return [self.value(item) for item in told]
        if not isinstance(told, dict):
            return told
        if "u" in told:
            return "".join([chr(c) for c in told["u"]])
        if "b" in told:
            return bytes.fromhex(told["b"])
        if "t" in told:
            items = [self.value(item) for item in told["t"]]
            named = (
                [cls for cls in self.classes if cls.__name__ == told["n"]] if told["n"] else None
            )
            return named[0](*items) if named else tuple(items)
        if "s" in told:
            return frozenset([self.value(item) for item in told["s"]])
        if "d" in told:
            return {self.value(pair[0]): self.value(pair[1]) for pair in told["d"]}
        return self.by_number[told["o"]]


def is_plain(text):
    """Say whether a text is free of lone surrogates, which JSON cannot carry everywhere."""
    return all(not "\ud7ff" < c < "\ue000" for c in text)


def error_told(error):
    told = [error.__class__.__name__, str(error)]
    if hasattr(error, "code"):
        told.append(error.code)
    return {"!": told}


def alike(got, want):
    """Return whether two written values are equal. Texts of JSON are compared line by line as
    values, as MicroPython's dicts have no order.
    """
    if got == want:
        return True
    if isinstance(got, str) and isinstance(want, str) and got[:1] == "{" == want[:1]:
        try:
            return _lines(got) == _lines(want)
        except ValueError:
            return False
    if isinstance(got, list) and isinstance(want, list):
        return len(got) == len(want) and all(alike(got[i], want[i]) for i in range(len(got)))
    if isinstance(got, dict) and isinstance(want, dict):
        if (
            "!" in got
            and "!" in want
            and got["!"][0] == want["!"][0]
            and got["!"][0] in WORDED_BY_PYTHON
        ):
            return True
        return sorted(got) == sorted(want) and all(alike(got[key], want[key]) for key in got)
    return False


def _lines(text):
    return [json.loads(line) for line in text.rstrip("\n").split("\n")]


def found(name):
    """Return what a dotted name names: a class or function of a module, or a method of a class."""
    parts = name.split(".")
    target = sys.modules[".".join(parts[:2])]
    for part in parts[2:]:
        target = getattr(target, part)
    return target


def do(objects, number, name, arguments, keywords):
    """Make one call; return its outcome."""
    try:
        if name[0] == "=":
            setattr(objects.by_number[number], name[1:], objects.value(arguments[0]))
            return None
        target = found(name) if number is None else getattr(objects.by_number[number], name)
        if arguments is None:  # an attribute that is computed
            return objects.tell(target)
        positional = [objects.value(each) for each in arguments]
        named = {key: objects.value(keywords[key]) for key in keywords}
        return objects.tell(target(*positional, **named))
    except Untold:
        raise
    except Exception as error:
        return error_told(error)


def script_lines(name):
    """Return what a script beside this file says."""
    import say

    del say.SAID[:]
    __import__(name)
    return list(say.SAID)


def first_difference(name, lines, want):
    """Return [[name, line, what came out]] for the first line of a script that differs, or []."""
    for n in range(max(len(lines), len(want))):
        got = lines[n] if n < len(lines) else "nothing"
        expected = want[n] if n < len(want) else "nothing"
        if n >= len(want) or not alike(got, expected):
            return [[name, "line " + str(n) + ": " + str(expected), str(got)]]
    return []


def play(path, modules):
    """Play a recording; return {"calls", "tests", "scripts", "wrong": [[test, call, what came out],
    …]} as JSON.
    """
    for module in modules.split(" "):
        __import__("detok_py." + module)
    classes = []
    for module in modules.split(" "):
        names = sys.modules["detok_py." + module].__dict__
        classes += [names[name] for name in names if isinstance(names[name], type)]
    counts = {"calls": 0, "left out": 0, "tests": 0, "scripts": 0}
    wrong = []
    test = ""
    calls = 0
    objects = Objects(classes)
    os.urandom = same_random
    file = open(path, encoding="utf-8")  # noqa: SIM115 - MicroPython's files are closed below; a `with` would indent all that follows
    for line in file:
        entry = json.loads(line)
        if len(entry) == 1:
            test = entry[0]
            counts["tests"] += 1
            objects = Objects(classes)
            calls = 0
            continue
        if len(entry) == 2:
            name, want = entry
            counts["scripts"] += 1
            wrong += first_difference(name, script_lines(name), want)
            continue
        if objects is None:
            continue
        number, name, arguments, keywords, want, look = entry
        counts["calls"] += 1
        begin_call(calls)
        calls += 1
        outcome = do(objects, number, name, arguments, keywords)
        if want != "?" and not alike(outcome, want):
            if isinstance(outcome, dict) and NEEDS_PYODIDE in str(outcome.get("!")):
                counts["left out"] += 1
                objects = None
                continue
            wrong.append([test, line, json.dumps(outcome)])
            objects = None  # later calls of the same test would only repeat the difference
            continue
        for key in look:
            shown = objects.tell(
                getattr(objects.by_number[outcome["o"] if number is None else number], key)
            )
            if not alike(shown, look[key]):
                wrong.append([test, line, key + " is " + json.dumps(shown)])
        if len(wrong) >= MOST_WRONG:
            break
    file.close()
    counts["wrong"] = wrong
    return json.dumps(counts)
