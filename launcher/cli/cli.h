/* The launcher program, as a function: everything but main. */
#ifndef LAUNCH_CLI_H
#define LAUNCH_CLI_H

#include "launch/options.h"

/* Runs a command line and returns the exit status; errors are on stderr, one line each.
 * rank_path: the rank program; NULL: the one beside the running program. */
int launch_cli(int argc, char **argv, const char *rank_path);

#endif
