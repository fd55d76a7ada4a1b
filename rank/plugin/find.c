/* Finds the libraries that the plugin needs. Called by load.c. */
#include "plugin/find.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"

/* Of drivers, of containers that get theirs from the host, of Windows' Linux, of the toolkit. */
static const char *const usual_directories[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
    "/usr/local/nvidia/lib64",   "/usr/lib/wsl/lib",           "/usr/local/cuda/lib64",
};

/* The cache's own layout. Offsets of strings count from its begin. */
typedef struct cache_header {
    char magic[20]; /* with the version */
    uint32_t entry_count;
    uint32_t string_bytes;
    uint32_t more[5];
} cache_header;

typedef struct cache_entry {
    int32_t flags;
    uint32_t name;
    uint32_t path;
    uint32_t os_version;
    uint64_t hardware;
} cache_entry;

_Static_assert(sizeof(cache_header) == 48 && sizeof(cache_entry) == 24, "as glibc writes them");

/* The string at the offset, if it ends inside the cache. */
static const char *string_at(const char *cache, size_t size_bytes, uint32_t offset)
{
    if (offset >= size_bytes || memchr(cache + offset, '\0', size_bytes - offset) == NULL) {
        return NULL;
    }
    return cache + offset;
}

const char *rank_linker_cache_find(const void *cache, size_t size_bytes, const char *name)
{
    static const char magic[] = "glibc-ld.so.cache1.1";
    cache_header header;
    if (size_bytes < sizeof header || memcmp(cache, magic, sizeof header.magic) != 0) {
        return NULL;
    }
    memcpy(&header, cache, sizeof header);
    if (header.entry_count > (size_bytes - sizeof header) / sizeof(cache_entry)) {
        return NULL;
    }
    for (uint32_t i = 0; i < header.entry_count; i++) {
        cache_entry entry;
        memcpy(&entry, (const char *)cache + sizeof header + i * sizeof entry, sizeof entry);
        const char *found = string_at(cache, size_bytes, entry.name);
        const char *path = string_at(cache, size_bytes, entry.path);
        if (found != NULL && path != NULL && path[0] == '/' && strcmp(found, name) == 0) {
            return path;
        }
    }
    return NULL;
}

/* Whether directory/name is a file. The directory must be absolute: it is given by a person, and
 * what it means must not change with the working directory. */
static bool is_there(const char *directory, const char *name, char path[BASE_PATH_BYTES])
{
    return directory[0] == '/' && base_path_join(directory, name, path, NULL) == BASE_OK &&
           access(path, R_OK) == 0;
}

bool rank_find_origin(char path[BASE_PATH_BYTES])
{
    const ssize_t length = readlink("/proc/self/exe", path, BASE_PATH_BYTES - 1);
    if (length <= 0) {
        return false;
    }
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    return true;
}

static bool find_beside(const char *name, char path[BASE_PATH_BYTES])
{
    char origin[BASE_PATH_BYTES];
    char directory[BASE_PATH_BYTES];
    return rank_find_origin(origin) && base_path_join(origin, "cuda", directory, NULL) == BASE_OK &&
           is_there(directory, name, path);
}

static bool find_in_cache(const char *name, char path[BASE_PATH_BYTES])
{
    void *cache = NULL;
    size_t size_bytes = 0;
    if (base_file_read("/etc/ld.so.cache", RANK_LINKER_CACHE_BYTES_MAX, &cache, &size_bytes,
                       NULL) != BASE_OK) {
        return false;
    }
    const char *found = rank_linker_cache_find(cache, size_bytes, name);
    const bool usable = found != NULL && strlen(found) < BASE_PATH_BYTES;
    if (usable) {
        (void)snprintf(path, BASE_PATH_BYTES, "%s", found);
    }
    free(cache);
    return usable && access(path, R_OK) == 0;
}

bool rank_find_library(const char *cuda_libs, const char *name, char path[BASE_PATH_BYTES])
{
    if (cuda_libs[0] != '\0' && is_there(cuda_libs, name, path)) {
        return true;
    }
    if (find_beside(name, path) || find_in_cache(name, path)) {
        return true;
    }
    for (size_t i = 0; i < sizeof usual_directories / sizeof *usual_directories; i++) {
        if (is_there(usual_directories[i], name, path)) {
            return true;
        }
    }
    path[0] = '\0';
    return false;
}
