/* Inputs that --mode tp-cpu refuses: checkpoints, prompts and world sizes. Each is refused in one
 * line that names the fault, before any rank computes anything. And checkpoints that a training
 * refuses. */
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/file.h"
#include "program.h"
#include "rank/checkpoint.h"
#include "rank/tokenizer.h"
#include "support.h"

enum { FILE_BYTES_MAX = 1 << 20, LONG_PROMPT_WORDS = 200, ROW = 32 };

static test_directory directory;
static char checkpoint[BASE_PATH_BYTES];
static test_program program; /* its buffers are big */
static rank_model_config config;
static float *params;

static const char tokenizer_path[] = ORACLE_DIRECTORY "/tokenizer.json";

static void write_checkpoint(void)
{
    base_error error;
    assert_ok(rank_checkpoint_write(checkpoint,
                                    &(rank_checkpoint_about){.config = &config,
                                                             .tokenizer_path = tokenizer_path,
                                                             .end_id = config.vocab_size - 1,
                                                             .prompt_suffix = "",
                                                             .type = RANK_FLOAT32},
                                    params, &error),
              &error);
}

static int setup(void **state)
{
    (void)state;
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    assert_ok(rank_tokenizer_load(tokenizer_path, &tokenizer, &error), &error);
    config = (rank_model_config){.family = rank_family_default(),
                                 .vocab_size = rank_tokenizer_vocab_size(tokenizer),
                                 .width = ROW,
                                 .layers = 1,
                                 .heads = 4,
                                 .context = 64};
    rank_tokenizer_destroy(tokenizer);
    params = calloc(rank_model_param_count(&config), sizeof *params);
    assert_non_null(params);
    rank_model_init(&config, 3, params);
    test_directory_make(&directory);
    (void)snprintf(checkpoint, sizeof checkpoint, "%s", test_directory_path(&directory, "."));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(params);
    test_directory_remove(&directory);
    return 0;
}

/* Runs the launcher; its exit code. */
static int run(const char *ranks, const char *flag, const char *prompt)
{
    test_program_start(&program,
                       FLAGS(LAUNCHER_PATH, "--ranks", ranks, "--mode", "tp-cpu", "--checkpoint",
                             checkpoint, "--tokenizer", tokenizer_path, flag, prompt,
                             "--max-new-tokens", "4", "--no-bind", "--timeout", "40"),
                       FLAGS());
    const int code = test_program_wait(&program);
    test_program_assert_no_children();
    return code;
}

/* The launcher itself refuses, before it starts a rank. There is one line on standard error with
 * this text in it, and no answer. */
static void expect_flag_refused(const char *ranks, const char *flag, const char *prompt,
                                const char *expected)
{
    const int code = run(ranks, flag, prompt);
    const char *line = program.text[TEST_STDERR];
    const char *end = strchr(line, '\n');
    if (code != BASE_EXIT_USAGE || strstr(line, expected) == NULL || strstr(line, "(pid") != NULL ||
        end == NULL || end[1] != '\0' || program.text_bytes[TEST_STDOUT] != 0) {
        fail_msg("exit code %d, and '%s' is not the one line: %s%s", code, expected, line,
                 program.text[TEST_STDOUT]);
    }
}

static void expect_refused(const char *ranks, const char *prompt, const char *expected)
{
    expect_flag_refused(ranks, "--prompt", prompt, expected);
}

/* A file of the checkpoint, to be changed. */
static uint8_t *get(const char *name, size_t *size_bytes)
{
    return test_file_read(test_directory_path(&directory, name), size_bytes);
}

static void put(const char *name, const void *data, size_t size_bytes)
{
    base_error error;
    assert_ok(base_file_write(test_directory_path(&directory, name), data, size_bytes, &error),
              &error);
}

/* Replaces `what` in the file by `with`, which has the same length. */
static void replace(const char *name, const char *what, const char *with)
{
    test_file_change(test_directory_path(&directory, name), what, with);
}

static void a_good_checkpoint_is_read(void **state)
{
    (void)state;
    write_checkpoint();
    const int code = run("2", "--prompt", "the boy");
    if (code != 0) {
        fail_msg("exit code %d: %s", code, program.text[TEST_STDERR]);
    }
    assert_true(program.text_bytes[TEST_STDOUT] > 0);
}

static void missing_and_cut_weights(void **state)
{
    (void)state;
    size_t size_bytes = 0;
    write_checkpoint();
    uint8_t *data = get("model.safetensors", &size_bytes);
    assert_int_equal(remove(test_directory_path(&directory, "model.safetensors")), 0);
    expect_refused("2", "the boy", "model.safetensors");
    put("pytorch_model.bin", "", 0);
    expect_refused("2", "the boy", "pytorch_model.bin is not read: save_pretrained");
    assert_int_equal(remove(test_directory_path(&directory, "pytorch_model.bin")), 0);
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    put("model.safetensors", pointer, sizeof pointer - 1);
    expect_refused("2", "the boy", "model.safetensors: it is a pointer of Git LFS");
    put("model.safetensors", data, size_bytes - 1);
    expect_refused("2", "the boy", "its offsets are outside the file");
    put("model.safetensors", data, 100);
    expect_refused("2", "the boy", "model.safetensors: the file ends inside its header");
    put("model.safetensors", data, 5);
    expect_refused("2", "the boy", "model.safetensors: 5 bytes are too few for a safetensors file");
    data[7] |= 0x80;
    put("model.safetensors", data, size_bytes);
    expect_refused("2", "the boy", "model.safetensors: its header of 9223372036854");
    free(data);
}

static void headers_that_do_not_match(void **state)
{
    (void)state;
    static const struct {
        const char *what; /* in the header, */
        const char *with;
        const char *expected; /* of the refusal */
    } cases[] = {
        {"h.0.ln_1.bias\":{\"dtype\":\"F32\"", "h.0.ln_1.bias\":{\"dtype\":\"I32\"",
         "tensor h.0.ln_1.bias is I32, not F32"},
        {"h.0.ln_1.bias\":{\"dtype\":\"F32\"", "h.0.ln_1.bias\":{\"dtype\":\"F16\"",
         "128 bytes do not hold its shape of F16"},
        {"\"shape\":[32,96]", "\"shape\":[96,32]", "another shape"},
        {"h.0.ln_1.bias\"", "h.9.ln_1.bias\"", "no tensor h.0.ln_1.bias in it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_checkpoint();
        replace("model.safetensors", cases[i].what, cases[i].with);
        expect_refused("2", "the boy", cases[i].expected);
    }
}

/* The offsets of the last tensor (32 floats) are changed. */
static void offsets_that_do_not_match(void **state)
{
    (void)state;
    static const struct {
        int begin; /* moved by this, */
        int end;   /* and this */
        const char *expected;
    } cases[] = {
        {4, 4, "tensor transformer.ln_f.bias: its offsets are outside the file"},
        {-4, -4, "tensor transformer.ln_f.bias: an overlap before it"},
        {-4, 0, "132 bytes do not hold its shape of F32"},
        {100000, 100000, "its offsets are outside the file"},
        {0, -128, "0 bytes do not hold its shape of F32"},
    };
    const int end = (int)(rank_model_param_count(&config) * sizeof *params);
    const int begin = end - 32 * (int)sizeof *params;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char what[64];
        char with[64];
        (void)snprintf(what, sizeof what, "[%d,%d]", begin, end);
        (void)snprintf(with, sizeof with, "[%d,%d]", begin + cases[i].begin, end + cases[i].end);
        write_checkpoint();
        replace("model.safetensors", what, with);
        expect_refused("2", "the boy", cases[i].expected);
    }
    write_checkpoint();
    size_t size_bytes = 0;
    uint8_t *data = get("model.safetensors", &size_bytes);
    data = realloc(data, size_bytes + 4);
    assert_non_null(data);
    memset(data + size_bytes, 0, 4);
    put("model.safetensors", data, size_bytes + 4);
    expect_refused("2", "the boy", "4 bytes after the last tensor");
    free(data);
}

static void another_type_of_model(void **state)
{
    (void)state;
    write_checkpoint();
    replace("config.json", "\"gpt2\"", "\"gptj\"");
    expect_refused("2", "the boy", "gptj");
    assert_has(program.text[TEST_STDERR], "which are: gpt2, llama, mistral, qwen2, qwen3");
}

static void a_tokenizer_that_does_not_fit(void **state)
{
    (void)state;
    const int vocab_size = config.vocab_size;
    config.vocab_size = vocab_size - 7;
    write_checkpoint();
    config.vocab_size = vocab_size;
    expect_refused("2", "the boy", "the tokenizer has");
}

/* Starts a training with the checkpoint; its exit code. */
static int train(void)
{
    const char *out = test_directory_path(&directory, "out");
    test_program_start(&program,
                       FLAGS(LAUNCHER_PATH, "--checkpoint", checkpoint, "--tokenizer",
                             tokenizer_path, "--steps", "2", "--ranks", "2", "--out", out,
                             "--no-scaling", "--no-bind", "--timeout", "40"),
                       FLAGS());
    const int code = test_program_wait(&program);
    test_program_assert_no_children();
    return code;
}

/* The same flaws have the same text and the same exit code in both modes. */
static void a_training_refuses_the_same(void **state)
{
    (void)state;
    static const char index[] = "model.safetensors.index.json";
    static const struct {
        const char *file;
        const char *text;
        const char *expected;
    } cases[] = {
        {"model.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}", "its header of 922337"},
        {index, "{\"weight_map\":{\"ln_f.bias\":\"none.safetensors\"}}", "none.safetensors"},
        {index, "{", index},
        {"config.json", "{}", "config.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_checkpoint();
        (void)remove(test_directory_path(&directory, index));
        put(cases[i].file, cases[i].text, strlen(cases[i].text));
        expect_refused("2", "the boy", cases[i].expected);
        const int code = train();
        const char *line = program.text[TEST_STDERR];
        if (code != BASE_EXIT_USAGE || strstr(line, cases[i].expected) == NULL ||
            strchr(line, '\n') != line + strlen(line) - 1) {
            fail_msg("exit code %d, and '%s' is not the one line: %s", code, cases[i].expected,
                     line);
        }
    }
    (void)remove(test_directory_path(&directory, index));
}

/* Writes the checkpoint with this value in the first token's row. */
static void write_with(float value)
{
    float before[ROW];
    memcpy(before, params, sizeof before);
    for (int i = 0; i < ROW; i++) {
        params[i] = value;
    }
    write_checkpoint();
    memcpy(params, before, sizeof before);
}

/* The rate of learning has no part in the first loss. */
static void weights_out_of_range_are_blamed_on_the_checkpoint(void **state)
{
    (void)state;
    const char *said = program.text[TEST_STDERR];
    write_with(3e38f);
    assert_int_equal(train(), BASE_EXIT_ERROR);
    assert_has(said, "the loss of the first step is not finite: weights in ");
    assert_null(strstr(said, "--lr"));
    write_with(NAN);
    assert_int_equal(train(), BASE_EXIT_ERROR);
    assert_has(said,
               "model.safetensors: tensor transformer.wte.weight has a NaN or an infinity in it");
    assert_int_equal(run("2", "--prompt", "the boy"), BASE_EXIT_ERROR);
    assert_has(said,
               "model.safetensors: tensor transformer.wte.weight has a NaN or an infinity in it");
}

static void prompts_that_cannot_be(void **state)
{
    (void)state;
    char words[5 * LONG_PROMPT_WORDS + 1] = "";
    for (int i = 0; i < LONG_PROMPT_WORDS; i++) {
        memcpy(words + 5 * i, "verb ", 6);
    }
    write_checkpoint();
    expect_refused("2", "", "prompt");
    expect_refused("2", words, "error: a prompt must have 1 to 63 tokens");
    expect_flag_refused("2", "--prompts", checkpoint, "is not a regular file");
    expect_flag_refused("2", "--prompts", "/dev/null", "is not a regular file");
    expect_flag_refused("2", "--prompts", "nowhere", "cannot open");
}

static void worlds_that_do_not_fit(void **state)
{
    (void)state;
    write_checkpoint();
    expect_refused("3", "the boy", "it can between 1, 2, 4");
}

/* Nobody answers with another model's tokenizer. */
static void a_checkpoint_without_a_tokenizer_is_refused(void **state)
{
    (void)state;
    write_checkpoint();
    assert_int_equal(unlink(test_directory_path(&directory, "tokenizer.json")), 0);
    test_program_start(
        &program,
        FLAGS(LAUNCHER_PATH, "--mode", "generate", "--checkpoint", checkpoint, "--prompt", "he"),
        FLAGS());
    assert_int_equal(test_program_wait(&program), BASE_EXIT_USAGE);
    assert_has(program.text[TEST_STDERR], "tokenizer.json (tokenizer.model");
}

static void a_checkpoint_is_a_directory(void **state)
{
    (void)state;
    write_checkpoint();
    test_program_start(&program,
                       FLAGS(LAUNCHER_PATH, "--mode", "generate", "--checkpoint",
                             test_directory_path(&directory, "config.json"), "--prompt", "he"),
                       FLAGS());
    assert_int_equal(test_program_wait(&program), BASE_EXIT_USAGE);
    assert_has(program.text[TEST_STDERR], "is a file: give the directory that it is in");
}

/* A server whose port another program has leaves no empty directory behind. */
static void a_port_that_is_taken_leaves_nothing(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    char serve[32];
    char out[BASE_PATH_BYTES];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    (void)snprintf(serve, sizeof serve, "127.0.0.1:%d", ntohs(address.sin_port));
    (void)snprintf(out, sizeof out, "%s", test_directory_path(&directory, "not-served"));
    test_program_start(&program,
                       FLAGS(LAUNCHER_PATH, "--ranks", "2", "--mode", "tp-cpu", "--checkpoint",
                             checkpoint, "--tokenizer", tokenizer_path, "--serve", serve, "--out",
                             out, "--no-bind"),
                       FLAGS());
    assert_int_equal(test_program_wait(&program), BASE_EXIT_ERROR);
    assert_non_null(strstr(program.text[TEST_STDERR], "cannot listen there: Address already"));
    assert_int_not_equal(access(out, F_OK), 0);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_checkpoint_is_read),
        cmocka_unit_test(missing_and_cut_weights),
        cmocka_unit_test(headers_that_do_not_match),
        cmocka_unit_test(offsets_that_do_not_match),
        cmocka_unit_test(another_type_of_model),
        cmocka_unit_test(a_tokenizer_that_does_not_fit),
        cmocka_unit_test(a_training_refuses_the_same),
        cmocka_unit_test(weights_out_of_range_are_blamed_on_the_checkpoint),
        cmocka_unit_test(prompts_that_cannot_be),
        cmocka_unit_test(worlds_that_do_not_fit),
        cmocka_unit_test(a_checkpoint_without_a_tokenizer_is_refused),
        cmocka_unit_test(a_checkpoint_is_a_directory),
        cmocka_unit_test(a_port_that_is_taken_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
