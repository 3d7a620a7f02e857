"""detok.v1 without I/O: its frames, its client, its server; and server-sent events.

Runs in: CPython, Pyodide, MicroPython.
Imports: errors.
"""
