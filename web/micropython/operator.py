"""`operator` for MicroPython, as far as the decode path needs it."""


def itemgetter(*keys):
    """Return a function that looks several keys up in a table, and returns a tuple."""
    return lambda table: tuple([table[key] for key in keys])
