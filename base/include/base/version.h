/* Which build a program is. This is a library of its own, ringfence::base_version. Any thread. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#include <stdbool.h>

/* "0.1.0" */
const char *base_version(void);

/* The commit that was built, with "-dirty" after it where files differ from it; "unknown" outside a checkout. */
const char *base_version_commit(void);

/* "0.1.0 (sources 0123456789abcdef)": the same text of all programs that were built from the same
 * sources, on any host, and of no others. */
const char *base_version_build(void);

/* Answers --version: prints "NAME (Ringfence) " and the build. */
void base_version_print(const char *program);

/* Answers it where --version is the only argument. False: it is not. */
bool base_version_asked(int argc, char *const *argv, const char *program);

#endif
