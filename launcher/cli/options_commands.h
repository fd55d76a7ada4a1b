/* The commands that are a word of the command line: compare, gpus, make-job-key. */
#ifndef LAUNCH_OPTIONS_COMMANDS_H
#define LAUNCH_OPTIONS_COMMANDS_H

#include "launch/options.h"

/* Takes the command argv[0] with its arguments; the options are read already. Sets the action.
 * argc > 0. BASE_ERR_INVALID: there is no such command, or it does not take that argument or a flag
 * that was given. */
BASE_MUST_CHECK base_status launch_options_take_command(int argc, char **argv,
                                                        launch_options *options,
                                                        base_error *reterr);

#endif
