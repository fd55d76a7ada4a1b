/* One line of the data file: an object with "messages"; or with "text", or "wrong" and "right", or all three; or
 * with "prompt" and "completion". Where it has members of several of these, the first of them in this order are
 * read. "conversations" are messages by other names (messages.h).
 *
 * If all members are plain strings, the line is read without a copy. Anything else (escapes,
 * numbers, nesting, and every wrong line) goes to jansson, which decides. Both give the same
 * answer. Members of other names are allowed and ignored. A byte order mark that a text begins with is left out: it
 * is what the text's file began with. */
#ifndef RANK_DATA_RECORD_H
#define RANK_DATA_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct rank_record_string {
    const char *data; /* NULL: the line has no such member; not terminated */
    size_t bytes;
} rank_record_string;

typedef struct rank_record {
    rank_record_string text; /* NULL: it follows from wrong and right */
    rank_record_string wrong;
    rank_record_string right;
    rank_record_string prompt; /* with a completion, of a line that has nothing of the above */
    rank_record_string completion;
    rank_record_string messages; /* of a chat, with its tools: as in a request (proto/request.h) */
    uint32_t message_count;
    const uint8_t *passed_over; /* (message_count): chat.h; behind the messages */
    void *owner; /* owns the strings if they are not in the line, but for the messages */
} rank_record;

/* What a line is. */
typedef enum rank_record_kind {
    RANK_RECORD_TEXT,
    RANK_RECORD_PAIR, /* "WRONG → RIGHT" */
    RANK_RECORD_PROMPT,
    RANK_RECORD_CHAT,
} rank_record_kind;

rank_record_kind rank_record_kind_of(const rank_record *record);

/* Reads a line without its newline. The strings point into the line or into *record, which the
 * caller clears in both cases. BASE_ERR_INVALID: not UTF-8, not an object, a name twice, nothing to learn
 * from, "text" or "completion" empty, a member that is not a string, one of "wrong" and "right" or of "prompt" and
 * "completion" without the other, all three where the text is not "WRONG → RIGHT"; or "messages" that are no
 * array of objects with a "role" that a message may have, and texts as "content", or whose tools or calls are none. */
BASE_MUST_CHECK base_status rank_record_read(const char *line, size_t line_bytes,
                                             rank_record *record, base_error *reterr);
void rank_record_clear(rank_record *record);

/* The same by jansson alone, and by the quick parser alone (false: it does not decide). For
 * tests. */
BASE_MUST_CHECK base_status rank_record_read_slow(const char *line, size_t line_bytes,
                                                  rank_record *record, base_error *reterr);
bool rank_record_read_quick(const char *line, size_t line_bytes, rank_record *record);

/* The bytes of the record's text, without a NUL. That of a prompt has its completion behind it, and that of a chat is
 * the contents of its messages, a line end behind each. */
size_t rank_record_text_bytes(const rank_record *record);
/* Writes the text, and a NUL behind it. */
void rank_record_text(const rank_record *record, char *text);

/* How many bytes of the text are asked: a pair's up to its arrow, without the space behind it, or the prompt. The
 * rest is the answer. 0: of a text. Not of a chat. */
size_t rank_record_asked_bytes(const rank_record *record);

#endif
