/* Writes train.jsonl, heldout.jsonl and tokenizer.json. Called by corpus-gen's main.c. */
#include "output.h"

#include <stdio.h>
#include <string.h>

#include "../data/tokenizer_file.h"
#include "../tokenizer/learn.h"
#include "base/file.h"
#include "base/path.h"

enum {
    TOKENIZER_MERGES = 255, /* with the 256 bytes and the end token a vocabulary of 512 */
    LINE_BYTES = 4 * CORPUS_SENTENCE_BYTES + 256,
};

static base_status write_line(base_file_writer *writer, const corpus_line *line, base_error *reterr)
{
    char text[LINE_BYTES];
    /* Tables hold no character that JSON escapes. */
    const int bytes = snprintf(
        text, sizeof text,
        "{\"wrong\":\"%s\",\"right\":\"%s\",\"rule\":\"%s\",\"verb\":\"%s\",\"frame\":\"%s\"}\n",
        line->wrong, line->right, line->rule, line->verb, line->frame);
    return base_file_writer_put(writer, text, (size_t)bytes, reterr);
}

static base_status write_lines(const char *directory, const char *name, const corpus_lines *lines,
                               bool held_out, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    base_file_writer *writer = NULL;
    base_status status = base_path_join(directory, name, path, reterr);
    if (status == BASE_OK) {
        status = base_file_writer_open(path, &writer, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    for (size_t i = 0; i < lines->count && status == BASE_OK; i++) {
        if (lines->lines[i].held_out == held_out) {
            status = write_line(writer, &lines->lines[i], reterr);
        }
    }
    if (status != BASE_OK) {
        base_file_writer_abandon(writer);
        return status;
    }
    return base_file_writer_commit(writer, reterr);
}

/* The pieces of the training sentences. */
static base_status count_pieces(const corpus_lines *lines, rank_piece_table *table,
                                base_error *reterr)
{
    base_status status = BASE_OK;
    for (size_t i = 0; i < lines->count && status == BASE_OK; i++) {
        char text[2 * CORPUS_SENTENCE_BYTES + 8];
        snprintf(text, sizeof text, "%s" CORPUS_ARROW "%s", lines->lines[i].wrong,
                 lines->lines[i].right);
        const char *at = lines->lines[i].held_out ? "" : text;
        while (*at != '\0' && status == BASE_OK) {
            const size_t piece_bytes = rank_bpe_piece_bytes(at, strlen(at));
            status = rank_piece_table_add(table, (const uint8_t *)at, piece_bytes, reterr);
            at += piece_bytes;
        }
    }
    return status;
}

static base_status train_tokenizer(const corpus_lines *lines, rank_bpe *bpe, base_error *reterr)
{
    rank_piece_table table = {.piece_count = 0};
    rank_learner *learner = NULL;
    rank_bpe_pair merges[TOKENIZER_MERGES];
    base_status status = count_pieces(lines, &table, reterr);
    if (status == BASE_OK) {
        status = rank_learner_create(&table, &learner, reterr);
    }
    for (int m = 0; m < TOKENIZER_MERGES && status == BASE_OK; m++) {
        bool found = false;
        status = rank_learner_next(learner, &merges[m], &found, reterr);
        if (status == BASE_OK && !found) {
            status = base_fail(reterr, BASE_ERR_INVALID, "the texts give %d merges, not %d", m,
                               (int)TOKENIZER_MERGES);
        }
    }
    rank_learner_destroy(learner);
    rank_piece_table_fini(&table);
    return status == BASE_OK ? rank_bpe_init(bpe, merges, TOKENIZER_MERGES, reterr) : status;
}

static base_status write_tokenizer(const char *directory, const corpus_lines *lines,
                                   base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    rank_bpe bpe;
    base_status status = base_path_join(directory, "tokenizer.json", path, reterr);
    if (status == BASE_OK) {
        status = train_tokenizer(lines, &bpe, reterr);
    }
    if (status == BASE_OK) {
        status = rank_tokenizer_file_write(path, &bpe, RANK_TOKENIZER_BY_SPACES, reterr);
        rank_bpe_fini(&bpe);
    }
    return status;
}

base_status corpus_write(const char *directory, const corpus_lines *lines, base_error *reterr)
{
    base_status status = base_mkdirs(directory, reterr);
    if (status == BASE_OK) {
        status = write_lines(directory, "train.jsonl", lines, false, reterr);
    }
    if (status == BASE_OK) {
        status = write_lines(directory, "heldout.jsonl", lines, true, reterr);
    }
    if (status == BASE_OK) {
        status = write_tokenizer(directory, lines, reterr);
    }
    return status;
}
