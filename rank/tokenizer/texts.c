/* Reads files of text and counts their pieces. Called by program.c. */
#include "texts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "data/hub.h"
#include "data/lines.h"
#include "data/record.h"
#include "data/text_cut.h"

enum {
    BLOCK_BYTES = 1 << 20,
    PART_BYTES_MAX = 1 << 30, /* of a text without a place to cut */
};

typedef struct counting {
    const char *path;
    rank_hub *hub;
    rank_piece_table *table;
    char *text; /* (capacity) */
    size_t capacity;
    base_error *reterr;
} counting;

static base_status add_piece(void *context, const uint8_t *piece, size_t piece_bytes,
                             base_error *reterr)
{
    return rank_piece_table_add(context, piece, piece_bytes, reterr);
}

static base_status count_text(const counting *of, size_t text_bytes)
{
    return rank_hub_cut(of->hub, of->text, text_bytes, add_piece, of->table, of->reterr);
}

static base_status make_room(counting *of, size_t needed)
{
    size_t capacity = of->capacity == 0 ? BLOCK_BYTES : of->capacity;
    while (capacity < needed) {
        capacity *= 2;
    }
    if (capacity == of->capacity) {
        return BASE_OK;
    }
    if (capacity > PART_BYTES_MAX) {
        return base_fail(
            of->reterr, BASE_ERR_LIMIT,
            "%zu bytes without a space or a line's end between visible ASCII characters", needed);
    }
    char *larger = realloc(of->text, capacity);
    if (larger == NULL) {
        return base_fail(of->reterr, BASE_ERR_MEMORY, "no memory for a text of %zu bytes", needed);
    }
    of->text = larger;
    of->capacity = capacity;
    return BASE_OK;
}

static base_status count_line(counting *of, const rank_lines *lines)
{
    rank_record record;
    base_status status = rank_record_read(lines->line, lines->line_bytes, &record, of->reterr);
    if (status == BASE_OK) {
        status = make_room(of, rank_record_text_bytes(&record) + 1);
    }
    if (status == BASE_OK) {
        rank_record_text(&record, of->text);
        status = count_text(of, rank_record_text_bytes(&record));
    }
    rank_record_clear(&record);
    return status == BASE_OK
               ? BASE_OK
               : base_error_prepend(of->reterr, status, "%s:%" PRIu64, lines->path, lines->number);
}

static base_status count_lines(counting *of)
{
    rank_lines lines;
    base_status status = rank_lines_open(&lines, of->path, of->reterr);
    while (status == BASE_OK && rank_lines_next(&lines, &status, of->reterr)) {
        status = count_line(of, &lines);
    }
    rank_lines_close(&lines);
    return status;
}

/* Keeps what lies behind the last place to cut for the next block. */
static base_status count_blocks(counting *of, FILE *file)
{
    size_t held = 0;
    base_status status = make_room(of, BLOCK_BYTES);
    for (bool at_end = false; status == BASE_OK && !at_end;) {
        errno = 0;
        held += fread(of->text + held, 1, of->capacity - held, file);
        if (ferror(file)) {
            return base_fail_errno(of->reterr, errno, "cannot read it");
        }
        at_end = held < of->capacity;
        const size_t part_bytes = at_end ? held : rank_text_cut(of->text, held);
        status = count_text(of, part_bytes);
        held -= part_bytes;
        memmove(of->text, of->text + part_bytes, held);
        if (status == BASE_OK && !at_end) {
            status = make_room(of, held + 1);
        }
    }
    return status;
}

static base_status count_plain(counting *of)
{
    FILE *file = fopen(of->path, "re");
    if (file == NULL) {
        return base_fail_errno(of->reterr, errno, "cannot open %s", of->path);
    }
    const base_status status = count_blocks(of, file);
    (void)fclose(file);
    return status == BASE_OK ? BASE_OK : base_error_prepend(of->reterr, status, "%s", of->path);
}

base_status rank_texts_count(const char *path, rank_hub *hub, rank_piece_table *table,
                             base_error *reterr)
{
    counting of = {.path = path, .hub = hub, .table = table, .reterr = reterr};
    const base_status status = base_path_has_json_lines(path) ? count_lines(&of) : count_plain(&of);
    free(of.text);
    return status;
}
