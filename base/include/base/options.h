/* A command line read by tables of fields (base/fields.h), and --help written from them.
 *
 * Options are GNU's: --name VALUE, --name=VALUE, an unambiguous beginning of the name, -x for those
 * that have a letter, in any order with operands, "--" ends them. One thread (getopt). */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stdio.h>

#include "base/fields.h"

enum { BASE_OPTIONS_MAX = 128 };

/* A table with the record that it fills. */
typedef struct base_option_set {
    const base_fields *fields;
    void *record;
    const void *defaults; /* a record with what --help calls the defaults; NULL: none are told */
} base_option_set;

/* Called before an option is applied. */
typedef void (*base_option_seen)(void *user, const base_field *field);

/* A command line, and what its options go into. */
typedef struct base_command_line {
    int argc;
    char **argv;
    const base_option_set *sets;
    int set_count;
    base_option_seen seen; /* may be NULL */
    void *user;
} base_command_line;

/* Applies every option of argv; *rest is the index of the first operand, which are moved behind the
 * options. BASE_ERR_INVALID and BASE_ERR_LIMIT name the option. */
BASE_MUST_CHECK base_status base_options_parse(const base_command_line *line, int *rest,
                                               base_error *reterr);

/* One line for each option below the heading of its group (that of the row before it, if it has
 * none); groups in the order in which they first appear. */
void base_options_help(const base_option_set *sets, int set_count, FILE *stream);

#endif
