"""The rules by which verdict.py tells who broke a stream: who it was, what happened, and why that
follows.
"""

BORDERS = (
    "a character is broken where a piece ends and the next one begins: what wrote the log, or "
    "something before it, decodes each piece alone."
)
# The name of a rule: (who, what is said).
RULES = {
    "token-alone": (
        "engine",
        "The engine decoded each token by itself: its text has � where a token ends inside a character, and the tokens have the right bytes.",
    ),
    "whole-token": (
        "proxy",
        "Something after the engine broke the text: the bytes of the tokens are whole characters, and the text beside them has �.",
    ),
    "seam": (
        "engine",
        "The engine decoded each token by itself: the pieces of one character are � at the end of one event and at the beginning of the next. A model that writes � itself, which is rare, looks the same.",
    ),
    "seam-known": (
        "engine",
        "The engine decoded each token by itself: the pieces of one character are � at the end of one event and at the beginning of the next. The text that the server sent whole at the end has the character.",
    ),
    "known": (
        "unknown",
        "The text has a �, and the text that the server sent whole at the end has a character there: the engine broke it, a proxy, or what recorded it.",
    ),
    "inside": (
        "proxy",
        "A proxy, or what recorded it, decoded each chunk of the network by itself: the pieces of one character are � within one event, which has one token.",
    ),
    "borders": ("proxy", BORDERS[0].upper() + BORDERS[1:]),
    "beside": (
        "unknown",
        "There are � beside each other within one event: a proxy, or what recorded it, decoded each chunk of the network by itself; or, if the event has several tokens, the engine decoded each of them; or the model wrote them.",
    ),
    "seam-of-messages": (
        "unknown",
        "The sender decoded each piece by itself, or cut the text by UTF-16 units: the pieces of one character are � at the end of one message and at the beginning of the next. An engine does so with tokens, a proxy with chunks of the network. A model that writes � itself, which is rare, looks the same.",
    ),
    "seam-of-pieces": (
        "unknown",
        "The sender decoded each piece by itself: the pieces of one character are � at the end of one message and at the beginning of the next. An engine does so with tokens, a proxy with chunks of the network. A model that writes � itself, which is rare, looks the same.",
    ),
    "dropped": (
        "engine",
        "The engine decoded each token by itself and left out what was no whole character: its tokens have text that never came.",
    ),
    "missing": (
        "engine",
        "The engine held the pieces of a character back and never sent it: its last tokens have text that did not come.",
    ),
    "left-out": (
        "unknown",
        "The tokens have text that the events leave out: the engine, or something after it, took it away.",
    ),
    "pieces-lack": (
        "unknown",
        "The text that the server sent whole at the end has more than its pieces: the engine did not send it, or events were lost.",
    ),
    "part": (
        "unknown",
        "The recording begins behind the beginning of the answer: a client asked for it from there (`starting_after`), or events were lost.",
    ),
    "repeated": (
        "unknown",
        "A piece of the text came twice: the text that the server sent whole at the end has it once.",
    ),
    "differs": (
        "unknown",
        "The pieces are not the text that the server sent whole at the end.",
    ),
    "lost": (
        "proxy",
        "Events were lost after the server had numbered them, by the server itself, by a proxy, or by what recorded them: numbers are missing.",
    ),
    "twice": (
        "proxy",
        "An event came again after the server had numbered it, from the server itself, from a proxy, or by what recorded it: its number, or its count of tokens, came twice.",
    ),
    "again": (
        "proxy",
        "An event came again, with the exact time at which it was made, or with its random padding: from the server itself, from a proxy, or by what recorded it. The text here has it twice.",
    ),
    "doubled": (
        "proxy",
        "Each event with text came twice, the second right behind the first: the server, a proxy, or what recorded it wrote them two times. The text here has them twice.",
    ),
    "begun-again": (
        "unknown",
        "The answer begins again, with the same id and the same first words and without an end before it: the engine or a proxy sent it anew, or what recorded it wrote again what it had. The text here has it more than once.",
    ),
    "counted": (
        "unknown",
        "The server counts its tokens in each event, mostly one more than before, and here several for a short text: events may be missing, or this one has several tokens.",
    ),
    "order": (
        "proxy",
        "Events changed places after the server had numbered or timed them, in the server itself, in a proxy, or in what recorded them.",
    ),
    "parted": (
        "engine",
        "The engine, or a gateway that writes its JSON anew, cut the text by UTF-16 units: the halves of one character came in two events. Strings of JavaScript join them; other clients show � or fail. All panes here show it joined, in the second event.",
    ),
    "parted-messages": (
        "unknown",
        "The sender cut the text by UTF-16 units: the halves of one character came in two messages. Strings of JavaScript join them, and nothing is lost; other clients show � or fail. All panes here show it joined, in the second message.",
    ),
    "escaped": (
        "engine",
        "The engine, or a gateway that writes its JSON anew, wrote the � as \\ufffd, and other characters as they are: so does Go's JSON with bytes that are not UTF-8.",
    ),
    "raw-seam": (
        "engine",
        "The engine wrote the bytes of each token into an event of its own: they are not UTF-8 by themselves.",
    ),
    "cesu": (
        "engine",
        "The engine, or a gateway that writes its JSON anew, wrote the halves of a surrogate pair as bytes (CESU-8): that is not UTF-8.",
    ),
    "raw": (
        "unknown",
        "Bytes of a character were lost or changed: what is here is not UTF-8, and other characters are whole.",
    ),
    "raw-all": (
        "unknown",
        "No character beyond ASCII in this file is UTF-8: it was saved in another encoding, such as Windows-1252, or the bytes were broken on their way.",
    ),
    "half": (
        "engine",
        "The engine, or a gateway that writes its JSON anew, cut the text by UTF-16 units: half a character (a surrogate) arrived without the other.",
    ),
    "inside-sent": (
        "proxy",
        "A proxy decoded each chunk of the network by itself: the pieces of one character are � within one event, which has one token.",
    ),
    "beside-sent": (
        "unknown",
        "There are � beside each other within one event: a proxy decoded each chunk of the network by itself; or, if the event has several tokens, the engine decoded each of them; or the model wrote them.",
    ),
    "known-sent": (
        "unknown",
        "The text has a �, and the text that the server sent whole at the end has a character there: the engine broke it, or a proxy.",
    ),
    "one-byte": (
        "unknown",
        "Each � was one byte when it came: bytes came that are not UTF-8, or what read or recorded them decoded each chunk of the network by itself.",
    ),
    "maybe": (
        "unknown",
        "The text has a �: it broke on its way into this file, or the model wrote it. The file does not prove which.",
    ),
    "misread": ("client", ""),
    "misread-sent": ("proxy", ""),
    "misread-read": ("client", ""),
    "misread-part": (
        "unknown",
        " Other lines are right, so the whole was not misread: the model may have quoted this one.",
    ),
    "misread-east": ("client", ""),
    "asked": (
        "unknown",
        "There are “?” inside words, or in the place of words: so a program writes what its encoding lacks. The file does not prove it.",
    ),
    "forms": (
        "unknown",
        "The pieces look like the text that the server sent whole at the end, in other characters: letters and their marks are two here and one there, or the other way round (Unicode NFC and NFD).",
    ),
    "model": (
        "nobody",
        "The model wrote bytes that are not UTF-8: its tokens are exact, and nothing changed them.",
    ),
    "bytes": ("unknown", "The bytes that arrived are not UTF-8. They do not say who broke them."),
    "written-bytes": (
        "unknown",
        "The bytes EF BF BD are a �: written by the model, or broken before they came.",
    ),
    "cut-length": (
        "nobody",
        "The answer ended inside a character, at its limit of tokens.",
    ),
    "cut-text": (
        "unknown",
        "The answer ended at its limit of tokens, and its last character is a �: the engine cut a character there and wrote � for it, or the model wrote it.",
    ),
    "cut-model": ("nobody", "The model ended its answer inside a character."),
    "cut-stopped": ("nobody", "The answer was stopped inside a character."),
    "cut": (
        "unknown",
        "The stream ended inside a character: the engine ended it so, or the connection did.",
    ),
    "named-bytes": (
        "engine",
        "The engine wrote the names of byte tokens in the place of their bytes. A model that spells such names, which is rare, looks the same.",
    ),
    "named-spaces": (
        "engine",
        "The engine wrote the entries of its vocabulary and did not decode them: they have a sign in the place of each space.",
    ),
    "written": ("nobody", "The model wrote a �: the bytes EF BF BD are its own."),
    "joined": (
        "unknown",
        "The JSON of an event goes on in a line without “data:”, and was joined here. Consoles break lines so; if the server sent it so, clients lose the event.",
    ),
    "wrapped": ("nobody", "A console broke lines at its width; they were joined here."),
}  # fmt: skip
# Programs between an engine and a page.
OF_PROGRAMS = (
    "unknown server", "AI SDK, UI messages", "AI SDK 4, data stream", "LangChain, events", "LangServe, stream_log",
    "LangGraph, messages", "AG-UI", "A2A", "Dify", "Coze", "Open WebUI", "Hugging Face chat-ui",
)  # fmt: skip
# What the number of bytes on the network (notes.py) tells, and what it makes of rules: the text
# came so to the browser; right bytes were read wrongly there; each \ufffd was one byte on its way.
CAME_SO, READ_WRONG, ONE_BYTE = "came so", "read wrong", "one byte"
SIZE = "size"  # their place in `Facts.told`
BY_SIZE: dict[str, dict[str, str]] = {
    CAME_SO: {
        "misread": "misread-sent", "inside": "inside-sent", "beside": "beside-sent",
        "known": "known-sent",
    },
    READ_WRONG: {"misread": "misread-read"},
    ONE_BYTE: dict.fromkeys(("inside", "beside", "known", "maybe", "seam", "seam-known"), "one-byte"),
}  # fmt: skip
# Rules that do not tell exactly who broke the text; of "doubt", not even that it is broken.
LESS = {
    "seam": "model",
    "borders": "sender", "lost": "sender", "twice": "sender", "again": "sender", "doubled": "sender", "order": "sender", "inside": "recorder",
    "whole-token": "recorder", "misread": "reader", "misread-east": "reader",
    "misread-sent": "server", "misread-read": "read",
    "parted": "gateway", "escaped": "gateway", "cesu": "gateway", "half": "gateway",
    "maybe": "doubt", "beside": "doubt", "bytes": "doubt", "written-bytes": "doubt",
    "cut": "doubt", "joined": "doubt", "counted": "doubt", "part": "doubt", "asked": "doubt", "forms": "doubt",
    "cut-text": "doubt", "seam-of-messages": "doubt", "seam-of-pieces": "doubt", "parted-messages": "doubt", "misread-part": "doubt",
    "beside-sent": "doubt",
}  # fmt: skip
