/* Values as text: Python's str() and repr(), and JSON. */
#ifndef RANK_JINJA_WRITE_H
#define RANK_JINJA_WRITE_H

#include "text.h"

/* What {{ value }} writes: "" if it is undefined. */
void jinja_write(jinja_text *text, jinja_value value);
/* The same as a string; a string is itself. */
const jinja_string *jinja_to_string(jinja_work *work, jinja_value value);

/* A number, true or false; as JSON writes it, or Python. */
void jinja_write_number(jinja_text *text, jinja_value value, bool json);

typedef struct jinja_json_form {
    const jinja_string *indent; /* NULL: all in one line */
    const jinja_string *comma;
    const jinja_string *colon;
    bool is_ascii; /* other characters are escaped */
    bool sorts;
} jinja_json_form;

/* As Python's json.dumps. Fails where a value is none of JSON's. */
void jinja_write_json(jinja_text *text, jinja_value value, const jinja_json_form *form);

#endif
