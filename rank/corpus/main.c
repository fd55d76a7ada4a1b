/* corpus-gen TABLES OUT: makes OUT/train.jsonl, OUT/heldout.jsonl and OUT/tokenizer.json from the
 * tables. The build runs it; the same tables give the same bytes. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "generate.h"
#include "grammar.h"
#include "output.h"

static base_status run(const char *tables, const char *directory, base_error *reterr)
{
    corpus_grammar grammar;
    corpus_lines lines;
    base_status status = corpus_grammar_load(&grammar, tables, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = corpus_generate(&grammar, &lines, reterr);
    if (status == BASE_OK) {
        status = corpus_write(directory, &lines, reterr);
        corpus_lines_fini(&lines);
    }
    corpus_grammar_fini(&grammar);
    return status;
}

int main(int argc, char **argv)
{
    base_error error = {.status = BASE_OK};
    base_log_init("corpus-gen: ");
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        (void)puts("Usage: corpus-gen TABLES OUT\n"
                   "Makes train.jsonl, heldout.jsonl and tokenizer.json in the directory OUT from "
                   "the tables in\n"
                   "the directory TABLES (rank/corpus). The same tables give the same bytes.");
        return BASE_EXIT_DONE;
    }
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
