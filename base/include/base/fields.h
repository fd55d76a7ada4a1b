/* One table for a plain struct: member, key in JSON, option on a command line, line of --help.
 *
 * A row says where a member is, its kind and its range. fields.c sets a member from a text and
 * checks it. options.h reads a command line. fields_json.h reads and writes JSON; it is a library
 * of its own, so that this one needs no jansson. Every refusal names what was wanted.
 *
 * Pure; thread safe. */
#ifndef BASE_FIELDS_H
#define BASE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum base_field_kind {
    BASE_FIELD_INT,     /* int or int64_t in [least, most] */
    BASE_FIELD_BYTES,   /* size_t in [least, most]; on a command line K, M, G multiply by 1024 */
    BASE_FIELD_REAL,    /* double in [min, max]; never NaN */
    BASE_FIELD_BOOL,    /* bool; as an option without a value it becomes !off */
    BASE_FIELD_TEXT,    /* char[], UTF-8 in JSON; text_ok may check it */
    BASE_FIELD_PATH,    /* char[]: empty, absolute, or below a root: without "", "." and ".." */
    BASE_FIELD_DIGEST,  /* char[]: lower-case hex in its whole length, or empty */
    BASE_FIELD_ENUM,    /* a C enum, by its names */
    BASE_FIELD_SECONDS, /* int64_t milliseconds in [least, most]; seconds on a command line */
    BASE_FIELD_CODED,   /* anything that a base_coding turns into text and back */
    BASE_FIELD_CALL,    /* an option only: runs `call` */
} base_field_kind;

typedef struct base_field base_field;

enum { BASE_CODED_BYTES = 256 }; /* of a coded member's text, with its NUL */

typedef struct base_coding {
    base_status (*parse)(const base_field *field, const char *text, void *member,
                         base_error *reterr);
    void (*format)(const base_field *field, const void *member, char text[BASE_CODED_BYTES]);
    base_status (*check)(const base_field *field, const void *member, base_error *reterr);
} base_coding;

struct base_field {
    const char *key; /* "steps", or in a group "train.steps"; NULL: not in JSON */
    base_field_kind kind;
    size_t offset;
    size_t size_bytes; /* of the member; of a text with its NUL */
    int64_t least;
    int64_t most;
    double min;
    double max;
    bool above;    /* min itself is out of range */
    bool below;    /* max itself is out of range */
    bool optional; /* if all is zero, it is not written, and it may be absent */
    bool filled;   /* a text that must not be empty */
    bool off;
    const char *(*name_of)(int value); /* ENUM: names from 0 on, then NULL */
    int unlisted;                      /* 1 + the value that messages do not offer; 0: none */
    bool (*text_ok)(const char *text, size_t size_bytes);
    const base_coding *coding;
    base_status (*call)(const base_field *field, void *record, const char *text,
                        base_error *reterr);
    /* on a command line */
    const char *option; /* "lr" for --lr; NULL: none */
    char letter;        /* 'h' for -h as well; 0: none */
    const char *value;  /* what follows it, as --help calls it; NULL: nothing does */
    const char *help;   /* the default is appended unless a bracket ends it */
    const char *group;  /* its heading in --help */
    unsigned marks;     /* bits of the table's owner */
};

typedef struct base_fields {
    const base_field *rows;
    int count;
    const char *what; /* stands before messages: "JOB.json" */
} base_fields;

/* The beginning of a row: BASE_INT(proto_job, train.steps), .least = 1, … */
#define BASE_MEMBER(type, member)                                                                  \
    .offset = offsetof(type, member), .size_bytes = sizeof(((type *)0)->member)
#define BASE_INT(type, member)     .kind = BASE_FIELD_INT, BASE_MEMBER(type, member)
#define BASE_BYTES(type, member)   .kind = BASE_FIELD_BYTES, BASE_MEMBER(type, member)
#define BASE_REAL(type, member)    .kind = BASE_FIELD_REAL, BASE_MEMBER(type, member)
#define BASE_BOOL(type, member)    .kind = BASE_FIELD_BOOL, BASE_MEMBER(type, member)
#define BASE_TEXT(type, member)    .kind = BASE_FIELD_TEXT, BASE_MEMBER(type, member)
#define BASE_PATH(type, member)    .kind = BASE_FIELD_PATH, BASE_MEMBER(type, member)
#define BASE_DIGEST(type, member)  .kind = BASE_FIELD_DIGEST, BASE_MEMBER(type, member)
#define BASE_ENUM(type, member)    .kind = BASE_FIELD_ENUM, BASE_MEMBER(type, member)
#define BASE_SECONDS(type, member) .kind = BASE_FIELD_SECONDS, BASE_MEMBER(type, member)
#define BASE_CODED(type, member)   .kind = BASE_FIELD_CODED, BASE_MEMBER(type, member)

/* The row with that key, or that option; NULL if none has it. */
const base_field *base_fields_find(const base_fields *fields, const char *key);
const base_field *base_fields_find_option(const base_fields *fields, const char *option);

/* Sets a member of the record from a text of a command line, and checks it. A relative path becomes
 * absolute; NULL is for a switch. The message says what the value must be, without the key.
 * BASE_ERR_INVALID, or BASE_ERR_LIMIT if it is too long. */
BASE_MUST_CHECK base_status base_field_set(const base_field *field, void *record, const char *text,
                                           base_error *reterr);

/* A member of kind INT, BYTES or SECONDS as a number. It is set only if it is in its range. */
int64_t base_field_int(const base_field *field, const void *record);
BASE_MUST_CHECK base_status base_field_set_int(const base_field *field, void *record, int64_t value,
                                               base_error *reterr);

/* Checks that the member is in its range. The message is without the key, as above. */
BASE_MUST_CHECK base_status base_field_check(const base_field *field, const void *record,
                                             base_error *reterr);

/* Checks all members but the optional ones that are zero. The message begins with the key. */
BASE_MUST_CHECK base_status base_fields_check(const base_fields *fields, const void *record,
                                              base_error *reterr);

/* The member as a text that base_field_set accepts, cut at the buffer. */
void base_field_format(const base_field *field, const void *record, char *text, size_t size_bytes);

/* Whether the member is empty, or zero. */
bool base_field_is_zero(const base_field *field, const void *record);

#endif
