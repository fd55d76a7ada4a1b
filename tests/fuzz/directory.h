/* A directory for one input, for what reads or writes files by their names. */
#ifndef FUZZ_DIRECTORY_H
#define FUZZ_DIRECTORY_H

#include <stddef.h>

enum { FUZZ_PATH_BYTES = 128 };

typedef struct fuzz_directory {
    char path[FUZZ_PATH_BYTES];
} fuzz_directory;

void fuzz_directory_make(fuzz_directory *directory);

/* path = that of a file of this name. */
void fuzz_directory_path(const fuzz_directory *directory, const char *name,
                         char path[FUZZ_PATH_BYTES]);

/* Writes a file; path as above. */
void fuzz_directory_put(const fuzz_directory *directory, const char *name, const void *data,
                        size_t size_bytes, char path[FUZZ_PATH_BYTES]);

/* With the files in it. */
void fuzz_directory_remove(const fuzz_directory *directory);

#endif
