/* `launcher plan`. */
#ifndef LAUNCH_PLAN_COMMAND_H
#define LAUNCH_PLAN_COMMAND_H

/* argv[0] is "plan". Returns the exit status. */
int launch_plan_command(int argc, char **argv);

#endif
