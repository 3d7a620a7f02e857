"""Text in which a program has put other characters in the place of those that it could not read or
write: “?” for what its encoding lacks, 锛 for UTF-8 that it read in a code page of East Asia.

In: a text. Out: where “?” stands for something else; as what the text was read. Neither can be
reversed here: “?” has lost its character, and the code pages would need tables of 20,000.
"""

from .mojibake import CP1252, LOST, letters_in

# Of each code page: what is said; characters that it has for frequent bytes of UTF-8, and that its
# languages hardly use; and what it makes of U+FFFD twice.
EAST = (
    (
        "GBK, as Chinese Windows does",
        "锛銆鐨鏄鈥銇銈銉殑褉懈褌鍙鍥鍒鍚濂鎴鎵鏃鐢杩閮绋涓浣浠澶瀛涔嬮婂庡",
        "锟斤拷",
    ),
    (
        "Shift_JIS (code page 932), as Japanese Windows does",
        "縺繧繝縲逧荳譁窶譏蝨謌",
        "\ufffdｿｽ\ufffdｿｽ",
    ),
    ("code page 949, as Korean Windows does", "떎땲뒗쓣쓽꽭뀞븞븯슂뒛궇씠뿉", "占쏙옙"),
    ("Big5, as Windows in Taiwan does", "銝嚗雿隞霂", "嚙踝蕭"),
)
LEAST_EAST = 3  # of such characters
SHARE_EAST = 12  # of so many characters beyond ASCII, one is such a character
LEAST_ASKED = 2  # words with “?” inside, or of “?” alone
MANY_ASKED = 8  # of them in a row, without a space
NO_WORD = "=/_(){}[]&<>:;|\\@.#$%*+`"  # in a token of code or an address
EDGES = ".,!\"'”“’-—…»«"


def read_as(text: str) -> str:
    """Return which code page UTF-8 was read as, with who does so; "" if it was not.

    >>> read_as("浣犲ソ锛屼笘鐣屻�傝繖鏄�涓�涓�娴嬭瘯锛屾垜浠�"), read_as("这是一枚芯片。")
    ('GBK, as Chinese Windows does', '')
    """
    data = text.encode("utf-8", "surrogatepass")
    others = -1  # how many are beyond ASCII: to count them takes long in MicroPython
    for name, signs, lost in EAST:
        count = sum([data.count(sign.encode()) for sign in letters_in(data, signs)])
        count += len(lost) * data.count(lost.encode())
        if count >= LEAST_EAST:
            if others < 0:
                others = len([letter for letter in text if letter > "\x7f" and letter != LOST])
            if SHARE_EAST * count >= others:
                return name
    return ""


def asked(text: str) -> list[tuple[int, int]]:
    """Return where “?” may stand for characters that an encoding lacks: inside words, and as words;
    [] if it is found once, or if the text has characters that no such encoding has.

    >>> asked("Gr??e aus M?nchen. Wirklich???"), asked("Why? a ?? b")
    ([(0, 5), (10, 18)], [])
    >>> asked("?????????? 2025")
    [(0, 10)]
    """
    if "?" not in text or any(c > "\xff" and c not in CP1252 for c in text):
        return []
    found = []
    at = 0
    for word in text.replace("\n", " ").replace("\t", " ").split(" "):
        begin, at = at, at + len(word) + 1
        bare = word if "?" in word else ""
        while bare and bare[-1] in EDGES:
            bare = bare[:-1]
        if bare and not any(letter in bare for letter in NO_WORD):
            inner = bare
            while inner and inner[-1] == "?":
                inner = inner[:-1]
            if (not inner and len(bare) > 2) or _is_inside(inner):
                found.append((begin, begin + len(word)))
    many = any(text[begin:end].count("?") >= MANY_ASKED for begin, end in found)
    return found if many or len(found) >= LEAST_ASKED else []


def _is_inside(word: str) -> bool:
    """Return whether a word has a “?” between two letters."""
    parts = word.split("?")
    return len(parts) > 1 and _is_letter(parts[0][-1:]) and _is_letter(parts[-1][:1])


def _is_letter(letter: str) -> bool:
    return "a" <= letter.lower() <= "z" or letter >= "\xc0"
