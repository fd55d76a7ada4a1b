/* coll-simulate's command line. */
#ifndef COLL_SIMULATE_OPTIONS_H
#define COLL_SIMULATE_OPTIONS_H

#include "base/status.h"
#include "sweep.h"

void sweep_options_help(FILE *stream);

/* Fills *options from the arguments; what is not given has its default. With --help only
 * options->help holds. BASE_ERR_INVALID and BASE_ERR_LIMIT with a message for the user. argv's order
 * may be changed (getopt). One thread. */
BASE_MUST_CHECK base_status sweep_options_parse(int argc, char **argv, sweep_options *options,
                                                base_error *reterr);

#endif
