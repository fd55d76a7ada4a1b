/* random-checkpoint: writes a checkpoint of any shape, its weights drawn at random. For benchmarks
 * and captures: what it says is noise. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/file.h"
#include "base/free_memory.h"
#include "base/number.h"
#include "base/path.h"
#include "base/version.h"
#include "rank/checkpoint.h"
#include "rank/tokenizer.h"

static const char usage[] =
    "Usage: random-checkpoint DIRECTORY TOKENIZER.json [OPTION]...\n"
    "Writes a model whose weights are drawn at random; by default a GPT-2 "
    "of the 124 M parameters'\n"
    "shape. DIRECTORY and its parents are made where they are missing.\n"
    "\n"
    "  --like DIR       of the family and shape that DIR/config.json says, but for\n"
    "                   the numbers given here; with DIR/tokenizer.json also with\n"
    "                   its chat template\n"
    "  --vocab-size N   (default 50257)\n"
    "  --width N        (default 768)\n"
    "  --layers N       (default 12)\n"
    "  --heads N        (default 12)\n"
    "  --context N      (default 1024)\n"
    "  --seed N         (default 35200)\n"
    "  --bfloat16       numbers of 16 bits in place of float32\n"
    "  --overwrite      in place of the model that DIRECTORY has\n"
    "  -h, --help       this text\n"
    "  --version        the version, and which sources it was built from\n";

enum { VALUE_MAX = 1 << 20 };

#define BYTES_PER_GB 1e9

enum { NUMBERS = 6, LIKE = NUMBERS, BFLOAT16, OVERWRITE }; /* options behind those with a number */

static int parse(const char *option, const char *text)
{
    int64_t value = 0;
    if (!base_parse_int(text, 1, VALUE_MAX, &value)) {
        (void)fprintf(stderr, "random-checkpoint: --%s: '%s' is not a number from 1 to %d\n",
                      option, text, VALUE_MAX);
        exit(BASE_EXIT_USAGE);
    }
    return (int)value;
}

/* What the options ask for. */
typedef struct asked {
    rank_model_config config;
    int seed;
    rank_type type;
    const char *like; /* a directory; NULL: none */
    bool overwrite;
} asked;

static bool stands(const char *directory, const char *name)
{
    char path[BASE_PATH_BYTES];
    return base_path_join(directory, name, path, NULL) == BASE_OK && access(path, F_OK) == 0;
}

/* An index counts in place of a file that is written beside it. */
static base_status check_directory(const char *directory, bool overwrite, base_error *reterr)
{
    if (stands(directory, "model.safetensors.index.json")) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s has a model in several files: name another",
                         directory);
    }
    return overwrite || !stands(directory, "model.safetensors")
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "%s has a model: name another directory, or --overwrite it", directory);
}

/* Whether the tokenizer is that of the directory, from which chats and ends of texts are taken then. *path is as it
 * is called there. */
static bool is_of(const char *directory, const char *tokenizer, char path[BASE_PATH_BYTES])
{
    struct stat one;
    struct stat other;
    return directory != NULL &&
           base_path_join(directory, "tokenizer.json", path, NULL) == BASE_OK &&
           stat(path, &one) == 0 && stat(tokenizer, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* All numbers are drawn into memory, in float32. */
static base_status check_memory(const rank_model_config *config, base_error *reterr)
{
    const size_t count = rank_model_param_count(config);
    const uint64_t free_bytes = base_free_memory_find("").most_bytes;
    return count <= free_bytes / sizeof(float)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY,
                           "%zu parameters take %.1f GB of memory, and %.1f GB are available, with "
                           "swap: take fewer --layers or a smaller --width",
                           count, (double)count * sizeof(float) / BYTES_PER_GB,
                           (double)free_bytes / BYTES_PER_GB);
}

static base_status write_random(const asked *asks, const char *directory, const char *tokenizer,
                                base_error *reterr)
{
    const rank_model_config *config = &asks->config;
    rank_tokenizer *loaded = NULL;
    char source[BASE_PATH_BYTES];
    base_status status = rank_model_config_check(config, reterr);
    if (status == BASE_OK) {
        status = check_memory(config, reterr);
    }
    if (status == BASE_OK) {
        status = check_directory(directory, asks->overwrite, reterr);
    }
    if (status == BASE_OK) {
        status = rank_tokenizer_load(tokenizer, &loaded, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    if (rank_tokenizer_vocab_size(loaded) > config->vocab_size) {
        status = base_fail(reterr, BASE_ERR_INVALID, "%s has %d tokens, the model only %d",
                           tokenizer, rank_tokenizer_vocab_size(loaded), config->vocab_size);
        rank_tokenizer_destroy(loaded);
        return status;
    }
    const bool likes_it = is_of(asks->like, tokenizer, source);
    float *params = malloc(rank_model_param_count(config) * sizeof *params);
    if (params != NULL) {
        const int32_t end_id = rank_tokenizer_end_id(loaded);
        rank_checkpoint_about about = {.config = config,
                                       .tokenizer_path = likes_it ? source : tokenizer,
                                       .end_id = end_id >= 0 ? end_id : config->vocab_size - 1,
                                       .prompt_suffix = "",
                                       .end_token = rank_tokenizer_end_token(loaded),
                                       .source = likes_it ? asks->like : NULL,
                                       .type = asks->type};
        about.begin_id = rank_tokenizer_begin(loaded, about.begin_token, sizeof about.begin_token);
        status = base_mkdirs(directory, reterr); /* before the work of drawing */
        if (status == BASE_OK) {
            rank_model_init(config, (uint64_t)asks->seed, params);
            status = rank_checkpoint_write(directory, &about, params, reterr);
        }
    } else {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu parameters",
                           rank_model_param_count(config));
    }
    free(params);
    rank_tokenizer_destroy(loaded);
    return status;
}

static int refuse(const base_error *error)
{
    (void)fprintf(stderr, "random-checkpoint: %s\n", error->message);
    return BASE_EXIT_ERROR;
}

static const struct option options[] = {{"vocab-size", required_argument, NULL, 0},
                                        {"width", required_argument, NULL, 1},
                                        {"layers", required_argument, NULL, 2},
                                        {"heads", required_argument, NULL, 3},
                                        {"context", required_argument, NULL, 4},
                                        {"seed", required_argument, NULL, 5},
                                        {"help", no_argument, NULL, 'h'},
                                        {"like", required_argument, NULL, LIKE},
                                        {"bfloat16", no_argument, NULL, BFLOAT16},
                                        {"overwrite", no_argument, NULL, OVERWRITE},
                                        {NULL, 0, NULL, 0}};

/* Reads all options; what --like says holds where no number was given, in whatever order. */
static int read_options(int argc, char **argv, asked *asks)
{
    rank_model_config *config = &asks->config;
    int *const values[NUMBERS] = {&config->vocab_size, &config->width,   &config->layers,
                                  &config->heads,      &config->context, &asks->seed};
    int given[NUMBERS] = {0};
    base_error error;
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 'h') {
            (void)fputs(usage, stdout);
            exit(BASE_EXIT_DONE);
        }
        if (option == LIKE) {
            asks->like = optarg;
        } else if (option == BFLOAT16) {
            asks->type = RANK_BFLOAT16;
        } else if (option == OVERWRITE) {
            asks->overwrite = true;
        } else if (option < NUMBERS) {
            given[option] = parse(options[option].name, optarg);
        } else {
            return BASE_EXIT_USAGE;
        }
    }
    if (argc - optind != 2) {
        (void)fputs(usage, stderr);
        return BASE_EXIT_USAGE;
    }
    if (asks->like != NULL && rank_checkpoint_config(asks->like, config, &error) != BASE_OK) {
        return refuse(&error);
    }
    for (int i = 0; i < NUMBERS; i++) {
        *values[i] = given[i] != 0 ? given[i] : *values[i];
    }
    return BASE_EXIT_DONE;
}

int main(int argc, char **argv)
{
    asked asks = {.config = {.family = rank_family_default(),
                             .vocab_size = 50257,
                             .width = 768,
                             .layers = 12,
                             .heads = 12,
                             .context = 1024},
                  .seed = 35200,
                  .type = RANK_FLOAT32};
    base_error error;
    if (base_version_asked(argc, argv, "random-checkpoint")) {
        return BASE_EXIT_DONE;
    }
    const int code = read_options(argc, argv, &asks);
    if (code != BASE_EXIT_DONE) {
        return code;
    }
    if (write_random(&asks, argv[optind], argv[optind + 1], &error) != BASE_OK) {
        return refuse(&error);
    }
    (void)printf("%zu parameters\n", rank_model_param_count(&asks.config));
    return BASE_EXIT_DONE;
}
