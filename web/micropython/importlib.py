"""`importlib.import_module` for MicroPython."""

import sys


def import_module(name):
    """Import a module by its full name and return it."""
    __import__(name)
    return sys.modules[name]
