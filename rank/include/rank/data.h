/* The training data: a JSONL file of sentences, cut into slots, packed into batches.
 *
 * A line is an object with "text" (a user's file), or with "wrong" and "right". In that case the
 * text is "WRONG → RIGHT". Other members are ignored. A malformed line is refused with file, line
 * number and reason. A sentence is its tokens and the end token. Its inputs are all tokens except
 * the end token, and their targets are the next ones. With loss_on_correction, a pair's tokens up to and
 * including the arrow are not targets. In a text all are.
 *
 * Or a line has "prompt" and "completion", of which the completion's tokens and the end token are targets; or
 * "messages", a chat as the checkpoint's template writes it, of which what the assistant says is (data/chat.h), and
 * the mark behind it, which ends the last answer. Without loss_on_correction all their tokens are.
 *
 * Slots: the job has slots = ranks × micro-batches. Slot s owns the sentences with index % slots ==
 * s. Each epoch draws a new order from the seed (seed + s and the epoch). Together the slots have
 * the whole file, without overlap. A batch has room for `batch` × `context` tokens. It takes whole
 * sentences from its slot, in order, one segment each, one after the other. The first one that does
 * not fit begins the next batch. Nothing is dropped or repeated silently: a sentence of more than
 * `context` inputs is left out and counted. When a slot has no more sentences in this epoch, its
 * batches are empty until rank_data_next_epoch.
 *
 * With windows a text of any length is cut into pieces of `context` tokens, each a segment of its own. A
 * window's last target is the first token of the next one. What is said of sentences holds for windows.
 * A file of tokens (data/token_file.h) has windows, too. They are read when a batch takes them.
 *
 * A batch depends only on the file, the tokenizer, slot_count, batch, context, seed and epoch. It
 * does not depend on the distribution of slots over ranks.
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
struct rank_chat; /* data/chat.h */

typedef struct rank_data_options {
    const char *path;
    rank_tokenizer *tokenizer;    /* borrowed, outlives the data */
    const struct rank_chat *chat; /* borrowed, for lines that are chats; NULL: they are refused */
    int slot_count;               /* of the whole job */
    int slot_first; /* this rank's slots: slot_first + i × slot_step, i < slots_here */
    int slot_step;  /* 0: 1 */
    int slots_here;
    int batch;   /* rows */
    int context; /* tokens per row */
    uint64_t seed;
    bool loss_on_correction; /* not of windows, of which all tokens are targets */
    bool windows;            /* texts of any length, cut into windows of `context` tokens */
    bool plain;              /* the file is one plain text, not JSONL; it is cut into windows */
    bool tokens;             /* the file has tokens, whatever the two before say */
    const char *tokenizer_sha256; /* of the tokenizer's file, for a file of tokens; in hex */
} rank_data_options;

typedef struct rank_data_info {
    uint64_t sentences_total; /* in the file */
    uint64_t sentences_shard; /* of this rank's slots */
    uint64_t sentences_long;  /* those of them that are longer than the context, and left out */
    uint64_t records;    /* texts that were read: the shard's, or with windows all; of tokens 1 */
    uint64_t pairs;      /* those of them with "wrong" and "right" */
    bool other_encoding; /* a text in windows has bytes that are no UTF-8, */
    bool has_returns;    /* or lines that end with CR LF, as on Windows */
    /* the text of this shard's first sentence in file order; "": it has none; owned by the data */
    const char *first_sentence;
} rank_data_info;

/* Reads and checks the file: all lines of this rank's shard. Of the other lines only the length is
 * checked, and they are counted. BASE_ERR_INVALID: the options, or a line ("FILE:LINE: reason");
 * BASE_ERR_NOTFOUND, BASE_ERR_IO, BASE_ERR_LIMIT, BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status rank_data_open(const rank_data_options *options, rank_data **data,
                                           base_error *reterr);
void rank_data_close(rank_data *data);
void rank_data_get_info(const rank_data *data, rank_data_info *info);

/* The next batch of slot `slot_index` of this rank's. It is valid until the next call for any slot. It
 * is empty (token_count 0) when the slot has no more sentences. Of a file of tokens it reads some, and fails as
 * rank_token_file_read does. Of others it does not fail. */
BASE_MUST_CHECK base_status rank_data_next_batch(rank_data *data, int slot_index, rank_batch *batch,
                                                 base_error *reterr);

/* How many sentences of this rank's slots no batch has had in this epoch, without those that are
 * left out. */
uint64_t rank_data_remaining(const rank_data *data);

/* Starts the next epoch, with a new order of every slot. */
void rank_data_next_epoch(rank_data *data);

/* How many sentences of its order slot `slot_index` of this rank's has passed in this epoch, with those that
 * are left out. */
uint32_t rank_data_position(const rank_data *data, int slot_index);

/* Goes to that place: the next batches are those that came after rank_data_position gave `positions`
 * (slots_here). BASE_ERR_INVALID: a slot has fewer sentences. */
BASE_MUST_CHECK base_status rank_data_seek(rank_data *data, uint64_t epoch,
                                           const uint32_t *positions, base_error *reterr);

/* Whether a file of tokens can be opened with options->tokenizer_sha256. Of the options it reads that and the path.
 * Statuses as rank_data_open. */
BASE_MUST_CHECK base_status rank_data_check_tokens(const rank_data_options *options,
                                                   base_error *reterr);

/* Whether the context holds at least one sentence of the file. Reads only as far as that one, and of
 * the options only path, tokenizer, chat, context and loss_on_correction. *count: how many sentences were read.
 * Statuses as rank_data_open. */
BASE_MUST_CHECK base_status rank_data_any_fits(const rank_data_options *options, bool *fits,
                                               uint64_t *count, base_error *reterr);

/* For generation and evaluation: reads the "wrong"/"right" pairs with index % world_size == rank.
 * Statuses as rank_data_open; a line of the shard without a pair is BASE_ERR_INVALID. A file whose first line is
 * none has no pairs: of others the loss alone is measured. The pairs own the strings. */
typedef struct rank_pairs rank_pairs;
BASE_MUST_CHECK base_status rank_pairs_open(const char *path, int rank, int world_size,
                                            rank_pairs **pairs, base_error *reterr);
void rank_pairs_close(rank_pairs *pairs);
size_t rank_pairs_count(const rank_pairs *pairs);
void rank_pairs_get(const rank_pairs *pairs, size_t index, const char **wrong, const char **right);

/* The arrow between the wrong and the right sentence of a text, as UTF-8. A space follows it. */
#define RANK_DATA_ARROW " \xe2\x86\x92"

#endif
