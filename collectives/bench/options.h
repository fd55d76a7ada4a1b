/* coll-bench's command line: nccl-tests' flags and a few of our own. Pure. */
#ifndef COLL_BENCH_OPTIONS_H
#define COLL_BENCH_OPTIONS_H

#include "bench.h"

typedef enum bench_command { BENCH_COMMAND_RUN, BENCH_COMMAND_HELP } bench_command;

extern const char bench_usage[];

/* "64", "4K", "16M" within [min, max]; units of either case are powers of 1024.
 * COLL_ERR_INVALID. */
COLL_MUST_CHECK coll_status bench_parse_size(const char *text, size_t min, size_t max,
                                             size_t *value, coll_error *reterr);

/* Fills *options from the arguments; what is not given has its default. COLL_ERR_INVALID with a
 * message for the user. argv's order may be changed (getopt); its strings are kept. */
COLL_MUST_CHECK coll_status bench_options_parse(int argc, char **argv, bench_options *options,
                                                bench_command *command, coll_error *reterr);

/* The size after `size_bytes`; 0 if there is none. */
size_t bench_next_size(const bench_options *options, size_t size_bytes);

bool bench_kind_reduces(coll_kind kind);
bool bench_kind_has_root(coll_kind kind);

/* "all_reduce", and "sendrecv". */
const char *bench_kind_name(coll_kind kind);

#endif
