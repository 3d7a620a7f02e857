"""detok.v1 without I/O: its frames, its client, its server, and recordings.

Runs in: CPython, Pyodide, MicroPython.
Imports: errors.
"""
