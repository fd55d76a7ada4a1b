/* Assertions. They stay on in release builds. Each has one condition without effects, and states
 * only what our own code promises. Data from a socket, a file, the environment, the command line or
 * a peer's shared memory is never asserted. It is checked and refused. */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

#include "base/status.h"

#define BASE_ASSERT(condition)                                                                     \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0)) {                                                   \
            base_assert_failed(#condition, __FILE__, __LINE__);                                    \
        }                                                                                          \
    } while (0)

/* Prints the condition, file and line on stderr, and aborts the process. */
BASE_NORETURN void base_assert_failed(const char *condition, const char *file, int line);

#endif
