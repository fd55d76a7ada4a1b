/* Whole jobs: launcher, ranks, collectives, model, record. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "coll/coll.h"
#include "training.h"

static training_run one, two; /* large: they hold a program's output */

static void the_same_command_gives_the_same_bits(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "again-a", 0, FLAGS("--ranks", "2"));
    training_expect(&two, &test_shared_directory, "again-b", 0, FLAGS("--ranks", "2"));
    training_assert_same_file(&one, "state-rank-0.safetensors", &two, "state-rank-1.safetensors");
    training_expect(&two, &test_shared_directory, "seed", 0,
                    FLAGS("--ranks", "2", "--seed", "35001"));
    size_t size_bytes = 0;
    size_t other_bytes = 0;
    char *state_one = training_file(&one, "state-rank-0.safetensors", &size_bytes);
    char *state_two = training_file(&two, "state-rank-0.safetensors", &other_bytes);
    assert_int_equal(size_bytes, other_bytes);
    assert_memory_not_equal(state_one, state_two, size_bytes); /* the seed matters */
    free(state_one);
    free(state_two);
}

/* 1 × 4, 2 × 2 and 4 × 1 slots, and 3 × 2 as 6 × 1; buckets of any size; overlapped or bracketed:
 * the same bits. */
static void ranks_and_micro_batches_nest(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "4x1", 0,
                    FLAGS("--ranks", "4", "--micro-batches", "1"));
    training_expect(&two, &test_shared_directory, "2x2", 0,
                    FLAGS("--ranks", "2", "--micro-batches", "2", "--bucket-bytes", "5000"));
    training_assert_same_file(&one, "state-rank-3.safetensors", &two, "state-rank-0.safetensors");
    training_expect(&two, &test_shared_directory, "1x4", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "4", "--timing", "bracketed"));
    training_assert_same_file(&one, "state-rank-0.safetensors", &two, "state-rank-0.safetensors");
    training_expect(&one, &test_shared_directory, "3x2", 0,
                    FLAGS("--ranks", "3", "--micro-batches", "2"));
    training_expect(&two, &test_shared_directory, "6x1", 0,
                    FLAGS("--ranks", "6", "--micro-batches", "1"));
    training_assert_same_file(&one, "state-rank-0.safetensors", &two, "state-rank-0.safetensors");
}

/* Under AddressSanitizer each algorithm has one number of ranks, and coll-grid has the others. */
static void every_algorithm_and_transport_keeps_ranks_equal(void **state)
{
    (void)state;
    static const char *const transports[] = {"shm", "tcp", "zmq"};
    static const char *const algorithms[] = {
        "ring", "tree", "direct", "recursive_doubling", "halving_doubling", "two_level"};
    enum { ALGORITHMS = sizeof algorithms / sizeof algorithms[0] };
    static const char *const ranks[] = {"3", "4"};
    for (size_t n = 0; n < 2; n++) {
        for (size_t a = 0; a < ALGORITHMS; a++) {
            for (size_t t = 0; t < 3; t++) {
                char name[64];
                training_run *run = t == 0 ? &one : &two;
                if (TEST_HAS_ASAN && a % 2 != n) {
                    continue;
                }
                (void)snprintf(name, sizeof name, "%s-%s-%s", transports[t], algorithms[a],
                               ranks[n]);
                training_expect(run, &test_shared_directory, name, 0,
                                FLAGS("--ranks", ranks[n], "--transport", transports[t],
                                      "--algorithm", algorithms[a], "--steps", "3"));
                const long size = strtol(ranks[n], NULL, 10);
                for (int rank = 1; rank < size; rank++) {
                    char file[64];
                    (void)snprintf(file, sizeof file, "state-rank-%d.safetensors", rank);
                    training_assert_same_file(run, "state-rank-0.safetensors", run, file);
                }
                /* one algorithm has one order, whatever carries it */
                training_assert_same_file(&one, "state-rank-0.safetensors", run,
                                          "state-rank-0.safetensors");
            }
        }
    }
}

/* After `auto` the record names the algorithms that ran. */
static void the_record_names_the_algorithm_that_ran(void **state)
{
    (void)state;
    static const char *const transports[] = {"shm", "tcp", "zmq"};
    for (size_t t = 0; t < sizeof transports / sizeof transports[0]; t++) {
        char name[32];
        coll_algorithm known = COLL_ALGORITHM_AUTO;
        char *rest = NULL;
        coll_error error;
        (void)snprintf(name, sizeof name, "auto-%s", transports[t]);
        training_expect(&one, &test_shared_directory, name, 0,
                        FLAGS("--ranks", "2", "--transport", transports[t], "--steps", "2"));
        json_t *manifest = training_manifest(&one);
        char algorithms[256];
        (void)snprintf(algorithms, sizeof algorithms, "%s",
                       json_string_value(json_object_get(manifest, "algorithm")));
        for (char *at = strtok_r(algorithms, "+", &rest); at != NULL;
             at = strtok_r(NULL, "+", &rest)) {
            assert_ok(coll_algorithm_parse(at, &known, &error), &error);
            assert_int_not_equal(known, COLL_ALGORITHM_AUTO);
        }
        assert_int_not_equal(known, COLL_ALGORITHM_AUTO); /* one at least */
        json_decref(manifest);
    }
}

/* If no sentence fits, no rank is started and nothing written. A rank would have made its log. */
static void a_context_that_fits_no_sentence_is_refused(void **state)
{
    (void)state;
    char logs[BASE_PATH_BYTES];
    (void)snprintf(logs, sizeof logs, "%s", test_shared_path("logs"));
    training_expect(&one, &test_shared_directory, "short", 2,
                    FLAGS("--ranks", "2", "--context", "2", "--log-dir", logs));
    const char *err = one.program.text[TEST_STDERR];
    assert_ptr_equal(strstr(err, "launcher: error: --context 2: none of the "), err);
    assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1); /* one line */
    assert_int_not_equal(access(one.out, F_OK), 0);
    assert_int_not_equal(access(logs, F_OK), 0);
}

/* The same without --context, for a file whose sentences are all too long. */
static void data_of_long_sentences_alone_are_refused(void **state)
{
    (void)state;
    char text[2 * 1024] = "{\"text\":\"";
    base_error error;
    for (size_t at = strlen(text); at < 1024; at += 2) {
        memcpy(text + at, "? ", 2);
    }
    memcpy(text + 1024, "\"}\n", sizeof "\"}\n");
    const char *file = test_shared_path("long.jsonl");
    assert_ok(base_file_write(file, text, strlen(text), &error), &error);
    training_expect(&one, &test_shared_directory, "long", 2, FLAGS("--data", file));
    const char *err = one.program.text[TEST_STDERR];
    assert_ptr_equal(strstr(err, "launcher: error: --context 64: none of the 1 sentences of "),
                     err);
    assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
    assert_int_not_equal(access(one.out, F_OK), 0);
}

static const char *write_heldout(const char *first_line)
{
    char text[1024];
    base_error error;
    const char *file = test_shared_path("heldout.jsonl");
    const int length =
        snprintf(text, sizeof text,
                 "%s\n{\"text\":\"he go → he goes\",\"wrong\":\"he go\",\"right\":\"he goes\"}\n",
                 first_line);
    assert_ok(base_file_write(file, text, (size_t)length, &error), &error);
    return file;
}

/* A training reads it when it has trained: too late to find that it is no held-out file. */
static void a_heldout_file_is_looked_at_before(void **state)
{
    (void)state;
    const char *file = write_heldout(
        "{\"wrong\":\"he go\",\"right\":\"he goes\"}\n{\"text\":\"he go → he goes\"}");
    training_expect(&one, &test_shared_directory, "heldout", 2,
                    FLAGS("--heldout", file, "--eval-every", "2"));
    assert_has(one.program.text[TEST_STDERR], "heldout.jsonl:2: no \"wrong\" and");
    assert_int_not_equal(access(one.out, F_OK), 0);
}

static void a_long_heldout_sentence_is_left_out(void **state)
{
    (void)state;
#define LONG                                                                                       \
    "he go to the old school and she go to the old school and we goes to the old school and "      \
    "they goes to the old school"
    static const char line[] =
        "{\"text\":\"" LONG " → he goes\",\"wrong\":\"" LONG "\",\"right\":\"he goes\"}";
#undef LONG
    static const char *const when[] = {"--eval", "--eval-every=2"};
    const char *file = write_heldout(line);
    for (size_t i = 0; i < sizeof when / sizeof when[0]; i++) {
        training_expect(&one, &test_shared_directory, "heldout", 0,
                        FLAGS("--heldout", file, "--context", "24", "--steps", "2", when[i]));
        assert_has(one.program.text[TEST_STDOUT], "held-out exact match: 0/1 (0.0 %) on ");
        assert_has(one.program.text[TEST_STDOUT], file);
        assert_has(one.program.text[TEST_STDERR],
                   "1 held-out sentence is longer than the context of 24 tokens and left "
                   "out of the accuracy");
        assert_int_equal(access(test_shared_path("heldout/model.safetensors"), F_OK), 0);
    }
}

static void the_record_says_what_happened(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "record", 0,
                    FLAGS("--ranks", "2", "--lr", "1e-2", "--eval"));
    json_t *manifest = training_manifest(&one);
    assert_true(json_is_true(json_object_get(manifest, "byte_equivalent")));
    assert_int_equal(json_integer_value(json_object_get(manifest, "steps")), 6);
    assert_int_equal(json_integer_value(json_object_get(manifest, "world_size")), 2);
    assert_string_equal(json_string_value(json_object_get(manifest, "backend")),
                        "ringfence-shm-direct");
    assert_true(json_number_value(json_object_get(manifest, "tokens_per_sec_2proc")) > 0);
    assert_true(json_is_null(json_object_get(manifest, "tokens_per_sec_1proc")));
    assert_true(json_real_value(json_object_get(manifest, "max_abs_difference")) == 0.0);
    const json_t *eval = json_object_get(manifest, "eval");
    assert_true(json_number_value(json_object_get(eval, "loss")) > 0.0);
    assert_true(json_is_integer(json_object_get(eval, "correct")));
    assert_has(one.program.text[TEST_STDOUT], "held-out loss: ");
    const json_t *ranks = json_object_get(manifest, "ranks");
    assert_int_equal(json_array_size(ranks), 2);
    json_int_t sentences = 0;
    for (size_t i = 0; i < 2; i++) {
        const json_t *rank = json_array_get(ranks, i);
        sentences += json_integer_value(json_object_get(rank, "sentences_shard"));
    }
    const json_t *data = json_object_get(manifest, "data");
    assert_int_equal(sentences, json_integer_value(json_object_get(data, "sentences")));
    json_decref(manifest);

    json_t *timings = training_timings(one.out);
    size_t line = 0;
    const json_t *step = NULL;
    double last_loss[2] = {0};
    json_array_foreach(timings, line, step)
    {
        const json_int_t rank = json_integer_value(json_object_get(step, "rank"));
        assert_in_range(rank, 0, 1);
        last_loss[rank] = json_number_value(json_object_get(step, "loss_global"));
    }
    assert_int_equal(line, 12);
    assert_true(last_loss[0] == last_loss[1]);
    assert_true(last_loss[0] < log(512.0)); /* it has learnt something */
    json_decref(timings);
}

static void a_checkpoint_generates(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "model", 0, FLAGS("--ranks", "2"));
    const char *const generate[] = {
        LAUNCHER_PATH,       "--mode",   "generate",  "--checkpoint",     one.out, "--prompt",
        "he goed to school", "--prompt", "i has eat", "--max-new-tokens", "8",     NULL};
    char first[2][4096];
    for (int run = 0; run < 2; run++) {
        test_program_start(&two.program, generate, FLAGS());
        assert_int_equal(test_program_wait(&two.program), 0);
        assert_non_null(strchr(two.program.text[TEST_STDOUT], '\n'));
        (void)snprintf(first[run], sizeof first[run], "%s", two.program.text[TEST_STDOUT]);
    }
    assert_string_equal(first[0], first[1]);
    test_program_assert_no_children();
}

/* Training continues from the record's own model, into the same directory. The directory is moved
 * away or overwritten. In both cases the checkpoint is read before and replaced after, and the bits
 * are the same. */
static void training_goes_on_in_the_same_directory(void **state)
{
    (void)state;
    char out[BASE_PATH_BYTES];
    (void)snprintf(out, sizeof out, "%s", test_shared_path("go-on"));
    training_expect(&one, &test_shared_directory, "go-on", 0, FLAGS("--steps", "3"));
    training_expect(&one, &test_shared_directory, "go-on-else", 0,
                    FLAGS("--steps", "3", "--checkpoint", out));
    training_expect(&two, &test_shared_directory, "go-on", 0,
                    FLAGS("--steps", "3", "--checkpoint", out));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    training_assert_same_file(&one, "tokenizer.json", &two, "tokenizer.json");
    assert_int_equal(access(test_shared_path("go-on.1/manifest.json"), R_OK), 0);
    training_expect(&one, &test_shared_directory, "go-on-else", 0,
                    FLAGS("--steps", "3", "--overwrite", "--checkpoint", one.out, "--eval"));
    training_expect(&two, &test_shared_directory, "go-on", 0,
                    FLAGS("--steps", "3", "--checkpoint", out, "--eval"));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    training_assert_same_file(&one, "config.json", &two, "config.json");
}

static const char *write_data(const char *name, const char *text)
{
    base_error error;
    const char *path = test_shared_path(name);
    assert_ok(base_file_write(path, text, strlen(text), &error), &error);
    return path;
}

/* Three sentences for four ranks: one rank has none, and takes part in every step with zero
 * tokens. */
static void a_rank_without_sentences_joins_in(void **state)
{
    (void)state;
    const char *data = write_data("three.jsonl", "{\"text\":\"one two three\"}\n"
                                                 "{\"text\":\"four five six\"}\n"
                                                 "{\"text\":\"seven eight\"}\n");
    training_expect(&one, &test_shared_directory, "three", 0,
                    FLAGS("--ranks", "4", "--data", data));
    training_assert_same_file(&one, "state-rank-0.safetensors", &one, "state-rank-3.safetensors");
}

/* A sentence of thousands of characters is shown in part. */
static void a_long_sentence_is_shortened(void **state)
{
    (void)state;
    enum { WORDS = 1000 };
    char words[4 * WORDS + 1];
    char text[sizeof words + 64];
    for (size_t i = 0; i < sizeof words; i++) {
        words[i] = "abc "[i % 4];
    }
    words[sizeof words - 1] = '\0';
    (void)snprintf(text, sizeof text, "{\"text\":\"%s\"}\n{\"text\":\"short\"}\n", words);
    const char *data = write_data("long.jsonl", text);
    training_expect(&one, &test_shared_directory, "long", 0, FLAGS("--ranks", "1", "--data", data));
    for (int stream = 0; stream < 2; stream++) {
        const char *at = one.program.text[stream];
        for (size_t length = strcspn(at, "\n"); length > 0; length = strcspn(at, "\n")) {
            assert_true(length < 250);
            at += length + 1;
        }
    }
    json_t *manifest = training_manifest(&one);
    const json_t *rank = json_array_get(json_object_get(manifest, "ranks"), 0);
    const char *shown = json_string_value(json_object_get(rank, "first_sentence"));
    assert_memory_equal(shown, "abc abc ", 8);
    assert_int_equal(strlen(shown), 100 + strlen("…"));
    json_decref(manifest);
}

static void malformed_data_is_refused_by_line(void **state)
{
    (void)state;
    const char *data = write_data("bad.jsonl", "{\"text\":\"fine\"}\n{\"text\":\"fine too\"}\n"
                                               "{\"txt\":\"not\"}\n");
    training_expect(&one, &test_shared_directory, "bad", 1, FLAGS("--ranks", "2", "--data", data));
    assert_has(one.program.text[TEST_STDERR], "bad.jsonl");
    assert_has(one.program.text[TEST_STDERR], "3");
    assert_int_not_equal(access(one.out, F_OK), 0);
}

static int launch(training_run *run, const char *const *arguments)
{
    test_program_start(&run->program, arguments, FLAGS());
    return test_program_wait(&run->program);
}

/* JOB.json names files below --root by their path from there. With the root elsewhere the job runs
 * as before, digests included. Without a root, or with other data, it does not. */
static void a_job_moves_with_its_root(void **state)
{
    (void)state;
    static const char lines[] = "{\"text\":\"one two three\"}\n{\"text\":\"four five six\"}\n";
    char at[7][BASE_PATH_BYTES + 32];
    static const char *const names[] = {
        "here",          "here/data.jsonl",     "here/out", "JOB.json", "elsewhere",
        "elsewhere/out", "elsewhere/data.jsonl"};
    base_error error;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(at[i], sizeof at[i], "%s/%s", test_shared_directory.path, names[i]);
    }
    assert_ok(base_mkdirs(at[0], &error), &error);
    assert_ok(base_file_write(at[1], lines, sizeof lines - 1, &error), &error);
    const char *const write[] = {LAUNCHER_PATH, "--root",  at[0], "--data",      at[1], "--out",
                                 at[2],         "--steps", "2",   "--write-job", at[3], NULL};
    const char *const rooted[] = {LAUNCHER_PATH, "--job",        at[3],       "--root",
                                  at[4],         "--no-scaling", "--no-bind", NULL};
    const char *const rootless[] = {LAUNCHER_PATH, "--job", at[3], NULL};
    assert_int_equal(launch(&one, write), 0);
    assert_int_equal(rename(at[0], at[4]), 0);
    assert_int_equal(launch(&one, rooted), 0);
    (void)snprintf(one.out, sizeof one.out, "%s", at[5]);
    json_decref(training_manifest(&one));

    assert_int_equal(launch(&one, rootless), 2);
    assert_has(one.program.text[TEST_STDERR], "below the job's root");
    assert_ok(base_file_write(at[6], lines, sizeof lines - 2, &error), &error);
    assert_int_equal(launch(&one, rooted), 1);
    assert_has(one.program.text[TEST_STDERR], "is not the file that the job names");
}

/* Sets the embedding of the last position, which short sentences do not use. */
static void set_last_position(const training_run *run, float value)
{
    size_t size_bytes = 0;
    uint64_t header_bytes = 0;
    base_error error;
    char path[BASE_PATH_BYTES + 32];
    char *file = training_file(run, "model.safetensors", &size_bytes);
    memcpy(&header_bytes, file, sizeof header_bytes);
    json_t *header = json_loadb(file + 8, header_bytes, 0, NULL);
    assert_non_null(header);
    const json_t *tensor = json_object_get(header, "transformer.wpe.weight");
    const json_int_t end =
        json_integer_value(json_array_get(json_object_get(tensor, "data_offsets"), 1));
    assert_true(end > 0);
    memcpy(file + 8 + header_bytes + end - sizeof value, &value, sizeof value);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", run->out);
    assert_ok(base_file_write(path, file, size_bytes, &error), &error);
    json_decref(header);
    free(file);
}

/* The last update makes an infinity, and no later step would notice. */
static void parameters_out_of_range_are_warned_of(void **state)
{
    (void)state;
    const char *data = write_data("short.jsonl", "{\"text\":\"one two\"}\n"
                                                 "{\"text\":\"three\"}\n");
    training_expect(&one, &test_shared_directory, "small", 0, FLAGS("--data", data));
    assert_null(strstr(one.program.text[TEST_STDERR], "not finite"));
    set_last_position(&one, 1e37f);
    training_expect(&two, &test_shared_directory, "large", 0,
                    FLAGS("--data", data, "--checkpoint", one.out, "--steps", "1", "--lr", "100",
                          "--weight-decay", "100"));
    assert_has(two.program.text[TEST_STDERR], "parameters are not finite any more");
}

static void a_stop_saves_the_record_so_far(void **state)
{
    (void)state;
    training_start(&one, &test_shared_directory, "stop",
                   FLAGS("--ranks", "2", "--steps", "1000000", "--eval"));
    test_program_wait_text(&one.program, TEST_STDERR, "loss ");
    assert_int_equal(kill(one.program.pid, SIGINT), 0);
    assert_int_equal(test_program_wait(&one.program), 128 + SIGINT);
    test_program_assert_no_children();
    assert_null(strstr(one.program.text[TEST_STDOUT], "exact match")); /* not begun */
    training_assert_same_file(&one, "state-rank-0.safetensors", &one, "state-rank-1.safetensors");
    json_t *manifest = training_manifest(&one);
    assert_int_equal(json_integer_value(json_object_get(manifest, "exit_status")), 128 + SIGINT);
    char message[96];
    (void)snprintf(message, sizeof message, "stopped by SIGINT after step %lld of 1000000",
                   (long long)json_integer_value(json_object_get(manifest, "steps")));
    assert_string_equal(json_string_value(json_object_get(manifest, "message")), message);
    assert_true(json_is_true(json_object_get(manifest, "byte_equivalent")));
    json_decref(manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_command_gives_the_same_bits),
        cmocka_unit_test(ranks_and_micro_batches_nest),
        cmocka_unit_test(every_algorithm_and_transport_keeps_ranks_equal),
        cmocka_unit_test(the_record_names_the_algorithm_that_ran),
        cmocka_unit_test(a_context_that_fits_no_sentence_is_refused),
        cmocka_unit_test(data_of_long_sentences_alone_are_refused),
        cmocka_unit_test(a_heldout_file_is_looked_at_before),
        cmocka_unit_test(a_long_heldout_sentence_is_left_out),
        cmocka_unit_test(the_record_says_what_happened),
        cmocka_unit_test(a_checkpoint_generates),
        cmocka_unit_test(training_goes_on_in_the_same_directory),
        cmocka_unit_test(a_rank_without_sentences_joins_in),
        cmocka_unit_test(a_long_sentence_is_shortened),
        cmocka_unit_test(malformed_data_is_refused_by_line),
        cmocka_unit_test(a_job_moves_with_its_root),
        cmocka_unit_test(parameters_out_of_range_are_warned_of),
        cmocka_unit_test(a_stop_saves_the_record_so_far),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
