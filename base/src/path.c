/* Joins paths, makes them absolute, finds what stands beside the program, and knows what their endings say. Called by
 * fields.c, the launcher, rank, budget-service, proto, tokenizer-learn and tokenizer-encode. */
#include "base/path.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

base_status base_path_absolute(const char *path, char *absolute, size_t size_bytes,
                               base_error *reterr)
{
    char directory[BASE_PATH_BYTES] = "";
    if (path[0] == '\0') {
        return base_fail(reterr, BASE_ERR_INVALID, "is empty");
    }
    if (path[0] != '/' && getcwd(directory, sizeof directory) == NULL) {
        return base_fail_errno(reterr, errno, "cannot find the working directory");
    }
    const int length = snprintf(absolute, size_bytes, "%s%s%s", directory,
                                path[0] == '/' || strcmp(directory, "/") == 0 ? "" : "/", path);
    if (length < 0 || (size_t)length >= size_bytes) {
        return base_fail(reterr, BASE_ERR_LIMIT, "longer than %zu bytes", size_bytes - 1);
    }
    while (absolute[0] != '\0' && absolute[1] != '\0' && absolute[strlen(absolute) - 1] == '/') {
        absolute[strlen(absolute) - 1] = '\0'; /* OUT/ and OUT are one directory */
    }
    return BASE_OK;
}

/* Cuts the last component off a path. */
static void cut_name(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
}

base_status base_path_beside_program(const char *relative, char path[BASE_PATH_BYTES],
                                     base_error *reterr)
{
    char directory[BASE_PATH_BYTES];
    const ssize_t length = readlink("/proc/self/exe", directory, sizeof directory - 1);
    if (length < 0) {
        return base_fail_errno(reterr, errno, "cannot find the path of this program");
    }
    directory[length] = '\0';
    cut_name(directory);
    for (; strncmp(relative, "../", 3) == 0; relative += 3) {
        cut_name(directory);
    }
    return base_path_join(directory, relative, path, reterr);
}

base_status base_path_share(char path[BASE_PATH_BYTES], base_error *reterr)
{
    const base_status status = base_path_beside_program(RINGFENCE_SHARE_FROM_BIN, path, reterr);
    if (status != BASE_OK || access(path, F_OK) == 0) {
        return status;
    }
    char built[BASE_PATH_BYTES]; /* in a build directory */
    if (base_path_beside_program("../share/ringfence", built, reterr) == BASE_OK &&
        access(built, F_OK) == 0) {
        memcpy(path, built, sizeof built);
    }
    return BASE_OK;
}

static bool is_program(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

base_status base_path_program(const char *name, char path[BASE_PATH_BYTES], base_error *reterr)
{
    const char *directories = getenv("PATH");
    if (name[0] == '\0') {
        return base_fail(reterr, BASE_ERR_NOTFOUND, "the program behind -- has an empty name");
    }
    if (strchr(name, '/') != NULL) {
        const int length = snprintf(path, BASE_PATH_BYTES, "%s", name);
        if (length >= BASE_PATH_BYTES || access(path, F_OK) != 0) {
            return base_fail(reterr, BASE_ERR_NOTFOUND, "there is no program %s", name);
        }
        return is_program(path) ? BASE_OK
                                : base_fail(reterr, BASE_ERR_IO,
                                            "%s cannot be run: it is not an executable file", name);
    }
    directories = directories != NULL ? directories : "/usr/local/bin:/usr/bin:/bin";
    while (*directories != '\0') {
        const int directory_bytes = (int)strcspn(directories, ":");
        const int length =
            snprintf(path, BASE_PATH_BYTES, "%.*s/%s", directory_bytes, directories, name);
        if (directory_bytes > 0 && length < BASE_PATH_BYTES && is_program(path)) {
            return BASE_OK;
        }
        directories += directory_bytes;
        directories += *directories == ':' ? 1 : 0;
    }
    return base_fail(reterr, BASE_ERR_NOTFOUND,
                     "there is no program %s in PATH (a file of this directory is ./%s)", name,
                     name);
}

base_status base_path_join(const char *directory, const char *name, char path[BASE_PATH_BYTES],
                           base_error *reterr)
{
    const int length = snprintf(path, BASE_PATH_BYTES, "%s%s%s", directory,
                                strcmp(directory, "/") == 0 ? "" : "/", name);
    return length < BASE_PATH_BYTES
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_LIMIT, "a path of more than %d bytes", BASE_PATH_BYTES);
}

static bool ends_in(const char *path, const char *ending)
{
    const size_t path_bytes = strlen(path);
    const size_t bytes = strlen(ending);
    return path_bytes >= bytes && strcmp(path + path_bytes - bytes, ending) == 0;
}

bool base_path_has_json_lines(const char *path)
{
    return ends_in(path, ".jsonl") || ends_in(path, ".ndjson") || ends_in(path, ".json");
}

bool base_path_has_tokens(const char *path)
{
    return ends_in(path, ".safetensors");
}
