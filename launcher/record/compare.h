/* `launcher compare A B`: whether two saved states are the same, and if not, where they differ and
 * by how much. */
#ifndef LAUNCH_COMPARE_H
#define LAUNCH_COMPARE_H

#include <stdio.h>

#include "base/status.h"

typedef enum launch_likeness {
    LAUNCH_SAME_BYTES = 0, /* the files are byte for byte the same */
    LAUNCH_SAME_TENSORS =
        1, /* every tensor has the same bits; headers, order or number of files differ */
    LAUNCH_DIFFERENT = 2,
} launch_likeness;

/* Compares two saved states and prints the verdict on stream. For each tensor that differs it prints
 * the first difference, how many values differ, and the largest absolute difference. saved_state.h says
 * which files a path means: one, or the several that an index names. Of two checkpoints the optimizer's
 * moments are compared, too. A prefix "transformer." of names is ignored. All files are read completely
 * and checked strictly: BASE_ERR_INVALID, BASE_ERR_NOTFOUND, BASE_ERR_LIMIT, BASE_ERR_IO name the file.
 * A difference is a verdict, not an error. */
BASE_MUST_CHECK base_status launch_compare(const char *a, const char *b, FILE *stream,
                                           launch_likeness *likeness, base_error *reterr);

#endif
