/* Log-probabilities of drawn tokens in whole jobs: the same bits however the model is cut, with drafts and with
 * neighbours, in results.json, in events and over HTTP. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "proto/limits.h"
#include "serving.h"

#define ASKED PROMPTS, "--ignore-eos", "--logprobs", "4"

static training_run thin; /* a model with a long context, whose tokens cost little */

static int setup(void **state)
{
    (void)inference_make_model(state);
    training_expect(&thin, &test_shared_directory, "thin", 0,
                    FLAGS("--ranks", "1", "--width", "16", "--heads", "1", "--context", "16384",
                          "--batch", "1", "--steps", "1"));
    return 0;
}

/* The log-probabilities of all prompts, to the bit. The caller frees it. */
static char *dump(const json_t *results)
{
    json_t *all = json_array();
    size_t index = 0;
    json_t *prompt = NULL;
    json_array_foreach(json_object_get(results, "prompts"), index, prompt)
    {
        const size_t count = json_array_size(json_object_get(prompt, "token_ids"));
        json_t *logprobs = json_object_get(prompt, "logprobs");
        assert_true(count > 0);
        assert_int_equal(json_array_size(logprobs), count);
        assert_int_equal(json_array_append(all, logprobs), 0);
    }
    assert_true(json_array_size(all) > 0);
    char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(all);
    return text;
}

static char *logprobs_of(const char *ranks, const char *const *flags)
{
    json_t *results = inference_measure(ranks, "asked", flags);
    char *text = dump(results);
    json_decref(results);
    return text;
}

/* What is drawn greedily is the best; the best come in order; together they have no more than all. */
static void check_numbers(const char *text)
{
    json_t *all = json_loads(text, 0, NULL);
    const json_t *tokens = json_array_get(all, 0);
    size_t index = 0;
    json_t *token = NULL;
    assert_int_equal(json_array_size(tokens), 12);
    json_array_foreach(tokens, index, token)
    {
        const json_t *best = json_object_get(token, "best");
        double sum = 0;
        double before = 0;
        size_t place = 0;
        json_t *one = NULL;
        assert_int_equal(json_array_size(best), 4);
        json_array_foreach(best, place, one)
        {
            assert_true(inference_real(one, "logprob") <= before);
            before = inference_real(one, "logprob");
            sum += exp(before);
        }
        assert_true(sum > 4.0 / 544 && sum < 1 + 1e-12);
        assert_true(inference_real(token, "logprob") ==
                    inference_real(json_array_get(best, 0), "logprob"));
    }
    json_decref(all);
}

static void every_way_has_the_same_bits(void **state)
{
    (void)state;
    static const char *const cut[][3] = {{"1", "--transport", "shm"}, {"2", "--transport", "shm"},
                                         {"4", "--transport", "shm"}, {"2", "--transport", "tcp"},
                                         {"2", "--speculate", "6"},   {"4", "--speculate", "16"},
                                         {"2", "--max-num-seqs", "1"}};
    char *greedy = logprobs_of("1", FLAGS(ASKED));
    char *drawn = logprobs_of("1", FLAGS(ASKED, "--temperature", "0.9", "--top-p", "0.8"));
    check_numbers(greedy);
    assert_string_not_equal(drawn, greedy);
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        char *again = logprobs_of(cut[i][0], FLAGS(ASKED, cut[i][1], cut[i][2]));
        assert_string_equal(again, greedy);
        free(again);
        again = logprobs_of(cut[i][0], FLAGS(ASKED, "--temperature", "0.9", "--top-p", "0.8",
                                             cut[i][1], cut[i][2]));
        assert_string_equal(again, drawn);
        free(again);
    }
    free(drawn);
    free(greedy);
}

/* 0: the drawn token's alone. Without the flag there are none. */
/* Runs mode generate; its standard output is the caller's to free. */
static char *generate(const training_run *model, const char *flags)
{
    char path[BASE_PATH_BYTES];
    char command[SERVING_COMMAND_BYTES];
    (void)snprintf(path, sizeof path, "%s", test_shared_path("texts"));
    (void)snprintf(command, sizeof command,
                   LAUNCHER_PATH
                   " --mode generate --ranks 2 --no-bind --quiet --checkpoint %s %s >%s",
                   model->out, flags, path);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a command of this test */
    return test_file_read(path, NULL);
}

/* Mode generate prints a line for each prompt, in their order: what results.json of tp-cpu says of it, but for
 * times. */
static void generate_says_what_the_results_do(void **state)
{
    (void)state;
    json_t *results = inference_measure("1", "asked", FLAGS(ASKED));
    char *lines =
        generate(&inference_model,
                 "--max-new-tokens 12 --ignore-eos --logprobs 4 --prompt 'he goed to school' "
                 "--prompt 'i has eat' --prompt 'i has eat'");
    char *rest = NULL;
    int count = 0;
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *expected = json_array_get(json_object_get(results, "prompts"), (size_t)count);
        json_t *got = json_loads(line, 0, NULL);
        assert_non_null(got);
        assert_int_equal(json_integer_value(json_object_get(got, "index")), count++);
        assert_int_equal(json_object_del(got, "index"), 0);
        assert_int_equal(json_object_del(expected, "ttft_ms"), 0);
        assert_int_equal(json_object_del(expected, "per_token_ms"), 0);
        assert_int_equal(json_object_size(got), 6);
        assert_true(json_equal(got, expected));
        json_decref(got);
    }
    assert_int_equal(count, 3);
    free(lines);
    json_decref(results);
}

/* Texts and lines come whole, in as many messages as they need. */
static void long_texts_are_not_cut(void **state)
{
    (void)state;
    static const char flags[] = "--max-new-tokens 7000 --ignore-eos --temperature 1 --prompt a "
                                "--prompt he";
    char more[256];
    char *rest = NULL;
    char *rest_of_lines = NULL;
    (void)snprintf(more, sizeof more, "%s --logprobs 0", flags);
    char *texts = generate(&thin, flags);
    char *lines = generate(&thin, more);
    char *text = strtok_r(texts, "\n", &rest);
    char *line = strtok_r(lines, "\n", &rest_of_lines);
    for (int i = 0; i < 2; i++) {
        assert_non_null(line);
        assert_true(strlen(line) > 4 * (size_t)PROTO_TEXT_BYTES_MAX);
        json_t *got = json_loads(line, 0, NULL);
        const char *whole = json_string_value(json_object_get(got, "text"));
        assert_int_equal(json_array_size(json_object_get(got, "token_ids")), 7000);
        assert_int_equal(json_array_size(json_object_get(got, "logprobs")), 7000);
        assert_true(strlen(whole) > 16 << 10);
        while (text != NULL && *whole != '\0') { /* a text may have several lines */
            assert_int_equal(strncmp(whole, text, strlen(text)), 0);
            whole += strlen(text);
            whole += strspn(whole, "\n");
            text = strtok_r(NULL, "\n", &rest);
        }
        assert_string_equal(whole, "");
        json_decref(got);
        line = strtok_r(NULL, "\n", &rest_of_lines);
    }
    assert_null(text);
    assert_null(line);
    free(texts);
    free(lines);
}

static void nobody_gets_what_was_not_asked_for(void **state)
{
    (void)state;
    json_t *results = inference_measure("2", "none", FLAGS(PROMPTS));
    const json_t *prompts = json_object_get(results, "prompts");
    assert_null(json_object_get(json_array_get(prompts, 0), "logprobs"));
    json_decref(results);
    results = inference_measure("2", "own", FLAGS(PROMPTS, "--logprobs", "0"));
    prompts = json_object_get(results, "prompts");
    const json_t *token =
        json_array_get(json_object_get(json_array_get(prompts, 0), "logprobs"), 0);
    assert_true(inference_real(token, "logprob") < 0);
    assert_int_equal(json_array_size(json_object_get(token, "best")), 0);
    json_decref(results);
}

/* Events have them piece by piece, of the requests that ask. */
static void events_say_what_the_results_do(void **state)
{
    (void)state;
    static test_program program;
    const char *arguments[] = {LAUNCHER_PATH,
                               "--mode",
                               "tp-cpu",
                               "--ranks",
                               "2",
                               "--out",
                               test_shared_path("came"),
                               "--checkpoint",
                               inference_model.out,
                               "--no-bind",
                               "--prompts",
                               "-",
                               "--stream",
                               "json",
                               "--max-new-tokens",
                               "12",
                               NULL};
    static const char lines[] = "{\"prompt\":\"he goed\",\"logprobs\":3,\"ignore_eos\":true}\n"
                                "{\"prompt\":\"i has\"}\n";
    const int input = test_program_start_fed(&program, arguments, FLAGS(NULL));
    assert_int_equal(write(input, lines, sizeof lines - 1), sizeof lines - 1);
    (void)close(input);
    assert_int_equal(test_program_wait(&program), 0);
    json_t *results = inference_results("came");
    const json_t *prompts = json_object_get(results, "prompts");
    json_t *told = json_array();
    char *rest = NULL;
    for (char *line = strtok_r(program.text[TEST_STDOUT], "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *event = json_loads(line, 0, NULL);
        const json_t *logprobs = json_object_get(event, "logprobs");
        const json_t *ids = json_object_get(event, "token_ids");
        const bool asked = json_integer_value(json_object_get(event, "id")) == 1;
        assert_int_equal(logprobs != NULL, asked && json_array_size(ids) > 0);
        assert_int_equal(json_array_size(logprobs), asked ? json_array_size(ids) : 0);
        (void)json_array_extend(told, (json_t *)(uintptr_t)logprobs);
        json_decref(event);
    }
    assert_int_equal(json_array_size(told), 12);
    assert_int_equal(json_equal(told, json_object_get(json_array_get(prompts, 0), "logprobs")), 1);
    assert_null(json_object_get(json_array_get(prompts, 1), "logprobs"));
    json_decref(told);
    json_decref(results);
}

/* ---- over HTTP ---- */

/* Asks for a completion with these fields, too; the caller's reference is taken. serving_reply has the answer. */
static void ask(json_t *fields)
{
    char path[BASE_PATH_BYTES];
    char arguments[SERVING_COMMAND_BYTES];
    json_t *body = json_pack("{s:s, s:i, s:b, s:f, s:i, s:i}", "prompt", "he goed", "max_tokens",
                             12, "ignore_eos", 1, "temperature", 0.7, "top_k", 40, "seed", 3);
    assert_int_equal(json_object_update(body, fields), 0);
    (void)snprintf(path, sizeof path, "%s", test_shared_path("body"));
    assert_int_equal(json_dump_file(body, path, 0), 0);
    (void)snprintf(arguments, sizeof arguments, "--data-binary @%s", path);
    assert_int_equal(serving_ask("/v1/completions", arguments), 200);
    json_decref(body);
    json_decref(fields);
}

static json_t *choice_of(json_t *fields)
{
    ask(fields);
    json_t *object = json_loads(serving_reply, 0, NULL);
    json_t *choice = json_incref(json_array_get(json_object_get(object, "choices"), 0));
    json_decref(object);
    return choice;
}

/* The tokens together are the text, each begins at its offset, and the best have the drawn one among them. */
static void check_fields(const json_t *logprobs, const char *text)
{
    const json_t *tokens = json_object_get(logprobs, "tokens");
    size_t at = 0;
    size_t characters = 0;
    size_t index = 0;
    json_t *token = NULL;
    assert_int_equal(json_object_size(logprobs), 4);
    assert_int_equal(json_array_size(json_object_get(logprobs, "token_logprobs")),
                     json_array_size(tokens));
    json_array_foreach(tokens, index, token)
    {
        const char *word = json_string_value(token) +
                           (index == 0 && text[0] != ' ' && json_string_value(token)[0] == ' ');
        const json_t *best = json_array_get(json_object_get(logprobs, "top_logprobs"), index);
        const double own =
            json_number_value(json_array_get(json_object_get(logprobs, "token_logprobs"), index));
        assert_int_equal(
            json_integer_value(json_array_get(json_object_get(logprobs, "text_offset"), index)),
            characters);
        assert_int_equal(strncmp(text + at, word, strlen(word)), 0);
        for (size_t end = at + strlen(word); at < end; at++) {
            characters += (text[at] & 0xc0) != 0x80;
        }
        assert_true(json_object_size(best) == 2 || json_object_size(best) == 3);
        assert_true(inference_real(best, json_string_value(token)) == own);
    }
    assert_int_equal(at, strlen(text));
}

/* Adds the pieces of a stream to the lists of the whole. */
static json_t *join_stream(json_t *fields)
{
    json_t *whole = json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs",
                              "top_logprobs", "text_offset");
    ask(fields);
    char *rest = NULL;
    for (char *line = strtok_r(serving_reply, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *object = json_loads(line + 6, 0, NULL);
        const json_t *choice = json_array_get(json_object_get(object, "choices"), 0);
        const json_t *piece = json_object_get(choice, "logprobs");
        const char *key = NULL;
        json_t *list = NULL;
        json_object_foreach(whole, key, list)
        {
            if (json_is_object(piece)) {
                assert_int_equal(json_array_extend(list, json_object_get(piece, key)), 0);
            }
        }
        assert_true(json_is_object(piece) ||
                    json_string_length(json_object_get(choice, "text")) == 0);
        json_decref(object);
    }
    return whole;
}

static void completions_have_their_fields(void **state)
{
    (void)state;
    serving_start(&inference_model, "2", FLAGS("--max-num-seqs", "2"));
    json_t *choice = choice_of(json_object());
    assert_true(json_is_null(json_object_get(choice, "logprobs")));
    json_decref(choice);
    choice = choice_of(json_pack("{s:i}", "logprobs", 0));
    assert_true(json_is_null(json_object_get(json_object_get(choice, "logprobs"), "top_logprobs")));
    json_decref(choice);
    choice = choice_of(json_pack("{s:i}", "logprobs", 2));
    const json_t *logprobs = json_object_get(choice, "logprobs");
    const char *text = json_string_value(json_object_get(choice, "text"));
    check_fields(logprobs, text);
    assert_int_equal(json_array_size(json_object_get(logprobs, "tokens")), 12);
    json_t *streamed = join_stream(json_pack("{s:i, s:b}", "logprobs", 2, "stream", 1));
    assert_int_equal(json_equal(streamed, logprobs), 1);
    json_decref(streamed);
    /* text that may begin a stop is held back, and its tokens come at once */
    char stop[128];
    (void)snprintf(stop, sizeof stop, "%s and more", text);
    streamed = join_stream(json_pack("{s:i, s:b, s:s}", "logprobs", 2, "stream", 1, "stop", stop));
    assert_int_equal(json_equal(streamed, logprobs), 1);
    json_decref(streamed);
    json_decref(choice);
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* As many as fit go out; a whole answer with more is an error, and a stream is none. */
static void more_than_can_be_kept_are_an_error(void **state)
{
    (void)state;
    serving_start(&thin, "1", FLAGS("--max-num-seqs", "1", "--max-new-tokens", "12000"));
    assert_int_equal(serving_ask("/v1/completions",
                                 "-d '{\"prompt\":\"a\",\"ignore_eos\":true,\"logprobs\":5}'"),
                     400);
    assert_non_null(strstr(serving_reply, "log-probabilities"));
    free(serving_complete("{\"prompt\":\"a\",\"max_tokens\":2}"));
    assert_int_equal(serving_end(SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_has_the_same_bits),
        cmocka_unit_test(generate_says_what_the_results_do),
        cmocka_unit_test(long_texts_are_not_cut),
        cmocka_unit_test(nobody_gets_what_was_not_asked_for),
        cmocka_unit_test(events_say_what_the_results_do),
        cmocka_unit_test(completions_have_their_fields),
        cmocka_unit_test(more_than_can_be_kept_are_an_error),
    };
    return cmocka_run_group_tests(tests, setup, test_shared_directory_remove);
}
