"""Tokens and bytes to text, stage by stage. The core: no I/O, no dependencies.

Runs in: CPython, Pyodide, MicroPython.
Imports: errors, formats.
"""
