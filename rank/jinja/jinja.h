/* Chat templates: programs in Jinja, as the files of Hugging Face's models have them, parsed and run.
 *
 * Known is what these templates use: text, {{ expressions }}, {% if, for, set, macro, call, generation %} and their ends,
 * {# comments #}, with transformers' settings (trim_blocks, lstrip_blocks); the filters, tests and methods that
 * transformers' templates call. Undefined variables are as Jinja's default Undefined: empty where they are written, an
 * error where a member of theirs is asked for. What is not known is refused by its name and line when the template
 * is parsed, or, if only the run can tell, by rank_jinja_render.
 * Lists and dicts cannot be changed (append, update): transformers' sandbox refuses it too. Not known are filter
 * and with blocks, include, extends and import, loops with `recursive`, `%` of strings and str.format, arguments with **.
 * Members that Python's values have, and these have not, are refused also where a template asks
 * only whether they are defined; so are letters and numbers that Python knows and this does not.
 *
 * A template is input: it has limits of nesting, of steps and of memory (limits.h), calls nothing outside, and sees the
 * variables only. There is no clock: strftime_now gives the date that the caller has, and without one it is not
 * defined, for which templates have a date of their own. So the same template, variables and date give the same text.
 *
 * Each byte of the text has an origin: 0 if the template wrote it, else the element of the traced list that it was
 * copied from. Strings keep them through slices, trim, split, + and the like. So what a user has typed
 * is told from the template's marks.
 *
 * A parsed template does not change. Any number of threads may run it. Sources: Jinja 3.1's documentation; what
 * jinja2 makes of the same templates (tests/oracle/make_jinja_fixtures.py). */
#ifndef RANK_JINJA_H
#define RANK_JINJA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/status.h"

struct json_t;

enum { RANK_JINJA_QUOTED = INT32_MAX }; /* more than a list has elements */

typedef struct rank_jinja rank_jinja;

/* BASE_ERR_INVALID: it is no program; BASE_ERR_UNSUPPORTED: something is not known here; BASE_ERR_LIMIT: it is
 * too long or too deep. The message has the line. */
BASE_MUST_CHECK base_status rank_jinja_parse(const char *source, rank_jinja **template,
                                             base_error *reterr);
void rank_jinja_destroy(rank_jinja *template);

/* Whether the program reads a variable of that name somewhere. */
bool rank_jinja_reads(const rank_jinja *template, const char *name);

typedef struct rank_jinja_text {
    char *at;          /* (bytes + 1), NUL-terminated; may have NULs in it only if variables do */
    uint32_t *origins; /* (bytes) */
    size_t bytes;
} rank_jinja_text;

/* What a program is given. */
typedef struct rank_jinja_given {
    const struct json_t *variables; /* an object, whose members are the program's variables */
    /* The name of the one that is a list to be traced, as "messages": strings in its element i have the origin i + 1,
     * but for its own member "role", which is a word that the caller has checked. NULL: none. */
    const char *traced;
    /* The name of one whose strings all have the origin RANK_JINJA_QUOTED. NULL: none. */
    const char *quoted;
    const struct tm *now; /* what strftime_now formats; NULL: that is not defined */
} rank_jinja_given;

/* Runs it. BASE_ERR_INVALID: the
 * program called raise_exception, whose message this is, or did what is an error in Jinja; BASE_ERR_UNSUPPORTED;
 * BASE_ERR_LIMIT; BASE_ERR_MEMORY. On failure there is no text. */
BASE_MUST_CHECK base_status rank_jinja_render(const rank_jinja *template,
                                              const rank_jinja_given *given, rank_jinja_text *text,
                                              base_error *reterr);
void rank_jinja_text_fini(rank_jinja_text *text);

#endif
