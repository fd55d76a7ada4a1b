/* What a verdict is called, and the exit code that goes with it. */
#include "base/exitcode.h"
#include "budget/client.h"

typedef struct verdict_row {
    const char *name;
    int exit_code;
} verdict_row;

static const verdict_row rows[] = {
    [BUDGET_GRANTED] = {"granted", BASE_EXIT_DONE},
    [BUDGET_EXCEEDED] = {"exceeded", BASE_EXIT_OVER_CAP},
    [BUDGET_REFUSED] = {"refused", BASE_EXIT_REFUSED},
    [BUDGET_BAD_TOKEN] = {"bad-token", BASE_EXIT_BAD_TOKEN},
    [BUDGET_UNKNOWN] = {"unknown", BASE_EXIT_UNKNOWN},
    [BUDGET_BEHIND] = {"behind", BASE_EXIT_NEEDS_ATTENTION},
    [BUDGET_FAILED] = {"failed", BASE_EXIT_ERROR},
};

const char *budget_verdict_name(budget_verdict verdict)
{
    const size_t index = (size_t)verdict;
    return index < sizeof rows / sizeof rows[0] ? rows[index].name : "no verdict";
}

int budget_verdict_exit(budget_verdict verdict)
{
    const size_t index = (size_t)verdict;
    return index < sizeof rows / sizeof rows[0] ? rows[index].exit_code : BASE_EXIT_ERROR;
}
