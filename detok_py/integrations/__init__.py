"""Drop-ins for other libraries' classes, each a few lines over the public API.

Each module is imported only when it is asked for, and imports its library only if it needs it.

Runs in: CPython, Pyodide by micropip.
Imports: errors, decode, tokenizers.
"""
