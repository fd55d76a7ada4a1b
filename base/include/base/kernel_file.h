/* Small text files of the kernel, below /proc and /sys. Their paths are printed from a format. Such a
 * file often has no content, or is not there: then the functions say false. Thread safe. */
#ifndef BASE_KERNEL_FILE_H
#define BASE_KERNEL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The file's first line without its newline, cut at size_bytes - 1. If false, the line is "". */
bool base_kernel_line(char *line, size_t size_bytes, const char *path_format, ...)
    BASE_PRINTF(3, 4);

/* The number of the first line that is `key` and then a number; with an empty key, the file's first
 * number. If false, as with "max" for no limit, *number stays as it was. */
bool base_kernel_number(int64_t *number, const char *key, const char *path_format, ...)
    BASE_PRINTF(3, 4);

#endif
