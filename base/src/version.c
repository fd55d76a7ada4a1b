/* Says which build a program is. build_commit.cmake has looked at the sources. Used by programs for
 * --version, by launchers and ranks to refuse others, and for the record of a run. */
#include "base/version.h"

#include <stdio.h>
#include <string.h>

#include "build_commit.h"

const char *base_version(void)
{
    return RINGFENCE_VERSION;
}

const char *base_version_commit(void)
{
    return BASE_BUILD_COMMIT;
}

const char *base_version_build(void)
{
    return RINGFENCE_VERSION " (sources " BASE_BUILD_SOURCES ")";
}

void base_version_print(const char *program)
{
    (void)printf("%s (Ringfence) %s\n", program, base_version_build());
}

bool base_version_asked(int argc, char *const *argv, const char *program)
{
    const bool asked = argc == 2 && strcmp(argv[1], "--version") == 0;
    if (asked) {
        base_version_print(program);
    }
    return asked;
}
