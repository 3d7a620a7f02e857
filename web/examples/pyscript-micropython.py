import json
import os
import sys


def make(folder):
    try:
        os.mkdir(folder)
    except OSError:
        pass  # it is there already


make("/detok")
with open("detok.bin", "rb") as bundle:
    for name, size in json.loads(bundle.readline()):
        parts = name.split("/")
        for depth in range(1, len(parts)):
            make("/detok/" + "/".join(parts[:depth]))
        with open("/detok/" + name, "wb") as module:
            module.write(bundle.read(size))
sys.path.insert(0, "/detok")
import detok_start  # noqa: F401 - before detok_py: what MicroPython lacks
