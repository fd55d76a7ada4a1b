/* One line of the data file: an object with "text", or with "wrong" and "right", or with all three.
 *
 * A line whose members are all plain strings is read where it stands; anything else (escapes,
 * numbers, nesting, and every line that is wrong) goes to jansson, which decides. Both ways give
 * the same answer. Members of other names are allowed and left out. */
#ifndef RANK_DATA_RECORD_H
#define RANK_DATA_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct rank_record_string {
    const char *data; /* NULL: the line has no such member; not terminated */
    size_t bytes;
} rank_record_string;

typedef struct rank_record {
    rank_record_string text; /* NULL where wrong and right say it */
    rank_record_string wrong;
    rank_record_string right;
    void *owner; /* what the strings lie in, where that is not the line */
} rank_record;

/* Reads a line without its newline. The strings point into the line or into *record, which the
 * caller clears in both cases. BASE_ERR_INVALID: not UTF-8, not an object, a name twice, "text"
 * empty, or missing without "wrong" and "right", a member that is no string, one of "wrong" and
 * "right" without the other, or a text that is not "WRONG → RIGHT" where both are there. */
BASE_MUST_CHECK base_status rank_record_read(const char *line, size_t line_bytes,
                                             rank_record *record, base_error *reterr);
void rank_record_clear(rank_record *record);

/* The same by jansson alone, and the quick way alone (false: it does not decide). For tests. */
BASE_MUST_CHECK base_status rank_record_read_slow(const char *line, size_t line_bytes,
                                                  rank_record *record, base_error *reterr);
bool rank_record_read_quick(const char *line, size_t line_bytes, rank_record *record);

/* Bytes of the text up to and with the arrow that a space follows (the first one); 0: none. */
size_t rank_record_arrow_end(const char *text, size_t text_bytes);

#endif
