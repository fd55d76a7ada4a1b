/* Makes and removes the directory of one input. Called by the fuzz targets whose parsers take a path. */
#include "directory.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"

void fuzz_directory_make(fuzz_directory *directory)
{
    (void)snprintf(directory->path, sizeof directory->path, "/tmp/ringfence-fuzz-XXXXXX");
    const char *made = mkdtemp(directory->path);
    BASE_ASSERT(made != NULL);
}

void fuzz_directory_path(const fuzz_directory *directory, const char *name,
                         char path[FUZZ_PATH_BYTES])
{
    const int length = snprintf(path, FUZZ_PATH_BYTES, "%s/%s", directory->path, name);
    BASE_ASSERT(length < FUZZ_PATH_BYTES);
}

void fuzz_directory_put(const fuzz_directory *directory, const char *name, const void *data,
                        size_t size_bytes, char path[FUZZ_PATH_BYTES])
{
    fuzz_directory_path(directory, name, path);
    FILE *file = fopen(path, "w");
    BASE_ASSERT(file != NULL);
    const size_t written = fwrite(data, 1, size_bytes, file);
    const int closed = fclose(file);
    BASE_ASSERT(written == size_bytes);
    BASE_ASSERT(closed == 0);
}

void fuzz_directory_remove(const fuzz_directory *directory)
{
    DIR *entries = opendir(directory->path);
    BASE_ASSERT(entries != NULL);
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        (void)unlinkat(dirfd(entries), entry->d_name, 0); /* "." and ".." are refused */
    }
    (void)closedir(entries);
    const int removed = rmdir(directory->path);
    BASE_ASSERT(removed == 0);
}
