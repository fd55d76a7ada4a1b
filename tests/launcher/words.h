/* Command lines of the launcher, for tests of what becomes of them. */
#ifndef TEST_WORDS_H
#define TEST_WORDS_H

#include "launch/options.h"
#include "support.h"

enum { ARGS_MAX = 32 };

/* Parses "launcher WORDS…" (NULL-terminated). */
static inline base_status parse(launch_options *options, const char *const *given,
                                base_error *error)
{
    static char copies[ARGS_MAX][256];
    char *arguments[ARGS_MAX + 1] = {0};
    int count = 0;
    (void)snprintf(copies[0], sizeof copies[0], "launcher");
    arguments[count++] = copies[0];
    for (int i = 0; given[i] != NULL && count < ARGS_MAX; i++) {
        (void)snprintf(copies[count], sizeof copies[0], "%s", given[i]);
        arguments[count] = copies[count];
        count++;
    }
    return launch_options_parse(count, arguments, options, error);
}

/* "launcher WORDS…" is refused with the message; where that is NULL, it is accepted. */
static inline void assert_refused(const char *const *given, const char *message)
{
    static launch_options options;
    base_error error = {.message = ""};
    const base_status status = parse(&options, given, &error);
    if (message == NULL) {
        assert_ok(status, &error);
    } else {
        assert_status(status, BASE_ERR_INVALID);
        assert_string_equal(error.message, message);
    }
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

#endif
