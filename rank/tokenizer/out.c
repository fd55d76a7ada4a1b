/* Prepares the file of --out. Called by program.c and encode.c. */
#include "out.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"

base_status rank_out_prepare(const char *path, base_error *reterr)
{
    char directory[BASE_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    if (strlen(path) >= sizeof directory) {
        return base_fail(reterr, BASE_ERR_LIMIT, "the path of --out is too long");
    }
    if (slash != NULL && slash != path) {
        (void)snprintf(directory, sizeof directory, "%.*s", (int)(slash - path), path);
        const base_status status = base_mkdirs(directory, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    return base_file_check_writable(path, reterr);
}
