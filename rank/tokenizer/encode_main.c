/* tokenizer-encode: encodes files of text once, for trainings that read the tokens. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/exitcode.h"
#include "base/host.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/number.h"
#include "base/version.h"
#include "encode.h"

static const char usage[] =
    "Usage: tokenizer-encode --tokenizer FILE.json --out FILE.safetensors TEXT...\n"
    "Encodes texts once, and writes their tokens for --data and --heldout of trainings. TEXTs are "
    "read\n"
    "as --data: FILE.jsonl, FILE.ndjson and FILE.json have a text in each line, and any other is "
    "one\n"
    "plain text, which may be a pipe (/dev/stdin). Each text ends with the end token. A training "
    "cuts\n"
    "windows across the ends of texts.\n"
    "\n"
    "  --tokenizer FILE   tokenizer.json\n"
    "  --out FILE         the tokens; its directory is made where it is missing\n"
    "  --threads N        that encode, 1 to 256 (as many as there are CPUs); the file is the same\n"
    "  -h, --help         this text\n"
    "  --version          the version, and which sources it was built from\n";

static int refuse(const char *what)
{
    base_log(BASE_LOG_ERROR, "%s; try 'tokenizer-encode --help'", what);
    return BASE_EXIT_USAGE;
}

static int count_cpus(void)
{
    base_host host;
    base_host_get(&host);
    const size_t cpus = base_min_size(host.cpus, RANK_ENCODE_THREADS_MAX);
    return cpus > 0 ? (int)cpus : 1;
}

static char temporary[BASE_PATH_BYTES + sizeof ".tmp"];

static void remove_and_end(int signal_number)
{
    (void)unlink(temporary);
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

/* From here on OUT.tmp is this program's. It may have many bytes. */
static void clean_on_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if (signal(signals[i], remove_and_end) == SIG_IGN) { /* nohup */
            (void)signal(signals[i], SIG_IGN);
        }
    }
}

static int run(const rank_encode_options *options)
{
    base_error error = {.status = BASE_OK};
    rank_token_summary summary = {.documents = 0};
    (void)snprintf(temporary, sizeof temporary, "%s.tmp", options->out_path);
    if (rank_encode_run(options, &summary, &error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_ERROR;
    }
    (void)printf("%s: %" PRIu64 " tokens of %" PRIu64 " %s with %" PRIu64 " bytes",
                 options->out_path, summary.token_count, summary.documents,
                 summary.documents == 1 ? "text" : "texts", summary.text_bytes);
    if (summary.text_bytes > 0) {
        (void)printf(", %.2f bytes each", (double)summary.text_bytes / (double)summary.token_count);
    }
    (void)printf("\n");
    return BASE_EXIT_DONE;
}

int main(int argc, char **argv)
{
    enum { TOKENIZER = 256, OUT, THREADS };
    static const struct option long_options[] = {{"tokenizer", required_argument, NULL, TOKENIZER},
                                                 {"out", required_argument, NULL, OUT},
                                                 {"threads", required_argument, NULL, THREADS},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {NULL, 0, NULL, 0}};
    rank_encode_options options = {.threads = count_cpus(), .opened = clean_on_signals};
    int64_t threads = 0;
    base_log_init("tokenizer-encode: ");
    if (base_version_asked(argc, argv, "tokenizer-encode")) {
        return BASE_EXIT_DONE;
    }
    for (int option; (option = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        switch (option) {
        case TOKENIZER:
            options.tokenizer_path = optarg;
            break;
        case OUT:
            options.out_path = optarg;
            break;
        case THREADS:
            if (!base_parse_int(optarg, 1, RANK_ENCODE_THREADS_MAX, &threads)) {
                return refuse("--threads is a number from 1 to 256");
            }
            options.threads = (int)threads;
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
    if (options.tokenizer_path == NULL || options.out_path == NULL || options.text_count == 0) {
        return refuse("--tokenizer, --out and at least one text are needed");
    }
    return run(&options);
}
