/* Places where a test kills the process, to see what is left on disk. In the product they are
 * nothing; a test build defines BUDGET_FAILPOINTS and gives the function. */
#ifndef BUDGET_FAILPOINT_H
#define BUDGET_FAILPOINT_H

/* All of them: a test that never reaches one fails. */
#define BUDGET_FAILPOINT_NAMES                                                                     \
    "before-update", "after-update", "before-commit", "after-commit", "before-checkpoint",         \
        "after-checkpoint", "before-sign", "after-sign", "before-reply", "after-reply"

#ifdef BUDGET_FAILPOINTS
/* With BUDGET_FAILPOINT=NAME:N in the environment, the Nth time NAME is reached is the process's
 * last moment (SIGKILL). With BUDGET_FAILPOINT_LOG=FILE, names are appended when first reached. */
void budget_failpoint(const char *name);
#define BUDGET_FAILPOINT(name) budget_failpoint(name)
#else
#define BUDGET_FAILPOINT(name) ((void)0)
#endif

#endif
