"""A Redis in memory: the commands that the store uses, its scripts as Lua runs them, and faults.

In: commands as bytes of RESP. Out: replies as bytes of RESP 3. test_simulated_redis.py runs the
same commands here and in a real Redis. Its clock is that of the machine, which can jump.
"""

import copy
import functools
import hashlib
import math

import lupa.lua51

GROWING = (b"HSET", b"HINCRBY", b"SET", b"XADD")
WRITING = (*GROWING, b"DEL", b"HDEL", b"EXPIRE", b"PEXPIRE", b"XTRIM")


class Refused(Exception):
    """An error that Redis replies with."""


class Stream:
    def __init__(self):
        self.entries = []  # ((milliseconds, number), [field, value, …])
        self.last = (0, 0)


@functools.cache
def compiled(text):
    """Return a script as a function of (redis, KEYS, ARGV), and the Lua that it runs in."""
    lua = _lua()
    return lua.execute(b"return function(redis, KEYS, ARGV)\n" + text + b"\nend")


@functools.cache
def _lua():
    return lupa.lua51.LuaRuntime(encoding=None, unpack_returned_tuples=False)


@functools.cache
def _library():
    """Return the `redis` of scripts, which calls the data that runs one: Lua frees late."""

    def call(*words):
        return to_lua(_running[-1].run([argument(word) for word in words]))

    return _lua().table_from({b"call": call})


_running = []


def id_of(word, number=0):
    """Return (milliseconds, number) of an id of a stream."""
    first, dash, second = word.partition(b"-")
    return int(first), int(second) if dash else number


def word_of(key):
    return b"%d-%d" % key


def from_lua(value):
    """Return a value as Redis replies it."""
    if isinstance(value, bool):
        return 1 if value else None
    if isinstance(value, float):
        return int(value)
    if lupa.lua51.lua_type(value) == "table":
        out = []
        while (item := value[len(out) + 1]) is not None:
            out.append(from_lua(item))
        return out
    return value


def to_lua(value):
    if isinstance(value, list):
        return _lua().table_from([to_lua(item) for item in value])
    return False if value is None else value


def argument(value):
    """Return an argument of `redis.call` as bytes."""
    if isinstance(value, float):
        return b"%d" % value if value == int(value) else b"%.17g" % value
    return value if isinstance(value, bytes) else b"%d" % value


class Data:
    """The keys of a Redis. `clock` returns the seconds of its machine, `up_since` is of it."""

    def __init__(self, clock):
        self.clock = clock
        self.up_since = clock()
        self.values = {}
        self.until = {}  # milliseconds
        self.scripts = {}
        self.is_full = False
        self.added = 0  # entries, to all streams
        self._has_written = False  # in a script

    @property
    def now(self):
        return int(self.clock() * 1000)

    def saved(self):
        """Return a copy of all keys."""
        return copy.deepcopy((self.values, self.until))

    def purge(self):
        """Drop the keys whose time is over; return those that are left."""
        for key in [key for key, until in self.until.items() if until <= self.now]:
            self.drop(key)
        return list(self.values)

    def drop(self, key):
        self.until.pop(key, None)
        return self.values.pop(key, None) is not None

    def get(self, key, kind=None):
        if self.until.get(key, math.inf) <= self.now:
            self.drop(key)
        value = self.values.get(key)
        if value is None and kind is not None:
            value = self.values[key] = kind()
        return value

    def run(self, words):
        """Run a command; return its reply. Raises Refused."""
        name = words[0].upper()
        command = getattr(self, f"do_{name.decode().lower()}", None)
        if command is None:
            raise Refused(f"ERR unknown command '{name.decode()}'")
        if name in GROWING and not self._has_written and self.is_full:
            raise Refused("OOM command not allowed when used memory > 'maxmemory'.")
        if name in WRITING:
            self._has_written = bool(_running)
        return command(*words[1:])

    def do_hello(self, *words):
        return {b"server": b"redis", b"version": b"7.0.0", b"proto": 3}

    def do_client(self, word, *words):
        if word.upper() != b"SETINFO":
            raise Refused("ERR unknown subcommand")
        return b"OK"

    def do_config(self, word, name, *value):
        if word == b"SET":
            self.is_full = value != (b"0",)
            return b"OK"
        return {b"maxmemory-policy": b"noeviction"}

    def do_info(self, *words):
        return b"# Server\r\nuptime_in_seconds:%d\r\n" % (self.clock() - self.up_since)

    def do_script(self, word, text):
        sha = hashlib.sha1(text).hexdigest().encode()
        self.scripts[sha] = compiled(text)
        return sha

    def do_evalsha(self, sha, count, *words):
        script = self.scripts.get(sha)
        if script is None:
            raise Refused("NOSCRIPT No matching script. Please use EVAL.")
        lua, keys = _lua(), int(count)
        table = lua.table_from
        _running.append(self)
        try:
            self._has_written = False
            return from_lua(script(_library(), table(words[:keys]), table(words[keys:])))
        finally:
            _running.pop()
            self._has_written = False

    def do_del(self, *keys):
        return sum([self.get(key) is not None and self.drop(key) for key in keys])

    def do_exists(self, key):
        return int(self.get(key) is not None)

    def do_set(self, key, value, *words):
        self.drop(key)
        self.values[key] = value
        if words:
            self.do_pexpire(key, words[1])
        return b"OK"

    def do_pexpire(self, key, milliseconds):
        if self.get(key) is None:
            return 0
        self.until[key] = self.now + int(milliseconds)
        return 1

    def do_expire(self, key, seconds):
        return self.do_pexpire(key, int(seconds) * 1000)

    def do_ttl(self, key):
        if self.get(key) is None:
            return -2
        until = self.until.get(key)
        return -1 if until is None else (until - self.now + 500) // 1000

    def do_hget(self, key, field):
        return (self.get(key) or {}).get(field)

    def do_hmget(self, key, *fields):
        value = self.get(key) or {}
        return [value.get(field) for field in fields]

    def do_hset(self, key, *words):
        value = self.get(key, dict)
        before = len(value)
        value.update(zip(words[::2], words[1::2]))
        return len(value) - before

    def do_hdel(self, key, *fields):
        value = self.get(key) or {}
        found = [field for field in fields if value.pop(field, None) is not None]
        if found and not value:
            self.drop(key)
        return len(found)

    def do_hincrby(self, key, field, by):
        value = self.get(key, dict)
        value[field] = b"%d" % (int(value.get(field, b"0")) + int(by))
        return int(value[field])

    def do_xadd(self, key, *words):
        most = None
        if words[0].upper() == b"MAXLEN":
            most, words = int(words[2 if words[1] == b"~" else 1]), words[words[1] == b"~" :][2:]
        last = stream.last if (stream := self.get(key)) else (0, 0)
        if words[0] == b"*":
            at = (self.now, 0) if self.now > last[0] else (last[0], last[1] + 1)
        else:
            at = id_of(words[0])
            if at <= last:
                raise Refused("ERR The ID specified in XADD is equal or smaller than the target")
        stream = self.get(key, Stream)
        stream.entries.append((at, list(words[1:])))
        stream.last = at
        self.added += 1
        if most is not None and len(stream.entries) > most + 100:  # "~": whole blocks only
            del stream.entries[:-most]
        return word_of(at)

    def do_xtrim(self, key, word, least):
        stream = self.get(key)
        if stream is None:
            return 0
        before = len(stream.entries)
        stream.entries = [entry for entry in stream.entries if entry[0] >= id_of(least)]
        return before - len(stream.entries)

    def do_xrange(self, key, first, last):
        stream = self.get(key)
        after = first.startswith(b"(")
        least = id_of(first.lstrip(b"("))
        return [
            [word_of(at), fields]
            for at, fields in (stream.entries if stream else [])
            if (at > least if after else at >= least)
        ]

    def do_xread(self, *words):
        """Return what streams have now, or None."""
        words = words[[word.upper() for word in words].index(b"STREAMS") + 1 :]
        half = len(words) // 2
        out = {}
        for key, after in zip(words[:half], words[half:]):
            if entries := self.do_xrange(key, b"(" + after, b"+"):
                out[key] = entries
        return out or None


def packed(value):
    """Return a reply as bytes of RESP 3."""
    if value is None:
        return b"_\r\n"
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, bytes):
        return b"$%d\r\n%b\r\n" % (len(value), value)
    if isinstance(value, Refused):
        return b"-%b\r\n" % str(value).encode()
    if isinstance(value, dict):
        items = [packed(part) for pair in value.items() for part in pair]
        return b"%%%d\r\n%b" % (len(value), b"".join(items))
    return b"*%d\r\n%b" % (len(value), b"".join([packed(part) for part in value]))


class Session:
    """One connection of a client to the simulated server."""

    def __init__(self, server, connection):
        self._server = server
        self._connection = connection
        self._data = b""
        self._waiting = []
        self._blocked = None  # the words of an XREAD that waits, and its timer

    def receive(self, data):
        self._data += data
        while (words := self._next()) is not None:
            self._waiting.append(words)
        self.work()

    def _next(self):
        """Return the next whole command."""
        data = self._data
        end = data.find(b"\r\n")
        if end < 0:
            return None
        words, at = [], end + 2
        for _ in range(int(data[1:end])):
            end = data.find(b"\r\n", at)
            if end < 0:
                return None
            size = int(data[at + 1 : end])
            at = end + 2 + size + 2
            if at > len(data):
                return None
            words.append(data[end + 2 : at - 2])
        self._data = data[at:]
        return words

    def work(self):
        """Run the commands that have come, unless one of them waits."""
        while self._waiting and self._blocked is None:
            words = self._waiting.pop(0)
            try:
                reply = self._server.data.run(words)
            except Refused as error:
                reply = error
            if reply is None and words[0] == b"XREAD" and b"BLOCK" in words:
                seconds = int(words[words.index(b"BLOCK") + 1]) / 1000
                loop = self._server.loop
                timer = loop.call_later(seconds, self._time_over, context=self._server.context)
                self._blocked = words, timer
            else:
                self._connection.send(1, packed(reply))
        self._server.look()

    def _time_over(self):
        self._blocked = None
        self._connection.send(1, packed(None))
        self.work()

    def look(self):
        """Answer an XREAD that waits, if there is something now."""
        if self._blocked is not None:
            words, timer = self._blocked
            if (reply := self._server.data.run(words)) is not None:
                timer.cancel()
                self._blocked = None
                self._connection.send(1, packed(reply))
                self.work()

    def lost(self, reset):
        if self._blocked is not None:
            self._blocked[1].cancel()
        self._server.sessions.pop(self, None)


class Server:
    """Sessions of one life of a Redis."""

    def __init__(self, machine, data):
        self.loop = machine.loop
        self.context = machine.context
        self.data = data
        self.sessions = {}
        self._looked_at = 0

    def accept(self, connection):
        session = Session(self, connection)
        self.sessions[session] = None
        return session

    def look(self):
        """Answer the reads that wait, if something was added."""
        if self._looked_at != self.data.added:
            self._looked_at = self.data.added
            for session in list(self.sessions):
                session.look()
