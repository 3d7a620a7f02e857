"""Text that is UTF-8 read one byte at a time in another encoding: `naÃ¯ve cafÃ©`, `na├»ve caf├⌐`.

In: a text. Out: where it was misread, as what, and the right text. A run is misread if its
characters, encoded back, are UTF-8. That also holds by chance: French `voilà »`, a corner of a
table. So a text counts as misread only if it has more such runs than chance explains. A line with
other letters beyond ASCII never counts.
"""

import re
from typing import Any, Iterator, NamedTuple

# Where a run begins and ends in the text, what it was before, and what it was read as.
Misread = NamedTuple(
    "Misread", [("begin", int), ("end", int), ("right", str), ("encoding", str), ("weight", int)]
)

LATIN = "Latin-1 or Windows-1252"
CONSOLE = "code page 437 or 850"
CYRILLIC = "Windows-1251"
MAC = "Mac Roman"
DOS = "code page 866"
ARABIC = "Windows-1256"
GREEK, GREEK_CONSOLE = "Windows-1253", "code page 737"
CENTRAL, CENTRAL_CONSOLE = "Windows-1250", "code page 852"
CAUSES = {
    LATIN: "UTF-8 was read as Latin-1 or Windows-1252, as programs do that do not know the charset",
    CONSOLE: "UTF-8 was read as a console's code page (437 or 850)",
    CYRILLIC: "UTF-8 was read as Windows-1251, as Cyrillic Windows does with programs of its own",
    DOS: "UTF-8 was read as code page 866, as consoles of Russian Windows do",
    ARABIC: "UTF-8 was read as Windows-1256, as Arabic Windows does with programs of its own",
    GREEK: "UTF-8 was read as Windows-1253, as Greek Windows does with programs of its own",
    GREEK_CONSOLE: "UTF-8 was read as code page 737, as consoles of Greek Windows do",
    CENTRAL: "UTF-8 was read as Windows-1250, as Central European Windows does with programs of its own",
    CENTRAL_CONSOLE: "UTF-8 was read as code page 852, as consoles of Central European Windows do",
    MAC: "UTF-8 was read as Mac Roman, as old programs of macOS do",
}
# What is said of lines that were joined in such a text.
TORN = (
    " If a client tore them where it took the byte 85 for an end of line (U+0085 in Latin-1), that "
    "byte is lost, and its character is not counted among the misread."
)

LOST = "\ufffd"
QUOTES = "`'\"“”‘’«»()[]"
# Words of a text on broken characters, in lower case.
WORDS_FOR_LOST = (
    "fffd", "mojibake", "文字化け", "乱码", "亂碼", "кракозябр", "zeichensalat", "replacement char",
    "置換文字", "替换字符", "替換字元", "ersatzzeichen", "caractère de remplacement",
    "carácter de reemplazo", "символ замены", "shift_jis", "shift-jis", "utf-8", "encoding",
    "decod", "エンコード", "文字コード", "编码", "編碼", "인코딩", "кодировк", "kodierung",
)  # fmt: skip
QUOTED_LOST = tuple([one[:1] + LOST + one[1:] for one in ("「」", "『』", "“”", '""', "``", "«»")])

# The characters of the bytes from 0x80 on.
CP1252 = "€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ" + "".join(
    [chr(n) for n in range(160, 256)]
)
CP437 = (
    "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒ"
    "áíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
    "└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
    "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0"
)
CP850 = (
    "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒ"
    "áíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐"
    "└┴┬├─┼ãÃ╚╔╩╦╠═╬¤ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀"
    "ÓßÔÒõÕµþÞÚÛÙýÝ¯´\xad±‗¾¶§÷¸°¨·¹³²■\xa0"
)
CP1251 = ("ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—\x98™љ›њќћџ\xa0ЎўЈ¤Ґ¦§Ё©Є«¬\xad®Ї°±Ііґµ¶·ё№є»јЅѕї") + "".join(
    [chr(n) for n in range(0x410, 0x450)]
)
CP866 = (
    "АБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ"
    "абвгдежзийклмноп░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
    "└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
    "рстуфхцчшщъыьэюяЁёЄєЇїЎў°∙·√№¤■\xa0"
)
CP1256 = (
    "€پ‚ƒ„…†‡ˆ‰ٹ‹Œچژڈگ‘’“”•–—ک™ڑ›œ\u200c\u200dں"
    "\xa0،¢£¤¥¦§¨©ھ«¬\xad®¯°±²³´µ¶·¸¹؛»¼½¾؟"
    "ہءآأؤإئابةتثجحخدذرزسشصض×طظعغـفقك"
    "àلâمنهوçèéêëىيîïًٌٍَôُِ÷ّùْûü\u200e\u200fے"
)
MACROMAN = (
    "ÄÅÇÉÑÖÜáàâäãåçéèêëíìîïñóòôöõúùûü"
    "†°¢£§•¶ß®©™´¨≠ÆØ∞±≤≥¥µ∂∑∏π∫ªºΩæø"
    "¿¡¬√ƒ≈∆«»…\xa0ÀÃÕŒœ–—“”‘’÷◊ÿŸ⁄€‹›ﬁﬂ"
    "‡·‚„‰ÂÊÁËÈÍÎÏÌÓÔ\uf8ffÒÚÛÙıˆ˜¯˘˙˚¸˝˛ˇ"
)

CP737 = (
    "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩαβγδεζηθ"
    "ικλμνξοπρσςτυφχψ░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
    "└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
    "ωάέήϊίόύϋώΆΈΉΊΌΎΏ±≥≤ΪΫ÷≈°∙·√ⁿ²■\xa0"
)
CP852 = (
    "ÇüéâäůćçłëŐőîŹÄĆÉĹĺôöĽľŚśÖÜŤťŁ×č"
    "áíóúĄąŽžĘę¬źČş«»░▒▓│┤ÁÂĚŞ╣║╗╝Żż┐"
    "└┴┬├─┼Ăă╚╔╩╦╠═╬¤đĐĎËďŇÍÎě┘┌█▄ŢŮ▀"
    "ÓßÔŃńňŠšŔÚŕŰýÝţ´\xad˝˛ˇ˘§÷¸°¨˙űŘř■\xa0"
)
CP1250 = (
    "€\x81‚\x83„…†‡\x88‰Š‹ŚŤŽŹ\x90‘’“”•–—\x98™š›śťžź"
    "\xa0ˇ˘Ł¤Ą¦§¨©Ş«¬\xad®Ż°±˛ł´µ¶·¸ąş»Ľ˝ľż"
    "ŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢß"
    "ŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙"
)
CP1253 = (
    "€\x81‚ƒ„…†‡\x88‰\x8a‹\x8c\x8d\x8e\x8f\x90‘’“”•–—\x98™\x9a›\x9c\x9d\x9e\x9f"
    "\xa0΅Ά£¤¥¦§¨©ª«¬\xad®―°±²³΄µ¶·ΈΉΊ»Ό½ΎΏ"
    "ΐΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡÒΣΤΥΦΧΨΩΪΫάέήί"
    "ΰαβγδεζηθικλμνξοπρςστυφχψωϊϋόύώÿ"
)


def _table(*upper: str) -> dict[str, int]:
    """Return the byte of each character, from the first text that has the character."""
    out: dict[str, int] = {}
    for text in upper:
        for n in range(128):
            if text[n] not in out:
                out[text[n]] = 128 + n
    return out


def _group(letters: list[str]) -> bytes:
    """Return a pattern of letters beyond ASCII, and of few others, in UTF-8."""
    seconds: dict[int, list[int]] = {}
    for letter in letters:
        first, second, *_ = letter.encode()
        seconds.setdefault(first, []).append(second)
    parts = []
    for first in sorted(seconds):
        ranges = b""
        for byte in sorted(set(seconds[first])):
            begins = byte - 1 not in seconds[first]
            if begins or byte + 1 not in seconds[first]:
                ranges += bytes([byte]) if begins else bytes([45, byte])
        parts.append(bytes([first]) + b"[" + ranges + b"]")
        if first >= 0xE0:
            parts[-1] += b"[\x80-\xbf]"
    return b"(?:" + b"|".join(parts) + b")"


def _with_leads(
    *upper: str, own: tuple[int, ...] = ()
) -> "tuple[dict[str, int], list[str], list[Any]]":
    """Return a table, the characters that can begin a sequence of several bytes, and patterns that
    find where one may begin, of two bytes and of more, each with the characters that begin these.
    MicroPython has no longer patterns. `own` are the first bytes of a language's letters in UTF-8,
    where those of others are its letters.
    """
    table = _table(*upper)
    if own:
        table = {c: byte for c, byte in table.items() if byte < 0xC0 or byte in own}
    leads = [letter for letter, byte in table.items() if 0xC2 <= byte <= 0xF4]
    two = [letter for letter in leads if table[letter] < 0xE0]
    more = [letter for letter in leads if table[letter] >= 0xE0]
    other = _group([letter for letter, byte in table.items() if byte < 0xC0] + [LOST])
    suspects = [(set(two), re.compile(_group(two) + other))]
    if more:
        suspects.append((set(more), re.compile(_group(more) + other + other)))
    return table, leads, suspects


TABLES = (
    (LATIN, (_with_leads(CP1252, "".join([chr(n) for n in range(128, 256)])),)),
    (CONSOLE, (_with_leads(CP437), _with_leads(CP850))),
    (CYRILLIC, (_with_leads(CP1251),)),
    (MAC, (_with_leads(MACROMAN),)),
    (DOS, (_with_leads(CP866, own=(0xC2, 0xD0, 0xD1, 0xE2, 0xF0)),)),
    (ARABIC, (_with_leads(CP1256, own=(0xD8, 0xD9, 0xDA, 0xDB, 0xE2)),)),
    (GREEK, (_with_leads(CP1253, own=(0xC2, 0xC3, 0xCE, 0xCF, 0xE2)),)),
    (GREEK_CONSOLE, (_with_leads(CP737, own=(0xC2, 0xC3, 0xCE, 0xCF, 0xE2)),)),
    (CENTRAL, (_with_leads(CP1250, own=(0xC2, 0xC3, 0xC4, 0xC5, 0xD0, 0xD1, 0xE2, 0xF0)),)),
    (CENTRAL_CONSOLE, (_with_leads(CP852, own=(0xC2, 0xC3, 0xC4, 0xC5, 0xE2)),)),
)
INSIDE_WORDS = "тέ"  # of code pages 866 and 737
LEADS = {lead for _, tables in TABLES for _, leads, _ in tables for lead in leads}
PART = 256  # bytes
HALVES = rb"\xed[\xa0-\xbf][\x80-\xbf]"  # of surrogate pairs


def find_misread(text: str) -> list[Misread]:
    """Return the misread runs of a text in order; [] if chance can explain them.

    >>> [run[:3] for run in find_misread("Ein naÃ¯ves cafÃ©")]
    [(6, 8, 'ï'), (15, 17, 'é')]
    >>> find_misread("« là » et « voilà »"), find_misread("`Ã©` is an é that was misread")
    ([], [])
    """
    # In MicroPython, a look at each line of a long text takes a second.
    if not _is_likely(text):
        return []
    out: list[Misread] = []
    sure = begin = 0
    for line in text.split("\n"):
        found = misread_runs(line)
        weight = sum([run.weight for run in found])
        if weight and 3 * weight > 4 * _others(line, found):
            sure += weight
            for run in found:
                first, last, right, encoding, its = run
                out.append(Misread(first + begin, last + begin, right, encoding, its))
        begin += len(line) + 1
    return out if sure > 1 else []


def _is_likely(text: str) -> bool:
    """Return whether a text has what begins a misread run."""
    found = letters_in(text.encode("utf-8", "surrogatepass"), LEADS)
    likely = [
        pattern
        for _, tables in TABLES
        for _, _, suspects in tables
        for leads, pattern in suspects
        if leads & found
    ]
    parts = _parts(text) if likely else ()
    return any(pattern.search(part) for _, part in parts for pattern in likely)


def letters_in(data: bytes, letters: "set[str] | str") -> set[str]:
    """Return which of some letters UTF-8 has.

    >>> sorted(letters_in("Größe".encode(), "Ãöß"))
    ['ß', 'ö']
    """
    coded = [(letter, letter.encode()) for letter in letters]
    firsts = {code[:1] for _, code in coded}
    firsts = {first for first in firsts if first in data}
    return {letter for letter, code in coded if code[:1] in firsts and code in data}


LEFT = "ÃÂâ"


def right_letters(text: str, runs: list[Misread]) -> int:
    """Return how many letters beyond ASCII a text has between its misread runs that a misreading of
    the whole text would not have left, as it leaves a part of à and of a space that is no byte.

    >>> text = "Für die Größe: `GrÃ¶ÃŸe`, voilÃ "
    >>> right_letters(text, misread_runs(text))
    3
    """
    count = begin = 0
    for end, after in [(run.begin, run.end) for run in runs] + [(len(text), 0)]:
        part = " " + text[begin:end]
        for at in range(1, len(part)):
            count += part[at] >= "À" and part[at] not in LEFT and part[at - 1] not in LEFT
        begin = after
    return count


def is_about_lost(text: str) -> bool:
    """Return whether a text may have a U+FFFD because it is about broken characters: it names what
    has to do with them, or quotes one alone.

    >>> [is_about_lost(text) for text in ("You see “\ufffd”.", "Mojibake!", "“\ufffd\ufffd”")]
    [True, True, False]
    """
    lower = text.lower()
    return any(mark in lower for mark in WORDS_FOR_LOST + QUOTED_LOST)


def misread_runs(line: str, only: str = "") -> list[Misread]:
    """Return all runs of a line that are UTF-8 when encoded back, whatever else the line has; with
    `only`, in this encoding.

    >>> [(run.right, run.weight) for run in misread_runs("caf├⌐ ╔═╗")]
    [('é', 1), ('ͻ', 0)]
    """
    best: list[Misread] = []
    most = (0, 0)
    parts = list(_parts(line))
    for encoding, tables in TABLES:
        if only and encoding != only:
            continue
        for table, leads, suspects in tables:
            found = []
            for begin, part in parts:
                # In MicroPython, a loop over all letters takes seconds.
                if any(suspect.search(part) for _, suspect in suspects):
                    text = part.decode()
                    runs = _runs(list(text), _places(text, leads), table, encoding)
                    found += [Misread(run.begin + begin, run.end + begin, *run[2:]) for run in runs]
            size = sum([run.end - run.begin for run in found])
            how = (sum([run.weight for run in found]), size)
            if how > most:
                best, most = found, how
    return best


def _parts(line: str) -> Iterator[tuple[int, bytes]]:
    """Yield parts of a line that have characters beyond ASCII: where they begin, and their UTF-8.

    No run goes from a part into the next one. A part has the character before it and after it.
    """
    data = line.encode("utf-8", "surrogatepass")
    if b"\xed" in data:
        data = re.sub(HALVES, b"\xee\x80\x80", data)  # as other letters that are in no table
    at = begin = 0
    while at < len(data):
        end = at + PART
        # Of the characters of three bytes, those from U+3000 to U+EFFF are in no table.
        while end < len(data) and data[end] >= 0x80 and not 0xE3 <= data[end] < 0xEE:
            end += 1
        size = len(data[at:end].decode())
        if size < len(data[at:end]):
            yield begin, data[at : end + (3 if data[end : end + 1] > b"\x7f" else 1)]
        at, begin = end, begin + size


def _runs(
    line: list[str], begins: list[int], table: dict[str, int], encoding: str
) -> list[Misread]:
    """Return the runs in the letters of a line; `begins` are the places where one may begin."""
    found = []
    at = 0
    for first in begins:
        size = _sequence(line, first, table) if first >= at else 0
        if not size:
            continue
        at = first
        begin, right, weight, count = at, b"", 0, 0
        while size:
            piece = line[at : at + size]
            right += b"\xef\xbf\xbd" if LOST in piece else bytes([table[one] for one in piece])
            count += 1
            # Lines and corners of a table may be just that.
            if not all("\u2500" <= letter <= "\u259f" for letter in piece):
                weight += 0 if LOST in piece else min(2, size - 1)
            # Text has no C1 controls.
            weight += any("\x80" <= letter < "\xa0" for letter in piece)
            at += size
            size = _sequence(line, at, table) if at < len(line) else 0
        before, after = "".join(line[max(0, begin - 1) : begin]), "".join(line[at : at + 1])
        if count == 1 and _is_quoted(before, after, at - begin):
            weight = 0
        elif not weight and LOST not in line[begin:at] and _is_letter(before) and _is_letter(after):
            weight = 1  # no corner of a table is inside a word
        found.append(Misread(begin, at, right.decode(), encoding, weight))
    return found


def _places(line: str, letters: list[str]) -> list[int]:
    """Return where some letters are in a line, in order."""
    out = []
    for letter in letters:
        if letter not in line:
            continue
        at = -1
        for part in line.split(letter)[:-1]:
            at += len(part) + 1
            out.append(at)
    return sorted(out)


def _sequence(line: list[str], at: int, table: dict[str, int]) -> int:
    """Return how many characters at a place are one UTF-8 sequence of several bytes; 0 if none."""
    lead = table.get(line[at], 0)
    size = 2 if 0xC2 <= lead <= 0xDF else 3 if 0xE0 <= lead <= 0xEF else 4
    if not 0xC2 <= lead <= 0xF4 or len(line) - at < size:
        return 0
    if line[at + 1] != LOST and table.get(line[at + 1], 0) >> 6 != 2:
        return 0  # most letters of Cyrillic and Greek come here
    if LOST in line[at : at + size] and line[at : at + size].count(LOST) == size - 1:
        return 0
    # A � stands for a byte that the other encoding has no character for.
    data = bytes([table.get(one, 0x81 if one == LOST else 0) for one in line[at : at + size]])
    try:
        data.decode()
    except UnicodeError:
        return 0
    # “там” and “ιδέας” are words. As UTF-8 they are Braille and signs.
    if data[0] == 0xE2 and data[1] > 0x8F and line[at] in INSIDE_WORDS:
        return 0
    # In French, `à` stands before a no-break space and a `»`. As UTF-8 it is Samaritan.
    return 0 if data[:2] == b"\xe0\xa0" else size


def _is_quoted(before: str, after: str, size: int) -> bool:
    """Return whether a single sequence may be an example rather than part of a text."""
    if size == 2:
        return not (_is_letter(before) or _is_letter(after))
    return before in QUOTES and after in QUOTES and before + after != ""


def _others(line: str, found: "list[Misread]") -> int:
    """Return how many characters beyond ASCII of a line are not in its runs."""
    inside = sum([run.end - run.begin for run in found])
    return sum([byte >= 0xC0 for byte in line.encode("utf-8", "surrogatepass")]) - inside


def _is_letter(letter: str) -> bool:
    return "a" <= letter.lower() <= "z"
