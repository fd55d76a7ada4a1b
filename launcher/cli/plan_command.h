/* `launcher plan`. */
#ifndef LAUNCH_PLAN_COMMAND_H
#define LAUNCH_PLAN_COMMAND_H

/* argv[0] is "plan". Returns the exit status. rank_path: the rank program, which is asked whether it runs
 * the model of --checkpoint; NULL: the one beside the running program. */
int launch_plan_command(int argc, char **argv, const char *rank_path);

#endif
