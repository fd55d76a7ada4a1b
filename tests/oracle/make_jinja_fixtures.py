#!/usr/bin/env python3
"""Makes jinja.json: templates, variables, and what jinja2 makes of them with transformers' settings, for
tests/rank/jinja/test_render.c. The templates are those of jinja_small.py (a feature each) and of jinja_chats.py (whole
chat templates in the style of known models'). Some are given a date ("now"), as strftime_now. Needs jinja2.

    python make_jinja_fixtures.py
"""
import copy
import datetime
import json
import pathlib

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

import jinja_chats
import jinja_small
import rows

HERE = pathlib.Path(__file__).parent


class Generation(Extension):
    """{% generation %}, whose content passes through, as in transformers."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    return made


def outcome(jinja, template, variables, now=None):
    """The text; or an error, with its message if the template raised it."""
    given = {} if now is None else {"strftime_now": datetime.datetime.fromisoformat(now).strftime}
    try:
        return {"text": jinja.from_string(template).render(**copy.deepcopy(variables), **given)}
    except jinja2.exceptions.TemplateError as error:
        return {"raised": str(error)} if type(error) is jinja2.exceptions.TemplateError else {"fails": True}
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
        return {"fails": True}


def main():
    jinja = environment()
    cases = []
    for template in jinja_small.TEMPLATES:
        cases.append({"template": template, "variables": jinja_small.VARIABLES,
                      **outcome(jinja, template, jinja_small.VARIABLES)})
    for template in jinja_small.DATED:
        for now in jinja_small.DATES:
            cases.append({"template": template, "variables": jinja_small.VARIABLES, "now": now,
                          **outcome(jinja, template, jinja_small.VARIABLES, now)})
    for template, variables in jinja_chats.cases():
        cases.append({"template": template, "variables": variables, **outcome(jinja, template, variables)})
        if "strftime_now" in template:
            cases.append({"template": template, "variables": variables, "now": jinja_small.DATES[0],
                          **outcome(jinja, template, variables, jinja_small.DATES[0])})
    templates = sorted({case["template"] for case in cases})
    sets = []
    for case in cases:
        if case["variables"] not in sets:
            sets.append(case["variables"])
        case["variables"] = sets.index(case["variables"])
        case["template"] = templates.index(case["template"])
    rows.write({"templates": templates, "variables": sets, "cases": cases}, HERE / "jinja.json")


if __name__ == "__main__":
    main()
