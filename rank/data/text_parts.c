/* Reads texts part by part. Called by windows.c and tokenizer/texts.c. */
#include "text_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "limits.h"
#include "lines.h"
#include "record.h"
#include "text_cut.h"

static base_status no_memory(const char *path, base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the texts of %s", path);
}

/* Reads on behind *bytes of the block, until it is full or the file ends. */
static base_status fill_block(const char *path, int fd, char *block, size_t *bytes,
                              base_error *reterr)
{
    ssize_t got = 1;
    while (got > 0 && *bytes < RANK_DATA_BLOCK_BYTES) {
        got = read(fd, block + *bytes, RANK_DATA_BLOCK_BYTES - *bytes);
        *bytes += got > 0 ? (size_t)got : 0;
        got = got < 0 && errno == EINTR ? 1 : got;
    }
    return got >= 0 ? BASE_OK : base_fail_errno(reterr, errno, "cannot read %s", path);
}

/* Whether the file begins as editors on Windows begin UTF-16. */
static bool is_utf16(const char *block, size_t bytes)
{
    return bytes > 1 && (memcmp(block, "\xff\xfe", 2) == 0 || memcmp(block, "\xfe\xff", 2) == 0);
}

/* Refuses what is no text, as a compressed file. `before`: the file's bytes in front of the block. */
static base_status check_block(const char *path, const char *block, size_t bytes, uint64_t before,
                               base_error *reterr)
{
    const char *nul = memchr(block, '\0', bytes);
    if (nul != NULL && before == 0 && is_utf16(block, bytes)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s is UTF-16: save it as UTF-8, as by iconv -f UTF-16 -t UTF-8", path);
    }
    return nul == NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "%s is no text: byte %" PRIu64 " is a NUL",
                           path, before + (uint64_t)(nul - block) + 1);
}

static size_t skip_mark(char *block, size_t bytes)
{
    const size_t mark_bytes = base_utf8_mark(block, bytes);
    memmove(block, block + mark_bytes, bytes - mark_bytes);
    return bytes - mark_bytes;
}

base_status rank_text_parts_plain(const char *path, int fd, rank_text_take take, void *user,
                                  base_error *reterr)
{
    char *block = malloc(RANK_DATA_BLOCK_BYTES);
    rank_text_part part = {.at = block, .begins = true};
    uint64_t before = 0;
    base_status status = block != NULL ? BASE_OK : no_memory(path, reterr);
    for (size_t held = 0; status == BASE_OK && !part.ends;) {
        status = fill_block(path, fd, block, &held, reterr);
        status = status == BASE_OK ? check_block(path, block, held, before, reterr) : status;
        const size_t read_bytes = held;
        held = part.begins ? skip_mark(block, held) : held;
        before += read_bytes - held;
        if (status != BASE_OK || (held == 0 && part.begins)) {
            break;
        }
        part.ends = read_bytes < RANK_DATA_BLOCK_BYTES;
        part.bytes = part.ends ? held : rank_text_block(block, held);
        status = take(user, &part, reterr);
        part.begins = false;
        held -= part.bytes;
        before += part.bytes;
        memmove(block, block + part.bytes, held);
    }
    free(block);
    return status;
}

/* Room for the text of a record. */
typedef struct text_room {
    char *at;
    size_t bytes;
} text_room;

static bool make_room(text_room *room, size_t text_bytes)
{
    if (room->bytes <= text_bytes) {
        free(room->at);
        room->bytes = 2 * text_bytes + RANK_DATA_READ_BYTES;
        room->at = malloc(room->bytes);
    }
    return room->at != NULL;
}

static base_status take_line(const rank_lines *lines, text_room *room, rank_text_take take,
                             void *user, base_error *reterr)
{
    rank_record record;
    base_status status = rank_record_read(lines->line, lines->line_bytes, &record, reterr);
    const rank_record_kind kind = rank_record_kind_of(&record);
    rank_text_part part = {.begins = true,
                           .ends = true,
                           .is_pair = kind == RANK_RECORD_PAIR,
                           .is_asked = kind == RANK_RECORD_PROMPT || kind == RANK_RECORD_CHAT};
    if (status == BASE_OK) {
        part.bytes = rank_record_text_bytes(&record);
        status = make_room(room, part.bytes) ? BASE_OK : no_memory(lines->path, reterr);
    }
    if (status == BASE_OK) {
        rank_record_text(&record, room->at);
        part.at = room->at;
        status = take(user, &part, reterr);
    }
    rank_record_clear(&record);
    return status == BASE_OK
               ? BASE_OK
               : base_error_prepend(reterr, status, "%s:%" PRIu64, lines->path, lines->number);
}

base_status rank_text_parts_lines(const char *path, rank_text_take take, void *user,
                                  base_error *reterr)
{
    rank_lines lines;
    text_room room = {.at = NULL};
    base_status status = rank_lines_open(&lines, path, reterr);
    while (status == BASE_OK && rank_lines_next(&lines, &status, reterr)) {
        status = take_line(&lines, &room, take, user, reterr);
    }
    rank_lines_close(&lines);
    free(room.at);
    return status;
}
