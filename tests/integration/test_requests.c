/* Prompts that come while the job runs (--prompts -): the events of real jobs, whole and cut
 * short. */
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "inference.h"
#include "proto/limits.h"

static test_program program; /* its buffers are big */
static training_run wide;    /* a model with a context that takes a while to fill */

static int setup(void **state)
{
    (void)inference_make_model(state);
    training_expect(&wide, &test_shared_directory, "wide", 0,
                    FLAGS("--ranks", "1", "--heads", "4", "--width", "64", "--context", "16384",
                          "--batch", "1", "--steps", "1"));
    return 0;
}

/* Starts a job that takes requests, and returns where to write them. */
static int start(const training_run *model, const char *ranks, const char *name,
                 const char *const *flags)
{
    const char *arguments[TEST_PROGRAM_ARGS_MAX] = {
        LAUNCHER_PATH, "--mode",    "tp-cpu",
        "--ranks",     ranks,       "--checkpoint",
        model->out,    "--out",     test_shared_path(name),
        "--no-bind",   "--prompts", "-",
        "--stream",    "json"};
    size_t count = 14;
    for (size_t i = 0; flags[i] != NULL; i++) {
        arguments[count++] = flags[i];
    }
    arguments[count] = NULL;
    return test_program_start_fed(&program, arguments, FLAGS(NULL));
}

static void say(int input, const char *lines)
{
    assert_int_equal(write(input, lines, strlen(lines)), strlen(lines));
}

static int end(int input)
{
    (void)close(input);
    const int code = test_program_wait(&program);
    test_program_assert_no_children();
    return code;
}

/* What the events say of one request. */
typedef struct told {
    bool accepted;
    bool refused;
    bool finished;
    char finish_reason[32];
    char text[1024 * 1024];
    size_t text_bytes;
    json_t *tokens;
} told;

static void add_event(told *request, const json_t *event)
{
    const char *kind = json_string_value(json_object_get(event, "event"));
    assert_false(request->finished); /* the last one was the last */
    assert_false(request->refused);
    if (strcmp(kind, "accepted") == 0) {
        assert_false(request->accepted);
        request->accepted = true;
    } else if (strcmp(kind, "refused") == 0) {
        assert_false(request->accepted);
        request->refused = true;
    } else if (strcmp(kind, "tokens") == 0) {
        assert_true(request->accepted);
        assert_int_equal(json_array_extend(request->tokens, json_object_get(event, "token_ids")),
                         0);
        const json_t *text = json_object_get(event, "text");
        assert_true(request->text_bytes + json_string_length(text) < sizeof request->text);
        memcpy(request->text + request->text_bytes, json_string_value(text),
               json_string_length(text) + 1);
        request->text_bytes += json_string_length(text);
    } else {
        assert_string_equal(kind, "finished");
        request->finished = true;
        (void)snprintf(request->finish_reason, sizeof request->finish_reason, "%s",
                       json_string_value(json_object_get(event, "finish_reason")));
    }
}

/* All that was said of the request. The caller releases its tokens. */
static void read_events(json_int_t id, told *request)
{
    static char lines[TEST_PROGRAM_OUTPUT_BYTES];
    memcpy(lines, program.text[TEST_STDOUT], sizeof lines);
    memset(request, 0, sizeof *request);
    request->tokens = json_array();
    char *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *event = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(event);
        if (json_integer_value(json_object_get(event, "id")) == id) {
            add_event(request, event);
        }
        json_decref(event);
    }
}

/* Checks the request's events against an entry of results.json. */
static void compare(json_int_t id, const json_t *entry, const char *finish_reason)
{
    static told request;
    read_events(id, &request);
    assert_true(request.finished);
    assert_string_equal(request.finish_reason, finish_reason);
    assert_string_equal(json_string_value(json_object_get(entry, "finish_reason")), finish_reason);
    assert_string_equal(json_string_value(json_object_get(entry, "text")), request.text);
    assert_int_equal(json_equal(json_object_get(entry, "token_ids"), request.tokens), 1);
    json_decref(request.tokens);
}

/* The same tokens as from a file, on one rank and on two, whatever comes when. */
static void requests_give_the_tokens_of_a_file(void **state)
{
    (void)state;
    char *expected = inference_tokens("1", "file", FLAGS(DRAWN));
    static const char *const ranks[] = {"1", "2"};
    for (size_t i = 0; i < 2; i++) {
        const int input =
            start(&inference_model, ranks[i], "came",
                  FLAGS("--max-new-tokens", "12", "--temperature", "0.9", "--top-p", "0.8",
                        "--max-num-seqs", "2", "--speculate", i == 0 ? "0" : "6"));
        say(input, "he goed to school\n\n{\"prompt\":\"i has eat\"}\r\n");
        test_program_wait_text(&program, TEST_STDOUT, "\"finished\"");
        say(input, "i has eat"); /* the last line has no newline */
        assert_int_equal(end(input), 0);
        json_t *results = inference_results("came");
        const json_t *prompts = json_object_get(results, "prompts");
        json_t *all = json_array();
        assert_int_equal(json_array_size(prompts), 3);
        for (size_t p = 0; p < 3; p++) {
            const json_t *entry = json_array_get(prompts, p);
            compare((json_int_t)p + 1, entry,
                    json_string_value(json_object_get(entry, "finish_reason")));
            assert_int_equal(json_array_append(all, json_object_get(entry, "token_ids")), 0);
        }
        char *text = json_dumps(all, JSON_COMPACT);
        assert_string_equal(text, expected);
        free(text);
        json_decref(all);
        json_decref(results);
    }
    free(expected);
}

/* Refused requests leave the others alone. */
static void what_cannot_be_answered_is_refused(void **state)
{
    (void)state;
    static told request;
    static char long_line[1100 * 1024];
    char line[4096];
    size_t used = 0;
    const int input = start(&inference_model, "2", "refused", FLAGS("--max-new-tokens", "3"));
    say(input, "{\"prompt\":\"\"}\n" /* 1 */
               "{\"prompt\":1}\n"
               "{\"prompt\":\"a\",\"prompt_token_ids\":[1]}\n"
               "{\"prompt\":\"a\",\"top_p\":0}\n"
               "{\"prompt\":\"a\",\"warmth\":1}\n" /* 5 */
               "{\"prompt\"\n"
               "\xff\xfe\n"
               "{\"prompt_token_ids\":[100000]}\n"); /* 8: no token of the model */
    for (int i = 0; i < 300; i++) {                  /* 9: more tokens than the context has */
        used += (size_t)snprintf(line + used, sizeof line - used, "%d school ", i);
    }
    say(input, line);
    say(input, "\n");
    memset(long_line, 'a', sizeof long_line - 2); /* 10: more than a line may have */
    long_line[sizeof long_line - 2] = '\n';
    say(input, long_line);
    say(input, "{\"cancel\":77}\n{\"prompt\":\"the boy\"}\n"); /* 11 */
    assert_int_equal(end(input), 0);
    for (json_int_t id = 1; id <= 11; id++) {
        read_events(id, &request);
        json_decref(request.tokens);
        if (request.refused != (id < 11) || request.finished != (id == 11)) {
            fail_msg("request %d: %s", (int)id, program.text[TEST_STDOUT]);
        }
    }
    assert_has(program.text[TEST_STDOUT], "cancel: there is no request 77");
    json_t *results = inference_results("refused");
    assert_int_equal(json_array_size(json_object_get(results, "prompts")), 1);
    json_decref(results);
}

/* The tokens of request 1, alone or beside another that is cancelled. */
static json_t *first_tokens(const char *name, bool beside)
{
    static told request;
    const int input = start(&wide, "2", name, FLAGS("--ignore-eos", "--temperature", "1"));
    say(input, "{\"prompt\":\"he goed\",\"max_new_tokens\":300}\n");
    if (beside) {
        say(input, "{\"prompt\":\"i has eat\",\"max_new_tokens\":16000}\n");
        test_program_wait_text(&program, TEST_STDOUT, "\"tokens\",\"id\":2");
        say(input, "{\"cancel\":2}\n{\"cancel\":2}\n");
    }
    assert_int_equal(end(input), 0);
    json_t *results = inference_results(name);
    const json_t *prompts = json_object_get(results, "prompts");
    assert_int_equal(json_array_size(prompts), beside ? 2 : 1);
    compare(1, json_array_get(prompts, 0), "length");
    if (beside) {
        compare(2, json_array_get(prompts, 1), "cancelled");
    }
    json_decref(results);
    read_events(1, &request);
    return request.tokens;
}

static void a_cancel_changes_nobody_elses_tokens(void **state)
{
    (void)state;
    json_t *alone = first_tokens("alone", false);
    json_t *beside = first_tokens("beside", true);
    assert_int_equal(json_array_size(alone), 300);
    assert_int_equal(json_equal(alone, beside), 1);
    json_decref(alone);
    json_decref(beside);
}

/* A cancel frees its sequence: one that waited for it runs. */
static void a_cancelled_request_makes_room(void **state)
{
    (void)state;
    const int input = start(&wide, "2", "room",
                            FLAGS("--ignore-eos", "--temperature", "1", "--max-num-seqs", "1"));
    say(input, "{\"prompt\":\"he goed\",\"max_new_tokens\":16000}\n"
               "{\"prompt\":\"never\",\"max_new_tokens\":16000}\n"
               "{\"prompt\":\"i has eat\",\"max_new_tokens\":5}\n");
    test_program_wait_text(&program, TEST_STDOUT, "\"tokens\",\"id\":1");
    say(input, "{\"cancel\":2}\n{\"cancel\":1}\n");
    assert_int_equal(end(input), 0);
    json_t *results = inference_results("room");
    const json_t *prompts = json_object_get(results, "prompts");
    assert_int_equal(json_array_size(prompts), 2); /* the second never began */
    compare(1, json_array_get(prompts, 0), "cancelled");
    compare(3, json_array_get(prompts, 1), "length");
    json_decref(results);
}

/* A cancel is read while there is no room for another request: all that are open are cancelled. */
static void a_cancel_needs_no_room(void **state)
{
    (void)state;
    enum { ALL = 1 + PROTO_REQUESTS_WAITING_MAX };
    char line[64];
    const int input = start(&wide, "2", "full",
                            FLAGS("--ignore-eos", "--temperature", "1", "--max-num-seqs", "1"));
    for (int id = 1; id <= ALL; id++) {
        say(input, "{\"prompt\":\"he goed\",\"max_new_tokens\":16000}\n");
    }
    (void)snprintf(line, sizeof line, "\"accepted\",\"id\":%d,", ALL);
    test_program_wait_text(&program, TEST_STDOUT, line);
    for (int id = ALL; id >= 1; id--) {
        (void)snprintf(line, sizeof line, "{\"cancel\":%d}\n", id);
        say(input, line);
    }
    assert_int_equal(end(input), 0);
    json_t *results = inference_results("full");
    const json_t *prompts = json_object_get(results, "prompts");
    assert_int_equal(json_array_size(prompts), 1); /* the others never began */
    compare(1, json_array_get(prompts, 0), "cancelled");
    json_decref(results);
}

/* Tokens can be any bytes, half a character too. */
static void a_prompt_of_any_bytes_is_kept(void **state)
{
    (void)state;
    const int input = start(&inference_model, "2", "bytes", FLAGS("--max-new-tokens", "3"));
    say(input, "{\"prompt_token_ids\":[130,200,250]}\n");
    assert_int_equal(end(input), 0);
    json_t *results = inference_results("bytes");
    const json_t *prompts = json_object_get(results, "prompts");
    assert_int_equal(json_array_size(prompts), 1);
    assert_true(json_is_string(json_object_get(json_array_get(prompts, 0), "prompt")));
    json_decref(results);
}

/* Ctrl-C: what runs is cut, kept, and said. */
static void an_interrupt_cancels_what_runs(void **state)
{
    (void)state;
    static told request;
    const int input = start(&wide, "2", "cut",
                            FLAGS("--ignore-eos", "--temperature", "1", "--max-num-seqs", "1",
                                  "--max-new-tokens", "16000"));
    say(input, "he goed\ni has eat\n");
    test_program_wait_text(&program, TEST_STDOUT, "\"tokens\",\"id\":1");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    assert_int_equal(test_program_wait(&program), 128 + SIGINT);
    (void)close(input);
    test_program_assert_no_children();
    json_t *results = inference_results("cut");
    const json_t *prompts = json_object_get(results, "prompts");
    assert_int_equal(json_array_size(prompts), 1);
    compare(1, json_array_get(prompts, 0), "cancelled");
    read_events(2, &request); /* it was waiting */
    assert_string_equal(request.finish_reason, "cancelled");
    assert_int_equal(json_array_size(request.tokens), 0);
    json_decref(request.tokens);
    json_decref(results);
}

/* Texts stand in lines with the numbers of their requests. */
static void whole_texts_are_printed(void **state)
{
    (void)state;
    const char *const arguments[] = {LAUNCHER_PATH,
                                     "--mode",
                                     "tp-cpu",
                                     "--checkpoint",
                                     inference_model.out,
                                     "--out",
                                     test_shared_path("texts"),
                                     "--no-bind",
                                     "--max-new-tokens",
                                     "4",
                                     "--prompts",
                                     "-",
                                     NULL};
    const int input = test_program_start_fed(&program, arguments, FLAGS(NULL));
    say(input, "{\"prompt\":\"\"}\nhe goed to school\n");
    assert_int_equal(end(input), 0);
    assert_int_equal(strncmp(program.text[TEST_STDOUT], "2: ", 3), 0);
    assert_has(program.text[TEST_STDERR], "request 1 was refused: no \"prompt\"");
}

static void what_does_not_go_together_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const wrong[][5] = {
        {"tp-cpu", "--prompts", "-", "--baseline", "--baseline with prompts that come"},
        {"generate", "--prompts", "-", "--quiet", "prompts can come while"},
        {"tp-cpu", "--prompt", "a", "--stream=json", "--stream goes with --prompts -"},
        {"tp-cpu", "--prompts", "-", "--prompt=a", "--prompt or --prompts"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const int code = inference_run(&program, wrong[i][0], "2", "never",
                                       FLAGS(wrong[i][1], wrong[i][2], wrong[i][3]));
        assert_int_equal(code, 2);
        assert_has(program.text[TEST_STDERR], wrong[i][4]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_give_the_tokens_of_a_file),
        cmocka_unit_test(what_cannot_be_answered_is_refused),
        cmocka_unit_test(a_cancel_changes_nobody_elses_tokens),
        cmocka_unit_test(a_cancelled_request_makes_room),
        cmocka_unit_test(a_cancel_needs_no_room),
        cmocka_unit_test(a_prompt_of_any_bytes_is_kept),
        cmocka_unit_test(an_interrupt_cancels_what_runs),
        cmocka_unit_test(whole_texts_are_printed),
        cmocka_unit_test(what_does_not_go_together_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, setup, test_shared_directory_remove);
}
