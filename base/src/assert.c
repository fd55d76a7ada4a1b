/* The failing half of base/assert.h: prints condition, file and line, and aborts. Reached only from
 * the BASE_ASSERT macro. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void base_assert_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
