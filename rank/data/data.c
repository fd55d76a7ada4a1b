/* Opens the data file for one rank's slots, and orders them epoch by epoch. Called by train/ for
 * training and for the held-out loss. */
#include "data_parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/grow.h"
#include "encode.h"
#include "limits.h"
#include "lines.h"
#include "record.h"
#include "slot.h"
#include "token_file.h"
#include "token_windows.h"
#include "windows.h"

enum {
    LIST_FIRST = 1 << 13, /* elements */
    IDS_ROOM = 1 << 10,   /* so many of a sentence are encoded once */
};

static base_status check_options(const rank_data_options *options, base_error *reterr)
{
    if (options->batch < 1 || options->context < 1 ||
        options->batch > RANK_DATA_BATCH_TOKENS_MAX / options->context) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a batch of %d rows of %d tokens, there must be 1 to %d tokens",
                         options->batch, options->context, (int)RANK_DATA_BATCH_TOKENS_MAX);
    }
    if (options->slot_count < 1 || options->slot_count > RANK_DATA_SLOTS_MAX ||
        options->slot_first < 0 || options->slots_here < 1 ||
        rank_data_slot_number(options, options->slots_here - 1) >= options->slot_count) {
        return base_fail(reterr, BASE_ERR_INVALID, "%d slots from slot %d on are not among %d",
                         options->slots_here, options->slot_first, options->slot_count);
    }
    return BASE_OK;
}

bool rank_data_make_room(rank_data *data, size_t id_count)
{
    int32_t *ids = base_reserve(data->ids, data->id_count, id_count, &data->id_capacity, LIST_FIRST,
                                sizeof *ids);
    data->ids = ids != NULL ? ids : data->ids;
    sentence *sentences = base_grow(data->sentences, data->sentence_count, &data->sentence_capacity,
                                    LIST_FIRST, sizeof *sentences);
    data->sentences = sentences != NULL ? sentences : data->sentences;
    return ids != NULL && sentences != NULL;
}

/* Of the first sentence, for one line. */
static bool keep_first_text(rank_data *data, const rank_record *record)
{
    const size_t bytes = rank_record_text_bytes(record);
    data->first_text = malloc(bytes + 1);
    if (data->first_text == NULL) {
        return false;
    }
    rank_record_text(record, data->first_text);
    rank_data_join_lines(data->first_text, bytes);
    return true;
}

/* Encodes a record behind the ids that are there. */
static base_status encode(rank_data *data, const rank_record *record, size_t *count,
                          base_error *reterr)
{
    size_t room = IDS_ROOM;
    for (;;) {
        if (!rank_data_make_room(data, room)) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a sentence");
        }
        rank_ids ids = {.at = data->ids + data->id_count, .capacity = room};
        const base_status status = rank_data_encode(&data->options, record, &ids, reterr);
        *count = ids.count;
        if (status != BASE_OK || ids.count <= room) {
            return status;
        }
        room = ids.count;
    }
}

static base_status keep_record(rank_data *data, const rank_record *record, base_error *reterr)
{
    size_t count = 0;
    const base_status status = encode(data, record, &count, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (data->first_text == NULL && !keep_first_text(data, record)) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a sentence");
    }
    sentence *one = &data->sentences[data->sentence_count++];
    *one = (sentence){.offset = data->id_count, .count = (uint32_t)count - 1};
    one->too_long = one->count > (uint32_t)data->options.context;
    data->id_count += one->too_long ? 0 : count;
    data->long_count += one->too_long ? 1 : 0;
    data->records++;
    data->pairs += rank_record_kind_of(record) == RANK_RECORD_PAIR ? 1 : 0;
    return BASE_OK;
}

static base_status keep_line(rank_data *data, const rank_lines *lines, base_error *reterr)
{
    rank_record record;
    base_status status = rank_record_read(lines->line, lines->line_bytes, &record, reterr);
    if (status == BASE_OK) {
        status = keep_record(data, &record, reterr);
    }
    rank_record_clear(&record);
    return status == BASE_OK
               ? BASE_OK
               : base_error_prepend(reterr, status, "%s:%" PRIu64, lines->path, lines->number);
}

static bool is_mine(const rank_data_options *options, uint64_t index)
{
    const int64_t behind = (int64_t)(index % (uint64_t)options->slot_count) - options->slot_first;
    const int64_t step = options->slot_step > 0 ? options->slot_step : 1;
    return behind >= 0 && behind % step == 0 && behind / step < options->slots_here;
}

base_status rank_data_take_number(rank_data *data, const char *path, bool *mine, base_error *reterr)
{
    if (data->sentences_total == RANK_DATA_SENTENCES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "%s has more than %d %s", path,
                         (int)RANK_DATA_SENTENCES_MAX, data->options.windows ? "windows" : "lines");
    }
    *mine = is_mine(&data->options, data->sentences_total++);
    return BASE_OK;
}

static base_status read_file(rank_data *data, const char *path, base_error *reterr)
{
    rank_lines lines;
    base_status status = rank_lines_open(&lines, path, reterr);
    while (status == BASE_OK && rank_lines_next(&lines, &status, reterr)) {
        bool mine = false;
        status = rank_data_take_number(data, path, &mine, reterr);
        if (status == BASE_OK && mine) {
            status = keep_line(data, &lines, reterr);
        }
    }
    rank_lines_close(&lines);
    return status;
}

sentence rank_data_sentence(const rank_data *data, int slot_index, uint32_t place)
{
    const size_t number = data->slots[slot_index].order[place];
    return data->tokens != NULL
               ? rank_token_window(data, slot_index, number)
               : data->sentences[number * (size_t)data->options.slots_here + (size_t)slot_index];
}

static void order_slots(rank_data *data)
{
    for (int i = 0; i < data->options.slots_here; i++) {
        slot_state *slot = &data->slots[i];
        slot->next = 0;
        rank_slot_order(data->options.seed, (int)rank_data_slot_number(&data->options, i),
                        data->epoch, slot->order, slot->count);
    }
}

static bool open_batch(data_batch *batch, size_t tokens, size_t context)
{
    batch->window = calloc(context + 1, sizeof *batch->window);
    batch->ids = calloc(tokens, sizeof *batch->ids);
    batch->targets = calloc(tokens, sizeof *batch->targets);
    batch->segment_start = calloc(tokens + 1, sizeof *batch->segment_start);
    return batch->window != NULL && batch->ids != NULL && batch->targets != NULL &&
           batch->segment_start != NULL;
}

static void close_batch(data_batch *batch)
{
    free(batch->window);
    free(batch->ids);
    free(batch->targets);
    free(batch->segment_start);
}

static base_status make_slots(rank_data *data, base_error *reterr)
{
    const size_t tokens = (size_t)data->options.batch * (size_t)data->options.context;
    data->slots = calloc((size_t)data->options.slots_here, sizeof *data->slots);
    bool made =
        data->slots != NULL && open_batch(&data->batch, tokens, (size_t)data->options.context);
    for (int i = 0; i < data->options.slots_here && made; i++) {
        slot_state *slot = &data->slots[i];
        slot->count = (uint32_t)rank_slot_size(data->sentences_total, data->options.slot_count,
                                               (int)rank_data_slot_number(&data->options, i));
        slot->order = calloc((size_t)slot->count + 1, sizeof *slot->order);
        made = slot->order != NULL;
    }
    if (!made) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for batches of %zu tokens", tokens);
    }
    order_slots(data);
    return BASE_OK;
}

static base_status read_any(rank_data *data, const rank_data_options *options, base_error *reterr)
{
    return options->tokens         ? rank_token_windows_open(data, options->path, reterr)
           : data->options.windows ? rank_windows_read(data, options->path, options->plain, reterr)
                                   : read_file(data, options->path, reterr);
}

base_status rank_data_open(const rank_data_options *options, rank_data **data, base_error *reterr)
{
    *data = NULL;
    base_status status = check_options(options, reterr);
    if (status != BASE_OK) {
        return status;
    }
    rank_data *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the data");
    }
    made->options = *options;
    made->options.path = NULL;
    made->options.windows = options->windows || options->plain || options->tokens;
    status = read_any(made, options, reterr);
    if (status == BASE_OK && made->sentences_total == 0) {
        status = base_fail(reterr, BASE_ERR_INVALID, "%s has no %s", options->path,
                           made->options.windows ? "text" : "sentences");
    }
    made->options.tokenizer_sha256 = NULL;
    if (status == BASE_OK) {
        status = make_slots(made, reterr);
    }
    if (status != BASE_OK) {
        rank_data_close(made);
        return status;
    }
    *data = made;
    return BASE_OK;
}

void rank_data_close(rank_data *data)
{
    if (data == NULL) {
        return;
    }
    for (int i = 0; i < data->options.slots_here && data->slots != NULL; i++) {
        free(data->slots[i].order);
    }
    free(data->slots);
    free(data->sentences);
    free(data->first_text);
    free(data->ids);
    rank_token_file_close(data->tokens);
    close_batch(&data->batch);
    free(data);
}

void rank_data_get_info(const rank_data *data, rank_data_info *info)
{
    *info = (rank_data_info){.sentences_total = data->sentences_total,
                             .sentences_shard = data->sentence_count,
                             .sentences_long = data->long_count,
                             .records = data->records,
                             .pairs = data->pairs,
                             .other_encoding = data->other_encoding,
                             .has_returns = data->has_returns,
                             .first_sentence = data->first_text != NULL ? data->first_text : ""};
}

uint64_t rank_data_remaining(const rank_data *data)
{
    return data->sentence_count - data->long_count - data->handed_out;
}

void rank_data_next_epoch(rank_data *data)
{
    data->epoch++;
    data->handed_out = 0;
    order_slots(data);
}

uint32_t rank_data_position(const rank_data *data, int slot_index)
{
    BASE_ASSERT(slot_index >= 0);
    BASE_ASSERT(slot_index < data->options.slots_here);
    return data->slots[slot_index].next;
}

base_status rank_data_seek(rank_data *data, uint64_t epoch, const uint32_t *positions,
                           base_error *reterr)
{
    data->epoch = epoch;
    data->handed_out = 0;
    order_slots(data);
    for (int i = 0; i < data->options.slots_here; i++) {
        slot_state *slot = &data->slots[i];
        if (positions[i] > slot->count) {
            return base_fail(
                reterr, BASE_ERR_INVALID, "slot %d has %u sentences, and was to go on after %u",
                (int)rank_data_slot_number(&data->options, i), slot->count, positions[i]);
        }
        for (; slot->next < positions[i]; slot->next++) {
            data->handed_out += !rank_data_sentence(data, i, slot->next).too_long;
        }
    }
    return BASE_OK;
}
