/* Which libcoll this is. */
#ifndef COLL_VERSION_H
#define COLL_VERSION_H

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0"; static. Before 1.0, only the same minor version is compatible. */
const char *coll_version(void);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
