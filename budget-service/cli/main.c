#include <stdio.h>

#include "base/exitcode.h"
#include "budget/harden.h"

int main(void)
{
    base_error error = {0};
    if (budget_harden_process(&error) != BASE_OK) {
        (void)fprintf(stderr, "budget-service: %s\n", error.message);
        return BASE_EXIT_ERROR;
    }
    (void)fputs("budget-service: no command yet\n", stderr);
    return BASE_EXIT_USAGE;
}
