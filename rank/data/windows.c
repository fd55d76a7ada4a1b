/* Texts of any length, cut into windows of as many tokens as the context has. Called by data.c, and by token_windows.c to show a
 * window. */
#include "windows.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/utf8.h"
#include "limits.h"
#include "lines.h"
#include "text_parts.h"

/* The tokens of a text stream through `window`. When it has one more than the context, that makes a
 * window, whose targets are the tokens from the second one on; and the last token begins the next. */
typedef struct cutter {
    rank_data *data;
    const char *path;
    int32_t *window; /* (context + 1) */
    size_t count;
    int32_t *ids; /* of a part of a text */
    size_t capacity;
} cutter;

static base_status no_memory(const cutter *self, base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the tokens of %s", self->path);
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
    if (!rank_data_make_room(data, inputs + 1)) {
        return no_memory(self, reterr);
    }
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

static base_status put_text(cutter *self, const rank_text_part *part, base_error *reterr)
{
    const rank_tokenizer_text text = {
        .at = part->at,
        .bytes = part->bytes,
        .place = part->begins ? RANK_TOKENIZER_BEGINS : RANK_TOKENIZER_GOES_ON,
    };
    rank_ids ids = {.at = self->ids, .capacity = self->capacity};
    base_status status =
        rank_tokenizer_encode_text(self->data->options.tokenizer, &text, &ids, reterr);
    if (status == BASE_OK && ids.count > self->capacity) {
        free(self->ids);
        self->capacity = ids.count;
        self->ids = malloc(ids.count * sizeof *self->ids);
        if (self->ids == NULL) {
            self->capacity = 0;
            return no_memory(self, reterr);
        }
        return put_text(self, part, reterr);
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

static base_status put_part(void *user, const rank_text_part *part, base_error *reterr)
{
    cutter *self = user;
    if (part->is_asked) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "prompts and chats are not cut into windows (--windows)");
    }
    base_status status = part->begins ? begin_text(self, reterr) : BASE_OK;
    if (status == BASE_OK) {
        status = put_text(self, part, reterr);
    }
    self->data->other_encoding =
        self->data->other_encoding || !base_utf8_valid(part->at, part->bytes);
    self->data->has_returns =
        self->data->has_returns || memmem(part->at, part->bytes, "\r\n", 2) != NULL;
    self->data->records += part->ends ? 1 : 0;
    self->data->pairs += part->is_pair ? 1 : 0;
    return status == BASE_OK && part->ends ? end_text(self, reterr) : status;
}

static base_status read_plain(cutter *self, base_error *reterr)
{
    int fd = -1;
    base_status status = rank_lines_open_file(self->path, &fd, reterr);
    if (status == BASE_OK) {
        status = rank_text_parts_plain(self->path, fd, put_part, self, reterr);
        (void)close(fd);
    }
    return status;
}

base_status rank_windows_show(rank_data *data, const int32_t *ids, size_t count, base_error *reterr)
{
    const rank_tokenizer *tokenizer = data->options.tokenizer;
    const size_t bytes = rank_tokenizer_decode(tokenizer, ids, count, NULL, 0);
    data->first_text = malloc(bytes + 1);
    if (data->first_text == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a text");
    }
    (void)rank_tokenizer_decode(tokenizer, ids, count, data->first_text, bytes + 1);
    rank_data_join_lines(data->first_text, bytes);
    return BASE_OK;
}

base_status rank_windows_read(rank_data *data, const char *path, bool plain, base_error *reterr)
{
    cutter self = {.data = data, .path = path};
    self.window = malloc(((size_t)data->options.context + 1) * sizeof *self.window);
    base_status status = self.window != NULL ? BASE_OK : no_memory(&self, reterr);
    if (status == BASE_OK) {
        status = plain ? read_plain(&self, reterr)
                       : rank_text_parts_lines(path, put_part, &self, reterr);
    }
    if (status == BASE_OK && data->sentence_count > 0) {
        const size_t shown = base_min_size(data->sentences[0].count, RANK_WINDOWS_SHOWN_IDS);
        status = rank_windows_show(data, data->ids, shown, reterr);
    }
    free(self.window);
    free(self.ids);
    return status;
}
