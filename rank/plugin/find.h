/* Where a library is, without the environment. Private to the directory. */
#ifndef RANK_PLUGIN_FIND_H
#define RANK_PLUGIN_FIND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"

enum { RANK_LINKER_CACHE_BYTES_MAX = 32 << 20 };

/* The absolute path of the file `name` in the first place of plugin.h that has it. False: none. */
bool rank_find_library(const char *cuda_libs, const char *name, char path[BASE_PATH_BYTES]);

/* The directory of this program, without a slash at the end. False if /proc does not say it. */
bool rank_find_origin(char path[BASE_PATH_BYTES]);

/* Looks a name up in the bytes of the dynamic linker's cache (glibc-ld.so.cache1.1): the path of
 * its first entry. NULL: there is none, or the cache is not as it must be. */
const char *rank_linker_cache_find(const void *cache, size_t size_bytes, const char *name);

#endif
