/* Reads a line or a number of the kernel's files. Called for limits of control groups, the identity of
 * a host, and what sysfs says about devices. */
#include "base/kernel_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

static FILE *open_printed(const char *path_format, va_list arguments) BASE_PRINTF(1, 0);
static FILE *open_printed(const char *path_format, va_list arguments)
{
    char path[2 * BASE_PATH_BYTES];
    const int length = vsnprintf(path, sizeof path, path_format, arguments);
    return length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
}

bool base_kernel_line(char *line, size_t size_bytes, const char *path_format, ...)
{
    va_list arguments;
    va_start(arguments, path_format);
    FILE *file = open_printed(path_format, arguments);
    va_end(arguments);
    const bool found = file != NULL && fgets(line, (int)size_bytes, file) != NULL;
    line[found ? strcspn(line, "\n") : 0] = '\0';
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

bool base_kernel_number(int64_t *number, const char *key, const char *path_format, ...)
{
    char line[BASE_PATH_BYTES];
    bool found = false;
    va_list arguments;
    va_start(arguments, path_format);
    FILE *file = open_printed(path_format, arguments);
    va_end(arguments);
    while (!found && file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            const char *from = line + strlen(key);
            char *end = NULL;
            const long long read = strtoll(from, &end, 10);
            found = end != from;
            *number = found ? read : *number;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}
