"""Read the times that logs, servers and tools write beside events.

In: the text before an event on its line, or the value of an event. Out: seconds since some moment,
or None. Only differences have a meaning, so time zones are ignored.
"""

from typing import Any

DAY = 86400.0
DIGITS = "0123456789"
KEYS = ("created_at", "ts", "timestamp", "time")  # of times in events


def seconds_in(text: str) -> "float | None":
    """Return the first time in a text: RFC 3339, a clock (`12:00:01.5`, `1:05PM`, llama-server's
    `0.21.071.334`), or seconds since 1970 with a fraction. None if there is none.

    >>> seconds_in("web-1  | 2026-11-23T12:00:01.25Z stdout F "), seconds_in("12:00:01,250 INFO")
    (1795435201.25, 43201.25)
    >>> seconds_in("1795435201.25 "), seconds_in("srv:8080 1/2")
    (1795435201.25, None)
    >>> seconds_in("0.21.071.334 D srv"), seconds_in("12:52PM DBG")
    (21.071334, 46320.0)
    """
    at = text.find(":")
    while at >= 0:
        clock = _clock(text, at)
        if clock is not None:
            return clock + _days(text[: at - 2]) * DAY
        at = text.find(":", at + 1)
    words = text.split()
    for word in words:
        at = word.find(":")
        hours, minutes = word[:at], word[at + 1 : at + 3]
        if word[at + 3 :] in ("AM", "PM") and len(minutes) == 2 and 0 < len(hours) < 3:
            if _is_number(hours + minutes):
                half = 12 if word[at + 3 :] == "PM" else 0
                return (int(hours) % 12 + half) * 3600.0 + int(minutes) * 60
    parts = (words or [""])[0].split(".")
    if [len(part) for part in parts[1:]] == [2, 3, 3] and _is_number("".join(parts)) and parts[0]:
        return float(int(parts[0]) * 60 + int(parts[1])) + int(parts[2] + parts[3]) / 1e6
    for word in text.replace("[", " ").replace("]", " ").split():
        whole, dot, part = word.partition(".")
        if dot and len(whole) == 10 and part and _is_number(whole + part):
            return float(word)
    return None


def seconds_of(value: Any) -> "float | None":
    """Return a time that is a number: milliseconds, as of JavaScript's Date.now(), or seconds with
    a fraction, as of Python's time.time(); None for others.

    >>> seconds_of(1753600000123), seconds_of(1753600000.25), seconds_of(1753600000), seconds_of(7)
    (1753600000.123, 1753600000.25, None, None)
    """
    if type(value) not in (int, float):
        return None
    if value > 1e11:
        return float(value / 1e3)
    return value if isinstance(value, float) and value > 1e9 else None


def time_of_line(value: Any, keys: tuple[str, ...]) -> "float | None":
    """Return the time at the first of some keys in a log's line, which is an object; None if it has
    none.

    >>> time_of_line({"ts": "12:00:01.5"}, ("time", "ts")), time_of_line({"t": 1}, ("time", "t"))
    (43201.5, None)
    """
    time = next((value[key] for key in keys if key in value), None)
    return seconds_in(time) if isinstance(time, str) else seconds_of(time)


def stamp_of(event: Any, key: str) -> "float | None":
    """Return the time in an event (Ollama's `created_at`, a record's `ts`); None if it has none, or
    one in whole seconds, as most servers send.

    >>> stamp_of({"ts": 1777913291047}, "ts"), stamp_of({"created_at": 1777913291}, "created_at")
    (1777913291.047, None)
    """
    stamp = event.get(key) if isinstance(event, dict) else None
    if isinstance(stamp, str):
        return seconds_in(stamp) if "." in stamp else None
    if type(stamp) is int and len(str(stamp)) in (13, 16, 19):
        return stamp / float("1e" + str(len(str(stamp)) - 10))
    return seconds_of(stamp) if isinstance(stamp, float) else None


def since_first(stamps: "list[float | None]") -> "list[float] | None":
    """Return the seconds since the first stamp, never less than those before it; None if a stamp is
    missing, or if all are the same. A clock may pass midnight.

    >>> since_first([86399.5, 0.25, 0.0]), since_first([1.0, None]), since_first([1.0, 1.0])
    ([0.0, 0.75, 0.75], None, None)
    """
    out: list[float] = []
    before = begun = 0.0
    for stamp in stamps:
        if stamp is None:
            return None
        if not out:
            before = begun = stamp
        if stamp < before - DAY / 2 and before <= DAY:
            begun -= DAY  # a clock without a date
        before = stamp
        seconds = round(stamp - begun, 6)
        out.append(max(seconds, out[-1] if out else 0.0))
    return out if out and out[-1] > 0 else None


def steps_of(stamps: "list[float | None]") -> float:
    """Return the steps in which a clock counts that is too coarse for tokens: 60.0 for minutes, 1.0
    for whole seconds, or 0.1; 0.0 for a finer one.

    >>> steps_of([80472.0, 80473.0]), steps_of([0.3, 1764000000.5]), steps_of([0.31, 1.0])
    (1.0, 0.1, 0.0)
    >>> steps_of([46320.0, 46380.0])
    60.0
    """
    if stamps and all(stamp is not None and stamp % 60 == 0 for stamp in stamps):
        return 60.0
    for per_second in (1, 10):
        ticks = [per_second * (stamp or 0.0) for stamp in stamps]
        if all(abs(tick - round(tick)) < 1e-4 for tick in ticks):
            return 1 / per_second
    return 0.0


def _clock(text: str, at: int) -> "float | None":
    """Return the seconds since midnight of `hh:mm:ss.fff` with its first colon at a place."""
    if text[at + 3 : at + 4] != ":" or text[at - 3 : at - 2] in tuple(DIGITS):
        return None
    parts = (text[max(0, at - 2) : at], text[at + 1 : at + 3], text[at + 4 : at + 6])
    if not all(len(part) == 2 and _is_number(part) for part in parts):
        return None
    fraction = ""
    if text[at + 6 : at + 7] in (".", ","):
        end = at + 7
        while text[end : end + 1] and text[end] in DIGITS:
            end += 1
        fraction = text[at + 7 : end]
    hours, minutes, seconds = (int(part) for part in parts)
    return hours * 3600 + minutes * 60 + seconds + float("0." + (fraction or "0"))


def _days(before: str) -> int:
    """Return the days from 1970 to the date `yyyy-mm-dd` that ends a text; 0 if it has none."""
    date = before[-11:-1] if before[-1:] in ("T", "t", " ") else ""
    year, month, day = date[:4], date[5:7], date[8:10]
    if date[4:5] not in ("-", "/") or not _is_number(year + month + day) or len(day) < 2:
        return 0
    # Days from civil, Howard Hinnant: the year begins in March.
    years, months = int(year), int(month)
    years -= months <= 2
    months = (months + 9) % 12
    leap_days = years // 4 - years // 100 + years // 400
    return 365 * years + leap_days + (153 * months + 2) // 5 + int(day) - 719469


def _is_number(text: str) -> bool:
    return all(letter in DIGITS for letter in text)
