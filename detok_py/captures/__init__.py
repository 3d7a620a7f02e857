"""Recorded streams: what servers sent, read from files of many kinds; and `.detok.jsonl`, written.

A page loads this folder when the first file is opened or saved.

Runs in: CPython, Pyodide on demand, MicroPython on demand.
Imports: errors, decode, formats, protocol, page.
"""
