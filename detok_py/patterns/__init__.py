"""Regular expressions with the Unicode classes that tokenizers are written for.

Runs in: CPython, Pyodide.
Imports: errors.
"""
