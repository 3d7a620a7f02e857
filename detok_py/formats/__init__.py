"""The markup that chat models write around their answers, as data, and the reader that follows it.

In: the text of an answer and the tokens in it that are markers. Out: content, reasoning and calls
with JSON arguments, as soon as they are certain. Held: text that may still become markup, and a
call until its name is known.

Runs in: CPython, Pyodide, MicroPython.
Imports: nothing.
"""
