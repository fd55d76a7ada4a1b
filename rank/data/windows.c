/* Texts of any length, cut into windows of as many tokens as the context has. Called by data.c. */
#include "windows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/grow.h"
#include "limits.h"
#include "lines.h"
#include "record.h"
#include "text_cut.h"

enum { IDS_FIRST = 1 << 16, WINDOWS_FIRST = 1024, SHOWN_IDS = 64 };

/* The tokens of a text stream through `window`. When it has one more than the context, that makes a
 * window, whose targets are the tokens from the second one on; and the last token begins the next. */
typedef struct cutter {
    rank_data *data;
    const char *path;
    int32_t *window; /* (context + 1) */
    size_t count;
    int32_t *ids; /* of a block of text */
    size_t capacity;
    char *text; /* of a line */
    size_t text_capacity;
} cutter;

static base_status no_memory(const cutter *self, base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the tokens of %s", self->path);
}

/* Room for so many more of the data's ids. */
static bool make_room(rank_data *data, size_t count)
{
    if (data->id_capacity - data->id_count >= count) {
        return true;
    }
    size_t capacity = data->id_capacity == 0 ? IDS_FIRST : data->id_capacity;
    while (capacity - data->id_count < count) {
        capacity *= 2;
    }
    int32_t *larger = realloc(data->ids, capacity * sizeof *larger);
    if (larger == NULL) {
        return false;
    }
    data->ids = larger;
    data->id_capacity = capacity;
    return true;
}

/* The window's first `inputs` tokens, and the one behind them, become one of the file's windows. */
static base_status emit(const cutter *self, size_t inputs, base_error *reterr)
{
    rank_data *data = self->data;
    bool mine = false;
    const base_status status = rank_data_take_number(data, self->path, &mine, reterr);
    if (status != BASE_OK || !mine) {
        return status;
    }
    sentence *larger = base_grow(data->sentences, data->sentence_count, &data->sentence_capacity,
                                 WINDOWS_FIRST, sizeof *larger);
    if (larger == NULL || !make_room(data, inputs + 1)) {
        data->sentences = larger != NULL ? larger : data->sentences;
        return no_memory(self, reterr);
    }
    data->sentences = larger;
    data->sentences[data->sentence_count++] =
        (sentence){.offset = data->id_count, .count = (uint32_t)inputs};
    memcpy(data->ids + data->id_count, self->window, (inputs + 1) * sizeof *data->ids);
    data->id_count += inputs + 1;
    return BASE_OK;
}

static base_status put(cutter *self, int32_t id, base_error *reterr)
{
    const size_t context = (size_t)self->data->options.context;
    self->window[self->count++] = id;
    if (self->count <= context) {
        return BASE_OK;
    }
    const base_status status = emit(self, context, reterr);
    self->window[0] = id;
    self->count = 1;
    return status;
}

static base_status put_all(cutter *self, const int32_t *ids, size_t count, base_error *reterr)
{
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < count; i++) {
        status = put(self, ids[i], reterr);
    }
    return status;
}

static base_status put_text(cutter *self, const char *text, size_t text_bytes, base_error *reterr)
{
    rank_ids ids = {.at = self->ids, .capacity = self->capacity};
    base_status status =
        rank_tokenizer_encode(self->data->options.tokenizer, text, text_bytes, &ids, reterr);
    if (status == BASE_OK && ids.count > self->capacity) {
        free(self->ids);
        self->capacity = ids.count;
        self->ids = malloc(ids.count * sizeof *self->ids);
        if (self->ids == NULL) {
            self->capacity = 0;
            return no_memory(self, reterr);
        }
        return put_text(self, text, text_bytes, reterr);
    }
    return status == BASE_OK ? put_all(self, ids.at, ids.count, reterr) : status;
}

static base_status begin_text(cutter *self, base_error *reterr)
{
    size_t count = 0;
    const int32_t *prefix = rank_tokenizer_prefix(self->data->options.tokenizer, &count);
    return put_all(self, prefix, count, reterr);
}

/* The end token is the last target. What is left over makes a shorter window. */
static base_status end_text(cutter *self, base_error *reterr)
{
    base_status status = put(self, rank_tokenizer_end_id(self->data->options.tokenizer), reterr);
    if (status == BASE_OK && self->count > 1) {
        status = emit(self, self->count - 1, reterr);
    }
    self->count = 0;
    return status;
}

/* How many bytes of a block are tokenized at once. In a text without a place to cut, up to its last character,
 * which may go on in the next block. */
static size_t cut_block(const char *block, size_t bytes)
{
    const size_t cut = rank_text_cut(block, bytes);
    size_t at = bytes;
    while (at > 2 && ((unsigned char)block[at - 1] & 0xc0U) == 0x80U) {
        at--;
    }
    return cut > 0 ? cut : at - 1;
}

/* Reads on behind *bytes of the block, until it is full or the file ends. */
static base_status fill_block(const cutter *self, int fd, char *block, size_t *bytes,
                              base_error *reterr)
{
    ssize_t got = 1;
    while (got > 0 && *bytes < RANK_DATA_BLOCK_BYTES) {
        got = read(fd, block + *bytes, RANK_DATA_BLOCK_BYTES - *bytes);
        *bytes += got > 0 ? (size_t)got : 0;
        got = got < 0 && errno == EINTR ? 1 : got;
    }
    return got >= 0 ? BASE_OK : base_fail_errno(reterr, errno, "cannot read %s", self->path);
}

static base_status put_file(cutter *self, int fd, char *block, base_error *reterr)
{
    size_t bytes = 0;
    bool begun = false; /* an empty text is none */
    base_status status = BASE_OK;
    for (bool more = true; status == BASE_OK && more;) {
        status = fill_block(self, fd, block, &bytes, reterr);
        if (status != BASE_OK) {
            return status;
        }
        more = bytes == RANK_DATA_BLOCK_BYTES;
        if (!begun && bytes > 0) {
            begun = true;
            status = begin_text(self, reterr);
        }
        const size_t cut = more ? cut_block(block, bytes) : bytes;
        status = status == BASE_OK ? put_text(self, block, cut, reterr) : status;
        bytes -= cut;
        memmove(block, block + cut, bytes);
    }
    return status;
}

static base_status read_plain(cutter *self, base_error *reterr)
{
    int fd = -1;
    base_status status = rank_lines_open_file(self->path, &fd, reterr);
    if (status != BASE_OK) {
        return status;
    }
    char *block = malloc(RANK_DATA_BLOCK_BYTES);
    status = block != NULL ? put_file(self, fd, block, reterr) : no_memory(self, reterr);
    if (status == BASE_OK && self->count > 0) {
        status = end_text(self, reterr);
    }
    free(block);
    (void)close(fd);
    return status;
}

static base_status put_line(cutter *self, const rank_lines *lines, base_error *reterr)
{
    rank_record record;
    base_status status = rank_record_read(lines->line, lines->line_bytes, &record, reterr);
    if (status != BASE_OK) {
        rank_record_clear(&record);
        return base_error_prepend(reterr, status, "%s:%" PRIu64, lines->path, lines->number);
    }
    const size_t bytes = rank_record_text_bytes(&record);
    self->data->records++;
    self->data->pairs += record.wrong.data != NULL ? 1 : 0;
    if (self->text_capacity <= bytes) {
        free(self->text);
        self->text_capacity = 2 * bytes + RANK_DATA_READ_BYTES;
        self->text = malloc(self->text_capacity);
    }
    if (self->text == NULL) {
        rank_record_clear(&record);
        self->text_capacity = 0;
        return no_memory(self, reterr);
    }
    rank_record_text(&record, self->text);
    rank_record_clear(&record);
    status = begin_text(self, reterr);
    if (status == BASE_OK) {
        status = put_text(self, self->text, bytes, reterr);
    }
    return status == BASE_OK ? end_text(self, reterr) : status;
}

static base_status read_lines(cutter *self, base_error *reterr)
{
    rank_lines lines;
    base_status status = rank_lines_open(&lines, self->path, reterr);
    while (status == BASE_OK && rank_lines_next(&lines, &status, reterr)) {
        status = put_line(self, &lines, reterr);
    }
    rank_lines_close(&lines);
    return status;
}

/* The beginning of the first window, which stands for it where texts are shown. */
static base_status show_first(rank_data *data, base_error *reterr)
{
    if (data->sentence_count == 0) {
        return BASE_OK;
    }
    const size_t count = base_min_size(data->sentences[0].count, SHOWN_IDS);
    const rank_tokenizer *tokenizer = data->options.tokenizer;
    const size_t bytes = rank_tokenizer_decode(tokenizer, data->ids, count, NULL, 0);
    data->texts = malloc(bytes + 1);
    if (data->texts == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a text");
    }
    (void)rank_tokenizer_decode(tokenizer, data->ids, count, data->texts, bytes + 1);
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char byte = (unsigned char)data->texts[i];
        data->texts[i] = (char)(byte < ' ' || byte == 0x7f ? ' ' : byte); /* for one line */
    }
    return BASE_OK;
}

base_status rank_windows_read(rank_data *data, const char *path, bool plain, base_error *reterr)
{
    cutter self = {.data = data, .path = path};
    self.window = malloc(((size_t)data->options.context + 1) * sizeof *self.window);
    base_status status = self.window != NULL ? BASE_OK : no_memory(&self, reterr);
    if (status == BASE_OK) {
        status = plain ? read_plain(&self, reterr) : read_lines(&self, reterr);
    }
    if (status == BASE_OK) {
        status = show_first(data, reterr);
    }
    free(self.window);
    free(self.ids);
    free(self.text);
    return status;
}
