"""What a page's worker calls: answers and text streams by number, JSON out. No I/O.

Runs in: CPython, Pyodide, MicroPython.
Imports: errors, decode, protocol.
"""
