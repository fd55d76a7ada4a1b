/* random-checkpoint: writes a checkpoint of any shape, its weights drawn at random. For benchmarks
 * and captures: what it says is noise. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/exitcode.h"
#include "base/file.h"
#include "base/number.h"
#include "rank/checkpoint.h"
#include "rank/tokenizer.h"

static const char usage[] = "Usage: random-checkpoint DIRECTORY TOKENIZER.json [OPTION]...\n"
                            "Writes a model whose weights are drawn at random; by default a GPT-2 "
                            "of the 124 M parameters'\n"
                            "shape. DIRECTORY and its parents are made where they are missing.\n"
                            "\n"
                            "  --like DIR       of the family and shape that DIR/config.json says\n"
                            "  --vocab-size N   (default 50257)\n"
                            "  --width N        (default 768)\n"
                            "  --layers N       (default 12)\n"
                            "  --heads N        (default 12)\n"
                            "  --context N      (default 1024)\n"
                            "  --seed N         (default 35200)\n"
                            "  --bfloat16       numbers of 16 bits in place of float32\n"
                            "  --help           this text\n";

enum { VALUE_MAX = 1 << 20 };

enum { HELP = 6, LIKE, BFLOAT16 }; /* options behind those with a number */

static int parse(const char *text)
{
    int64_t value = 0;
    if (!base_parse_int(text, 1, VALUE_MAX, &value)) {
        (void)fprintf(stderr, "random-checkpoint: %s is not a number from 1 to %d\n", text,
                      VALUE_MAX);
        exit(BASE_EXIT_USAGE);
    }
    return (int)value;
}

static base_status write_random(const rank_model_config *config, int seed, rank_type type,
                                const char *directory, const char *tokenizer, base_error *reterr)
{
    rank_tokenizer *loaded = NULL;
    base_status status = rank_model_config_check(config, reterr);
    if (status == BASE_OK) {
        status = rank_tokenizer_load(tokenizer, &loaded, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    float *params = malloc(rank_model_param_count(config) * sizeof *params);
    if (params != NULL) {
        const int32_t end_id = rank_tokenizer_end_id(loaded);
        const rank_checkpoint_about about = {.config = config,
                                             .tokenizer_path = tokenizer,
                                             .end_id =
                                                 end_id >= 0 ? end_id : config->vocab_size - 1,
                                             .prompt_suffix = "",
                                             .end_token = rank_tokenizer_end_token(loaded),
                                             .type = type};
        status = base_mkdirs(directory, reterr); /* before the work of drawing */
        if (status == BASE_OK) {
            rank_model_init(config, (uint64_t)seed, params);
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

int main(int argc, char **argv)
{
    rank_model_config config = {.family = rank_family_default(),
                                .vocab_size = 50257,
                                .width = 768,
                                .layers = 12,
                                .heads = 12,
                                .context = 1024};
    int seed = 35200;
    rank_type type = RANK_FLOAT32;
    int *const values[] = {&config.vocab_size, &config.width,   &config.layers,
                           &config.heads,      &config.context, &seed};
    base_error error;
    static const struct option options[] = {
        {"vocab-size", required_argument, NULL, 0}, {"width", required_argument, NULL, 1},
        {"layers", required_argument, NULL, 2},     {"heads", required_argument, NULL, 3},
        {"context", required_argument, NULL, 4},    {"seed", required_argument, NULL, 5},
        {"help", no_argument, NULL, HELP},          {"like", required_argument, NULL, LIKE},
        {"bfloat16", no_argument, NULL, BFLOAT16},  {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == HELP) {
            (void)fputs(usage, stdout);
            return 0;
        }
        if (option == LIKE) {
            if (rank_checkpoint_config(optarg, &config, &error) != BASE_OK) {
                return refuse(&error);
            }
        } else if (option == BFLOAT16) {
            type = RANK_BFLOAT16;
        } else if (option < HELP) {
            *values[option] = parse(optarg);
        } else {
            return BASE_EXIT_USAGE;
        }
    }
    if (argc - optind != 2) {
        (void)fputs(usage, stderr);
        return BASE_EXIT_USAGE;
    }
    if (write_random(&config, seed, type, argv[optind], argv[optind + 1], &error) != BASE_OK) {
        return refuse(&error);
    }
    (void)printf("%zu parameters\n", rank_model_param_count(&config));
    return 0;
}
