"""Writes a fixture as JSON of few lines: one for each member of the outermost value, and one for each member of a
member that would be long. Used by the make_*_fixtures.py beside it."""

import json

LONG = 1000  # characters


def text(value, levels=2):
    line = json.dumps(value)
    if levels == 0 or not isinstance(value, (dict, list)) or (levels < 2 and len(line) <= LONG):
        return line
    if isinstance(value, dict):
        return "{\n" + ",\n".join(json.dumps(k) + ": " + text(v, levels - 1) for k, v in value.items()) + "\n}"
    return "[\n" + ",\n".join(text(v, 0) for v in value) + "\n]"


def write(value, path):
    with open(path, "w") as file:
        file.write(text(value) + "\n")
