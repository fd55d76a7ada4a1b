/* Runs `launcher plan` as the command line does, and keeps what it prints. */
#ifndef TEST_PLAN_RUN_H
#define TEST_PLAN_RUN_H

enum { PLAN_ARGS_MAX = 32, PLAN_TEXT_BYTES = 1 << 16 };

#define PLAN_WORDS(...) ((const char *const[]){"launcher", "plan", __VA_ARGS__ __VA_OPT__(, ) NULL})

/* Runs the command (NULL ends it); what it prints is in `text`. Returns the exit code. */
int plan_run(const char *const *given, char text[PLAN_TEXT_BYTES]);

extern char plan_warnings[PLAN_TEXT_BYTES]; /* what the last run has printed on stderr */

/* A directory of the test, which plan_setup makes and plan_teardown removes when it is empty; a path in it, until
 * the next call; and its config.json. */
extern char plan_directory[];
const char *plan_path(const char *name);
void plan_write_config(const char *text);
int plan_setup(void **state);
int plan_teardown(void **state);

#endif
