/* Values of a running template. They do not change, but for namespaces, and for iterators, which are used up.
 *
 * A string's bytes have origins: a number each, or one for all. What is made of strings keeps them. */
#ifndef RANK_JINJA_VALUE_H
#define RANK_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "work.h"

typedef enum jinja_kind {
    JINJA_MISSING, /* an argument that was not given; no value of a template */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_REAL,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_FUNCTION,
    JINJA_METHOD,
} jinja_kind;

typedef struct jinja_string {
    const char *at; /* (bytes) in UTF-8; no NUL behind them */
    size_t bytes;
    const uint32_t *origins; /* (bytes); NULL: each has this origin: */
    uint32_t origin;
    bool is_markup; /* made by safe or escape: what is added to it would be escaped */
} jinja_string;

typedef struct jinja_list jinja_list;
typedef struct jinja_dict jinja_dict;
typedef struct jinja_loop jinja_loop;
typedef struct jinja_macro jinja_macro;
typedef struct jinja_method jinja_method;
struct jinja_row;

typedef struct jinja_value {
    jinja_kind kind;
    jinja_kind
        owner; /* JINJA_UNDEFINED: what has no such member; JINJA_MISSING: it is a variable */
    union {
        bool flag;
        int64_t integer;
        double real;
        const char *name; /* JINJA_UNDEFINED */
        const jinja_string *string;
        jinja_list *list;
        jinja_dict *dict; /* also JINJA_NAMESPACE */
        const jinja_loop *loop;
        const jinja_macro *macro;
        const struct jinja_row *function;
        const jinja_method *method;
    };
} jinja_value;

typedef enum jinja_form {
    JINJA_FORM_LIST,
    JINJA_FORM_TUPLE,
    JINJA_FORM_RANGE,
    JINJA_FORM_VIEW, /* what a dict's items(), keys() and values() are: no member by its index */
    JINJA_FORM_ITERATOR, /* what map, select and the like are: of no length, true, and used up */
} jinja_form;

struct jinja_list {
    jinja_value *at; /* (count) */
    size_t count;
    jinja_form form;
    size_t taken; /* JINJA_FORM_ITERATOR: of the items */
};

typedef struct jinja_pair {
    jinja_value key;
    jinja_value value;
} jinja_pair;

struct jinja_dict {
    jinja_pair *at; /* (count), in the order in which they came */
    size_t count;
    size_t room;
};

/* What a name of an object's means when it is called. */
struct jinja_method {
    jinja_value object;
    const struct jinja_row *row;
};

static inline jinja_value jinja_none(void)
{
    return (jinja_value){.kind = JINJA_NONE};
}

static inline jinja_value jinja_bool(bool flag)
{
    return (jinja_value){.kind = JINJA_BOOL, .flag = flag};
}

static inline jinja_value jinja_int(int64_t integer)
{
    return (jinja_value){.kind = JINJA_INT, .integer = integer};
}

static inline jinja_value jinja_real(double real)
{
    return (jinja_value){.kind = JINJA_REAL, .real = real};
}

static inline jinja_value jinja_undefined(const char *name, jinja_kind owner)
{
    return (jinja_value){.kind = JINJA_UNDEFINED, .owner = owner, .name = name};
}

static inline bool jinja_is_given(jinja_value value)
{
    return value.kind != JINJA_MISSING;
}

/* A list of (count) items, which it keeps. */
jinja_value jinja_list_of(jinja_work *work, jinja_value *at, size_t count, jinja_form form);
/* Room for (count) values. */
jinja_value *jinja_values(jinja_work *work, size_t count);
jinja_value jinja_tuple_of_two(jinja_work *work, jinja_value first, jinja_value second);

/* NULL: there is none. */
const jinja_value *jinja_dict_find(jinja_work *work, const jinja_dict *dict, jinja_value key);
const jinja_value *jinja_dict_find_name(jinja_work *work, const jinja_dict *dict, const char *name);
/* Fails if a dict cannot have such a key. */
void jinja_need_key(jinja_work *work, jinja_value key);
/* Sets a member. Fails if the key cannot be one. */
void jinja_dict_set(jinja_work *work, jinja_dict *dict, jinja_value key, jinja_value value);

/* What Python calls such a value: "str", "list". */
const char *jinja_type_name(jinja_value value);
bool jinja_is_true(jinja_value value);
bool jinja_is_number(jinja_value value); /* also true and false */
double jinja_as_real(jinja_value value); /* of a number */
/* Fails if the value is no integer; true and false are. */
int64_t jinja_as_int(jinja_work *work, jinja_value value);
/* Fails if the value is undefined, with its name. */
void jinja_need_defined(jinja_work *work, jinja_value value);

/* The items that a loop over the value has. Fails if there can be none. Uses an iterator up. */
const jinja_list *jinja_items_of(jinja_work *work, jinja_value value);
/* How many there are; fails if the value has no length. */
size_t jinja_length_of(jinja_work *work, jinja_value value);

/* Compares as Python's == and <. jinja_is_less fails if the two have no order. */
bool jinja_equal(jinja_work *work, jinja_value left, jinja_value right);
bool jinja_is_less(jinja_work *work, jinja_value left, jinja_value right);
bool jinja_contains(jinja_work *work, jinja_value whole, jinja_value part);

#endif
