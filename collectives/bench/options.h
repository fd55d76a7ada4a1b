/* coll-bench's command line: nccl-tests' flags and a few of our own. */
#ifndef COLL_BENCH_OPTIONS_H
#define COLL_BENCH_OPTIONS_H

#include <stdio.h>

#include "base/fields.h"
#include "bench.h"

/* A row for each option: what --help says of it, and its key in the results' "options". */
extern const base_fields bench_option_fields;

void bench_options_help(FILE *stream);

/* Fills *options from the arguments; what is not given has its default. launched_ranks: of the
 * launcher that has started this process, which decides on some options; 0: none has. With --help only
 * options->help holds. BASE_ERR_INVALID and BASE_ERR_LIMIT with a message for the user. argv's order
 * may be changed (getopt). One thread. */
BASE_MUST_CHECK base_status bench_options_parse(int argc, char **argv, int launched_ranks,
                                                bench_options *options, base_error *reterr);

/* The size after `size_bytes`; 0 if there is none. */
size_t bench_next_size(const bench_options *options, size_t size_bytes);

/* With --transport nccl: what goes on GPUs. BASE_ERR_INVALID: not this. */
BASE_MUST_CHECK base_status bench_options_check_nccl(const bench_options *options,
                                                     base_error *reterr);

/* Of a transport, and of BENCH_TRANSPORT_NCCL. NULL: there is none of that number. */
const char *bench_transport_name(int transport);

/* What buffers are in: "an arena", "ordinary memory", "the GPU's memory". */
const char *bench_memory_name(const bench_options *options);

/* "all_reduce", and "sendrecv". */
const char *bench_kind_name(coll_kind kind);

#endif
