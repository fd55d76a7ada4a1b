/* Reads a command line by tables of fields (base/fields.h), and writes --help from them.
 *
 * Options are as GNU's: --name VALUE, --name=VALUE, an unambiguous beginning of the name, -x for
 * those with a letter. They may stand between operands, and "--" ends them. One thread (getopt). */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stdio.h>

#include "base/fields.h"

enum { BASE_OPTIONS_MAX = 192 };

/* A table with the record that it fills. */
typedef struct base_option_set {
    const base_fields *fields;
    void *record;
    const void *defaults; /* a record with the defaults for --help; NULL: --help shows none */
} base_option_set;

/* Called before an option is applied. */
typedef void (*base_option_seen)(void *user, const base_field *field);

/* What other programs call an option, with "_" where a user may write "-" as well. It is only asked
 * about: "did you mean --out?". It is refused also where it is the beginning of an option's name. */
typedef struct base_other_name {
    const char *name;
    const char *option;
    const char *instead; /* what to do, where no one option is meant (`option` is NULL) */
} base_other_name;

/* A command line, and the records that its options set. */
typedef struct base_command_line {
    int argc;
    char **argv;
    const base_option_set *sets;
    int set_count;
    base_option_seen seen; /* may be NULL */
    void *user;
    const base_other_name *others; /* (other_count) */
    int other_count;
} base_command_line;

/* Applies every option of argv, and moves the operands behind the options. *rest is the index of
 * the first operand. BASE_ERR_INVALID and BASE_ERR_LIMIT name the option. */
BASE_MUST_CHECK base_status base_options_parse(const base_command_line *line, int *rest,
                                               base_error *reterr);

/* Prints each option with its help and its default, below the heading of its group. A row without a group is in that
 * of the row before it. Groups come in the order in which they first appear. */
void base_options_help(const base_option_set *sets, int set_count, FILE *stream);

/* Prints what an operand may be: its name, and beside it the choices, with lines broken as in helps of options. */
void base_options_operand(const char *name, const char *choices, FILE *stream);

/* Puts options in the place of keys: "model.width 3" becomes "--width 3". For messages of checks that
 * know only the record. */
void base_options_name(const base_fields *fields, base_error *error);

#endif
