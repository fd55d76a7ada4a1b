/* tokenizer-learn: learns a byte-level BPE tokenizer from files of text. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "base/number.h"
#include "base/version.h"
#include "program.h"

static const char usage[] =
    "Usage: tokenizer-learn --vocab-size N --out FILE.json TEXT...\n"
    "Learns a byte-level BPE from texts, and writes it as a tokenizer.json of GPT-2's kind: the "
    "256\n"
    "bytes, merges by how often they occur, and <|endoftext|>. The same texts in any order give "
    "the\n"
    "same file. TEXTs are read as --data of a training: FILE.jsonl, FILE.ndjson and FILE.json "
    "have\n"
    "a text in each line (or a prompt, or a chat), and any other is one plain text.\n"
    "\n"
    "  --vocab-size N   tokens, all counted (257 to 65536)\n"
    "  --out FILE       the tokenizer; its directory is made where it is missing\n"
    "  -h, --help       this text\n"
    "  --version        the version, and which sources it was built from\n";

static int refuse(const char *what)
{
    base_log(BASE_LOG_ERROR, "%s; try 'tokenizer-learn --help'", what);
    return BASE_EXIT_USAGE;
}

static int run(const rank_learn_options *options)
{
    base_error error = {.status = BASE_OK};
    rank_learn_summary summary = {.text_bytes = 0};
    if (rank_learn_run(options, &summary, &error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_ERROR;
    }
    (void)printf("%s: %d tokens. The texts have %" PRIu64 " bytes and %" PRIu64 " tokens",
                 options->out_path, options->vocab_size, summary.text_bytes, summary.id_count);
    if (summary.id_count > 0) {
        (void)printf(", %.2f bytes each", (double)summary.text_bytes / (double)summary.id_count);
    }
    (void)printf("\n");
    return BASE_EXIT_DONE;
}

int main(int argc, char **argv)
{
    enum { VOCAB_SIZE = 256, OUT };
    static const struct option long_options[] = {
        {"vocab-size", required_argument, NULL, VOCAB_SIZE},
        {"out", required_argument, NULL, OUT},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    rank_learn_options options = {.vocab_size = 0};
    int64_t size = 0;
    base_log_init("tokenizer-learn: ");
    if (base_version_asked(argc, argv, "tokenizer-learn")) {
        return BASE_EXIT_DONE;
    }
    for (int option; (option = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        switch (option) {
        case VOCAB_SIZE:
            if (!base_parse_int(optarg, RANK_LEARN_VOCAB_MIN, RANK_LEARN_VOCAB_MAX, &size)) {
                return refuse("--vocab-size is a number from 257 to 65536");
            }
            options.vocab_size = (int)size;
            break;
        case OUT:
            options.out_path = optarg;
            break;
        case 'h':
            (void)fputs(usage, stdout);
            return BASE_EXIT_DONE;
        default:
            return refuse("wrong arguments");
        }
    }
    options.text_paths = argv + optind;
    options.text_count = argc - optind;
    if (options.vocab_size == 0 || options.out_path == NULL || options.text_count == 0) {
        return refuse("--vocab-size, --out and at least one text are needed");
    }
    return run(&options);
}
