/* corpus-gen TABLES OUT: makes OUT/train.jsonl, OUT/heldout.jsonl and OUT/tokenizer.json from the
 * tables. The build runs it; the same tables give the same bytes. */
#include <stdio.h>
#include <string.h>

#include "../data/tokenizer_file.h"
#include "base/exitcode.h"
#include "base/file.h"
#include "base/log.h"
#include "bpe_train.h"
#include "generate.h"

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
        "{\"text\":\"%s" CORPUS_ARROW "%s\",\"wrong\":\"%s\",\"right\":\"%s\",\"rule\":\"%s\","
        "\"verb\":\"%s\",\"frame\":\"%s\"}\n",
        line->wrong, line->right, line->wrong, line->right, line->rule, line->verb, line->frame);
    return base_file_writer_put(writer, text, (size_t)bytes, reterr);
}

static base_status write_lines(const char *folder, const char *name, const corpus_lines *lines,
                               bool held_out, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    base_file_writer *writer = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    base_status status = base_file_writer_open(path, &writer, reterr);
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

static base_status train_tokenizer(const corpus_lines *lines, rank_bpe *bpe, base_error *reterr)
{
    corpus_bpe_trainer *trainer = NULL;
    rank_bpe_pair merges[TOKENIZER_MERGES];
    base_status status = corpus_bpe_trainer_create(&trainer, reterr);
    for (size_t i = 0; i < lines->count && status == BASE_OK; i++) {
        char text[2 * CORPUS_SENTENCE_BYTES + 8];
        snprintf(text, sizeof text, "%s" CORPUS_ARROW "%s", lines->lines[i].wrong,
                 lines->lines[i].right);
        if (!lines->lines[i].held_out) {
            status = corpus_bpe_trainer_add(trainer, text, reterr);
        }
    }
    if (status == BASE_OK) {
        status = corpus_bpe_trainer_run(trainer, TOKENIZER_MERGES, merges, reterr);
    }
    corpus_bpe_trainer_destroy(trainer);
    return status == BASE_OK ? rank_bpe_init(bpe, merges, TOKENIZER_MERGES, reterr) : status;
}

static base_status write_tokenizer(const char *folder, const corpus_lines *lines,
                                   base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    rank_bpe bpe;
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    base_status status = train_tokenizer(lines, &bpe, reterr);
    if (status == BASE_OK) {
        status = rank_tokenizer_file_write(path, &bpe, reterr);
        rank_bpe_fini(&bpe);
    }
    return status;
}

static base_status run(const char *tables, const char *folder, base_error *reterr)
{
    corpus_grammar grammar;
    corpus_lines lines;
    base_status status = corpus_grammar_load(&grammar, tables, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = corpus_generate(&grammar, &lines, reterr);
    if (status == BASE_OK) {
        status = base_mkdirs(folder, reterr);
        if (status == BASE_OK) {
            status = write_lines(folder, "train.jsonl", &lines, false, reterr);
        }
        if (status == BASE_OK) {
            status = write_lines(folder, "heldout.jsonl", &lines, true, reterr);
        }
        if (status == BASE_OK) {
            status = write_tokenizer(folder, &lines, reterr);
        }
        corpus_lines_fini(&lines);
    }
    corpus_grammar_fini(&grammar);
    return status;
}

int main(int argc, char **argv)
{
    base_error error = {.status = BASE_OK};
    base_log_init("corpus-gen: ", BASE_LOG_INFO);
    if (argc != 3) {
        base_log(BASE_LOG_ERROR, "usage: corpus-gen TABLES OUT");
        return BASE_EXIT_USAGE;
    }
    if (run(argv[1], argv[2], &error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_ERROR;
    }
    return BASE_EXIT_DONE;
}
