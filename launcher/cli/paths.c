/* Finds the rank program, and resolves paths that need not exist yet. Called by cli.c and complete.c. */
#include "cli/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"

_Static_assert(BASE_PATH_BYTES <= PATH_MAX, "a path fits into realpath's buffer");

/* Cuts the last component off a path. */
static void cut_name(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
}

base_status launch_path_resolve(char path[BASE_PATH_BYTES], base_error *reterr)
{
    char standing[BASE_PATH_BYTES];
    char whole[PATH_MAX];
    (void)snprintf(standing, sizeof standing, "%s", path);
    while (realpath(standing[0] != '\0' ? standing : "/", whole) == NULL) {
        if (standing[0] == '\0') {
            return base_fail_errno(reterr, errno, "cannot resolve %s", path);
        }
        cut_name(standing);
    }
    size_t length = strcmp(whole, "/") == 0 ? 0 : strlen(whole);
    const char *rest = path + strlen(standing);
    while (*(rest += strspn(rest, "/")) != '\0') {
        const size_t name_bytes = strcspn(rest, "/");
        if (name_bytes == 2 && memcmp(rest, "..", 2) == 0) {
            return base_fail(reterr, BASE_ERR_INVALID, "%s: there is no %.*s", path,
                             (int)(rest - path - 1), path);
        }
        if (name_bytes > 1 || rest[0] != '.') {
            if (length + 1 + name_bytes >= BASE_PATH_BYTES) {
                return base_fail(reterr, BASE_ERR_LIMIT, "a path of more than %d bytes",
                                 BASE_PATH_BYTES);
            }
            whole[length] = '/';
            memcpy(whole + length + 1, rest, name_bytes);
            length += 1 + name_bytes;
        }
        rest += name_bytes;
    }
    whole[length] = '\0';
    (void)snprintf(path, BASE_PATH_BYTES, "%s", length > 0 ? whole : "/");
    return BASE_OK;
}

base_status launch_path_rank(char path[BASE_PATH_BYTES], base_error *reterr)
{
    base_status status = base_path_beside_program("rank", path, reterr);
    if (status == BASE_OK && access(path, X_OK) != 0) {
        status = base_fail_errno(
            reterr, errno, "cannot run the rank program, which stands beside the launcher: %s",
            path);
    }
    return status;
}
