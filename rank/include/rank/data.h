/* The training data: a JSONL file of sentences, cut into slots, packed into batches.
 *
 * A line is an object with "text" (a user's file), or with "wrong" and "right": the text is then
 * "WRONG → RIGHT". Other members are left out. A malformed line is refused with file, line number
 * and reason. A sentence is its tokens and the end token. Its inputs are all tokens but the end
 * token, their targets the next ones; with loss_on_correction the tokens up to and with the first
 * " → " are no targets. A text without the arrow has them all.
 *
 * Slots: the job has slots = ranks × micro-batches. Slot s owns the sentences with index % slots ==
 * s, in an order drawn anew each epoch from the seed (seed + s and the epoch). The union of all
 * slots is the file, without overlap. A batch has room for `batch` × `context` tokens: it takes
 * whole sentences from its slot, in order, laid end to end, one segment each, until the next one
 * does not fit; that one begins the next batch. Nothing is dropped or repeated silently: a sentence
 * of more than `context` inputs is left out and counted. When a slot has run out in this epoch its
 * batches are empty until rank_data_next_epoch.
 *
 * What a batch holds depends on the file, the tokenizer, slot_count, batch, context, seed and epoch
 * alone, not on how slots are spread over ranks.
 *
 * One thread at a time. */
#ifndef RANK_DATA_H
#define RANK_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rank/model.h"
#include "rank/tokenizer.h"

typedef struct rank_data rank_data;

typedef struct rank_data_options {
    const char *path;
    rank_tokenizer *tokenizer; /* borrowed, outlives the data */
    int slot_count;            /* of the whole job */
    int slot_first;            /* this rank's slots: slot_first … slot_first + slots_here - 1 */
    int slots_here;
    int batch;   /* rows */
    int context; /* tokens per row */
    uint64_t seed;
    bool loss_on_correction;
} rank_data_options;

typedef struct rank_data_info {
    uint64_t sentences_total; /* in the file */
    uint64_t sentences_shard; /* of this rank's slots */
    uint64_t sentences_long;  /* of those: longer than the context, left out */
    /* text of this shard's first sentence in file order, "" without one; owned by the data */
    const char *first_sentence;
} rank_data_info;

/* Reads and checks the file (all lines of this rank's shard; the other lines are counted, and only
 * their length is checked). BASE_ERR_INVALID: the options, or a line ("FILE:LINE: reason");
 * BASE_ERR_NOTFOUND, BASE_ERR_IO, BASE_ERR_LIMIT, BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status rank_data_open(const rank_data_options *options, rank_data **data,
                                           base_error *reterr);
void rank_data_close(rank_data *data);
void rank_data_get_info(const rank_data *data, rank_data_info *info);

/* The next batch of slot slot_first + slot_index; valid until the next call for any slot. Empty
 * (token_count 0) when the slot has run out. */
BASE_MUST_CHECK base_status rank_data_next_batch(rank_data *data, int slot_index, rank_batch *batch,
                                                 base_error *reterr);

/* Sentences this rank's slots have not handed out yet in this epoch, without the left out ones. */
uint64_t rank_data_remaining(const rank_data *data);

/* Starts the next epoch: every slot is shuffled anew. */
void rank_data_next_epoch(rank_data *data);

/* For generation and evaluation: reads the "wrong"/"right" pairs with index % world_size == rank.
 * Statuses as rank_data_open; a line of the shard without a pair is BASE_ERR_INVALID. The strings
 * belong to the pairs. */
typedef struct rank_pairs rank_pairs;
BASE_MUST_CHECK base_status rank_pairs_open(const char *path, int rank, int world_size,
                                            rank_pairs **pairs, base_error *reterr);
void rank_pairs_close(rank_pairs *pairs);
size_t rank_pairs_count(const rank_pairs *pairs);
void rank_pairs_get(const rank_pairs *pairs, size_t index, const char **wrong, const char **right);

/* What stands between the wrong and the right sentence in a text, as UTF-8 (" →", then a space
 * follows). */
#define RANK_DATA_ARROW " \xe2\x86\x92"

#endif
