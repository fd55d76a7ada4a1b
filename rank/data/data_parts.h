/* What the files that read data share with batch.c: the sentences of a rank's slots, and the batches that are made
 * of them. */
#ifndef RANK_DATA_PARTS_H
#define RANK_DATA_PARTS_H

#include "rank/data.h"

/* Or a window. */
typedef struct sentence {
    uint64_t offset; /* in ids, or in a file of tokens */
    uint32_t count;  /* inputs, behind which the last target stands */
    bool too_long;   /* it is longer than the context, and its ids are not kept */
} sentence;

/* How far a slot is in its epoch. */
typedef struct slot_state {
    uint32_t *order; /* (count), numbers of the slot's sentences in file order */
    uint32_t count;
    uint32_t next;
} slot_state;

typedef struct data_batch {
    int32_t *ids; /* (batch * context) */
    int32_t *targets;
    int32_t *window;        /* (context + 1), what is read of a file of tokens */
    int32_t *segment_start; /* (batch * context + 1) */
    int segments;
} data_batch;

struct rank_data {
    rank_data_options options;      /* path and tokenizer_sha256 are not kept */
    struct rank_token_file *tokens; /* NULL: sentences and ids are in memory */
    uint64_t sentences_total;
    /* This shard's sentences in file order. The shard's slots take turns: sentence n of a slot is at
     * n × slots_here + the slot's index. */
    sentence *sentences;
    size_t sentence_count;
    size_t sentence_capacity;
    int32_t *ids; /* of all sentences; ~id is no target */
    size_t id_count;
    size_t id_capacity;
    char *first_text; /* of the first sentence, or its beginning; NULL: there is none */
    uint64_t long_count;
    uint64_t records;
    uint64_t pairs;
    bool other_encoding; /* as in rank_data_info, */
    bool has_returns;    /* the same */
    uint64_t handed_out; /* in this epoch */
    uint64_t epoch;
    slot_state *slots; /* (slots_here) */
    data_batch batch;  /* the last one */
};

/* Counts one more sentence, or window, of the file. *mine: it is of this rank's slots.
 * BASE_ERR_LIMIT: there are too many. */
BASE_MUST_CHECK base_status rank_data_take_number(rank_data *data, const char *path, bool *mine,
                                                  base_error *reterr);

/* Makes room for one more sentence, and so many ids. */
BASE_MUST_CHECK bool rank_data_make_room(rank_data *data, size_t id_count);

/* For a text that is shown in one line: control characters become spaces. */
static inline void rank_data_join_lines(char *text, size_t text_bytes)
{
    for (size_t i = 0; i < text_bytes; i++) {
        const unsigned char byte = (unsigned char)text[i];
        text[i] = (char)(byte < ' ' || byte == 0x7f ? ' ' : byte);
    }
}

/* Where the slot with this index on this rank stands among the job's. */
static inline int64_t rank_data_slot_number(const rank_data_options *options, int64_t slot_index)
{
    return options->slot_first + slot_index * (options->slot_step > 0 ? options->slot_step : 1);
}

/* The sentence at a place of a slot's order. */
sentence rank_data_sentence(const rank_data *data, int slot_index, uint32_t place);

#endif
