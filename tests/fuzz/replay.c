/* Runs a fuzz target over the files of a directory, once each: fuzz-NAME DIRECTORY. */
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"

enum { INPUT_BYTES_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static bool replay(const char *directory, const char *name)
{
    char path[PATH_MAX];
    base_error error = {0};
    void *data = NULL;
    size_t size_bytes = 0;
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    if (base_file_read(path, INPUT_BYTES_MAX, &data, &size_bytes, &error) != BASE_OK) {
        (void)fprintf(stderr, "%s\n", error.message);
        return false;
    }
    (void)LLVMFuzzerTestOneInput(data, size_bytes);
    free(data);
    return true;
}

int main(int argument_count, char **arguments)
{
    DIR *directory = argument_count == 2 ? opendir(arguments[1]) : NULL;
    int count = 0;
    bool good = true;
    if (directory == NULL) {
        (void)fprintf(stderr, "usage: %s DIRECTORY (which must be there)\n", arguments[0]);
        return 2;
    }
    for (const struct dirent *entry = readdir(directory); entry != NULL;
         entry = readdir(directory)) {
        if (entry->d_name[0] != '.') {
            good = replay(arguments[1], entry->d_name) && good;
            count++;
        }
    }
    (void)closedir(directory);
    (void)printf("%d inputs\n", count);
    return good && count > 0 ? 0 : 1;
}
