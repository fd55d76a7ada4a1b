/* Learns a tokenizer from files, and writes it. Called by main.c. */
#include "program.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "data/hub.h"
#include "data/tokenizer_file.h"
#include "learn.h"
#include "out.h"
#include "texts.h"

enum { PROGRESS_EVERY_S = 5 };

/* A tokenizer of the kind that is written, without merges: it cuts texts as that one will. */
static base_status make_cutter(rank_tokenizer **cutter, base_error *reterr)
{
    rank_bpe bytes;
    *cutter = NULL;
    base_status status = rank_bpe_init(&bytes, NULL, 0, reterr);
    if (status != BASE_OK) {
        return status;
    }
    json_t *root = rank_tokenizer_make(&bytes, RANK_TOKENIZER_AS_GPT2);
    status = root != NULL ? rank_tokenizer_create(root, cutter, reterr)
                          : base_fail(reterr, BASE_ERR_MEMORY, "no memory for the tokenizer");
    json_decref(root);
    rank_bpe_fini(&bytes);
    return status;
}

static base_status count_texts(const rank_learn_options *options, rank_piece_table *table,
                               base_error *reterr)
{
    rank_tokenizer *cutter = NULL;
    const int64_t began_ns = base_now_ns();
    base_status status = make_cutter(&cutter, reterr);
    for (int i = 0; i < options->text_count && status == BASE_OK; i++) {
        status = rank_texts_count(options->text_paths[i], cutter, table, reterr);
        if (status == BASE_OK && base_now_ns() - began_ns > PROGRESS_EVERY_S * BASE_NS_PER_S) {
            base_log(BASE_LOG_INFO, "read %d of %d files: %" PRIu64 " MB, %zu different words",
                     i + 1, options->text_count, table->text_bytes / 1000000, table->piece_count);
        }
    }
    rank_tokenizer_destroy(cutter);
    return status;
}

static base_status learn(rank_learner *learner, rank_bpe_pair *merges, int merge_count,
                         base_error *reterr)
{
    int64_t said_ns = base_now_ns();
    for (int m = 0; m < merge_count; m++) {
        bool found = false;
        const base_status status = rank_learner_next(learner, &merges[m], &found, reterr);
        if (status != BASE_OK) {
            return status;
        }
        if (!found) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "these texts give %d merges: --vocab-size can be at most %d", m,
                             RANK_LEARN_VOCAB_MIN + m);
        }
        if (base_now_ns() - said_ns > PROGRESS_EVERY_S * BASE_NS_PER_S) {
            said_ns = base_now_ns();
            base_log(BASE_LOG_INFO, "learned %d of %d merges", m + 1, merge_count);
        }
    }
    return BASE_OK;
}

/* The merges, of which there are vocab_size - RANK_LEARN_VOCAB_MIN. */
static base_status learn_merges(const rank_learn_options *options, rank_bpe_pair *merges,
                                rank_learn_summary *summary, base_error *reterr)
{
    rank_piece_table table = {.piece_count = 0};
    rank_learner *learner = NULL;
    base_status status = count_texts(options, &table, reterr);
    if (status == BASE_OK && table.text_bytes == 0) {
        status =
            base_fail(reterr, BASE_ERR_INVALID, "there is no text in %s%s", options->text_paths[0],
                      options->text_count > 1 ? ", nor in the other files" : "");
    }
    if (status == BASE_OK) {
        status = rank_learner_create(&table, &learner, reterr);
    }
    if (status == BASE_OK) {
        status = learn(learner, merges, options->vocab_size - RANK_LEARN_VOCAB_MIN, reterr);
    }
    if (status == BASE_OK) {
        *summary = (rank_learn_summary){table.text_bytes, rank_learner_id_count(learner)};
    }
    rank_learner_destroy(learner);
    rank_piece_table_fini(&table);
    return status;
}

base_status rank_learn_run(const rank_learn_options *options, rank_learn_summary *summary,
                           base_error *reterr)
{
    rank_bpe bpe;
    const int merge_count = options->vocab_size - RANK_LEARN_VOCAB_MIN;
    base_status status = rank_out_prepare(options->out_path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    rank_bpe_pair *merges = calloc((size_t)merge_count + 1, sizeof *merges);
    if (merges == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %d merges", merge_count);
    }
    status = learn_merges(options, merges, summary, reterr);
    if (status == BASE_OK) {
        status = rank_bpe_init(&bpe, merges, merge_count, reterr);
    }
    free(merges);
    if (status == BASE_OK) {
        status = rank_tokenizer_file_write(options->out_path, &bpe, RANK_TOKENIZER_AS_GPT2, reterr);
        rank_bpe_fini(&bpe);
    }
    return status;
}
