/* Files of a job on several hosts: agents that have none of them fetch all, once, and the job's bytes
 * are those of one host; interrupted, changed, damaged and oversized fetches. Hosts other than the
 * head see an empty directory where the head has its files. Needs root for its hosts. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "several.h"

enum { SMALL_BYTES = 1 << 20, COPY_BYTES_MAX = 64 << 20 };

/* What only the head has. */
static char inputs[SEVERAL_PATH_BYTES];
static char data[SEVERAL_PATH_BYTES];
static char part_of_data[SEVERAL_PATH_BYTES];
static char tokenizer[SEVERAL_PATH_BYTES];
static char heldout[SEVERAL_PATH_BYTES];
static char tokens[SEVERAL_PATH_BYTES]; /* of heldout */
static training_run model;              /* a checkpoint, in a directory of the inputs */

static training_run one;
static test_program alone;

static void copy(const char *from, const char *name, size_t bytes_max, char to[SEVERAL_PATH_BYTES])
{
    size_t size_bytes = 0;
    base_error error;
    (void)snprintf(to, SEVERAL_PATH_BYTES, "%s/%s", inputs, name);
    void *bytes = test_file_read(from, &size_bytes);
    size_bytes = size_bytes < bytes_max ? size_bytes : bytes_max;
    while (size_bytes > 0 && ((char *)bytes)[size_bytes - 1] != '\n' &&
           bytes_max < COPY_BYTES_MAX) {
        size_bytes--;
    }
    assert_ok(base_file_write(to, bytes, size_bytes, &error), &error);
    free(bytes);
}

static int setup(void **state)
{
    base_error error;
    (void)test_shared_directory_make(state);
    (void)snprintf(inputs, sizeof inputs, "%s", test_shared_path("inputs"));
    assert_ok(base_mkdirs(inputs, &error), &error);
    copy(SHARE_DIRECTORY "/train.jsonl", "train.jsonl", COPY_BYTES_MAX, data);
    copy(SHARE_DIRECTORY "/train.jsonl", "part.jsonl", SMALL_BYTES, part_of_data);
    copy(SHARE_DIRECTORY "/tokenizer.json", "tokenizer.json", COPY_BYTES_MAX, tokenizer);
    copy(SMALL_SHARE_DIRECTORY "/heldout.jsonl", "heldout.jsonl", COPY_BYTES_MAX, heldout);
    (void)snprintf(tokens, sizeof tokens, "%s/tokens.safetensors", inputs);
    several_run_quietly(FLAGS(ENCODE_PATH, "--tokenizer", tokenizer, "--out", tokens, heldout), 0);
    training_expect(&model, &test_shared_directory, "inputs/model", 0, FLAGS("--ranks", "2"));
    test_hosts_mount("64m", inputs);
    return 0;
}

/* How many files there are in a directory of host 1's cache whose names end so. */
static int count_cached(const char *directory, const char *suffix)
{
    char path[SEVERAL_PATH_BYTES];
    int count = 0;
    (void)snprintf(path, sizeof path, "%s/ringfence/%s", test_hosts_cache(1), directory);
    DIR *entries = opendir(path);
    const struct dirent *entry = NULL;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        const size_t length = strlen(entry->d_name);
        const size_t end = strlen(suffix);
        count += entry->d_name[0] != '.' && length >= end &&
                 strcmp(entry->d_name + length - end, suffix) == 0;
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    return count;
}

static void empty_cache(void)
{
    several_run_quietly(FLAGS("/bin/rm", "-rf", test_hosts_cache(1)), 0);
}

static void assert_silent(int node, const char *text)
{
    if (strstr(several_runs[node].program.text[TEST_STDERR], text) != NULL) {
        fail_msg("'%s' is in: %s", text, several_runs[node].program.text[TEST_STDERR]);
    }
}

/* Trains on two hosts, and compares with `one`. The head's files are below its working directory. */
static void train(const char *name, const several *job)
{
    several_start_head(job, name);
    several_start(1, job, several_no_flags);
    several_expect_all(2, 0);
    for (int rank = 0; rank < 2; rank++) {
        char file[64];
        (void)snprintf(file, sizeof file, "state-rank-%d.safetensors", rank);
        training_assert_same_file(&one, file, &several_runs[0], file);
    }
    test_program_assert_no_children();
    assert_int_equal(count_cached("runs", ""), 0);
}

#define TRAINING_INPUTS                                                                            \
    "--ranks", "2", "--transport", "tcp", "--data", data, "--tokenizer", tokenizer, "--heldout",   \
        heldout, "--eval"

static void an_agent_without_files_trains(void **state)
{
    (void)state;
    several_make_key("train");
    training_expect(&one, &test_shared_directory, "train-alone", 0, FLAGS(TRAINING_INPUTS));
    const several job = SEVERAL("2", TRAINING_INPUTS);
    train("train", &job);
    several_assert_says(0, "host host-1 (node 1) has fetched 3 files (5.7 MB)");
    several_assert_says(1, "fetched 3 of the job's 3 files (5.7 MB) in ");
    assert_int_equal(count_cached("files", ""), 3);
    /* now they are here */
    train("again", &job);
    assert_silent(1, "fetch");
}

/* An agent's rank reads windows from the file that was fetched. */
static void an_agent_fetches_tokens(void **state)
{
    (void)state;
    several_make_key("tokens");
    training_expect(
        &one, &test_shared_directory, "tokens-alone", 0,
        FLAGS("--ranks", "2", "--transport", "tcp", "--data", tokens, "--tokenizer", tokenizer));
    const several job = SEVERAL("2", "--ranks", "2", "--transport", "tcp", "--data", tokens,
                                "--tokenizer", tokenizer);
    train("tokens", &job);
    several_assert_says(1, "fetched 1 of the job's 2 files"); /* the tokenizer is there */
}

/* Changes a byte of each cached file. */
static void damage(void)
{
    static const char script[] =
        "for f in \"$0\"/ringfence/files/*; do "
        "printf x | dd of=\"$f\" bs=1 seek=100 conv=notrunc status=none; done";
    several_run_quietly(FLAGS("/bin/sh", "-c", script, test_hosts_cache(1)), 0);
}

static void a_damaged_cache_is_fetched_again(void **state)
{
    (void)state;
    several_make_key("damaged");
    const several job = SEVERAL("2", TRAINING_INPUTS);
    damage();
    train("damaged", &job);
    several_assert_says(1, "is not the file that it was: it is fetched again");
    several_assert_says(1, "fetched 3 of the job's 3 files");
}

/* From the parameters of an earlier run, whose directory the agent lacks. */
static void an_agent_without_a_checkpoint_trains(void **state)
{
    (void)state;
    several_make_key("resume");
    const char *const flags[] = {"--ranks", "2", "--checkpoint", model.out, NULL};
    training_expect(&one, &test_shared_directory, "resume-alone", 0, flags);
    several job = SEVERAL("2", NULL);
    memcpy(job.flags, flags, sizeof flags);
    train("resume", &job);
    several_assert_says(1, "fetched 4 of the job's 6 files"); /* data and tokenizer are there */
}

/* Answers on one host, then on two. `fed`: what to write to standard input. */
static void answer(const char *name, const char *const *prompts, const char *fed)
{
    char out[SEVERAL_PATH_BYTES];
    const char *all[TEST_PROGRAM_ARGS_MAX] = {LAUNCHER_PATH,
                                              "--mode",
                                              "tp-cpu",
                                              "--ranks",
                                              "2",
                                              "--checkpoint",
                                              model.out,
                                              "--quiet",
                                              "--no-bind",
                                              "--max-new-tokens",
                                              "8",
                                              "--out",
                                              out};
    size_t count = 13;
    (void)snprintf(out, sizeof out, "%s", test_shared_path(name));
    for (size_t i = 0; prompts[i] != NULL; i++) {
        all[count++] = prompts[i];
    }
    int input = test_program_start_fed(&alone, all, NULL);
    assert_int_equal(write(input, fed, strlen(fed)), strlen(fed));
    (void)close(input);
    assert_int_equal(test_program_wait(&alone), 0);
    assert_true(alone.text_bytes[TEST_STDOUT] > 0);
    const char *const hosts[] = {"--nodes",       "2",         "--node-rank", "0", "--rendezvous",
                                 several_address, "--job-key", several_key,   NULL};
    memcpy(&all[count], hosts, sizeof hosts);
    several_make_key(name);
    input = test_hosts_start_fed(&several_runs[0].program, 0, all);
    assert_int_equal(write(input, fed, strlen(fed)), strlen(fed));
    (void)close(input);
    const several job = SEVERAL("2", NULL);
    several_start(1, &job, several_no_flags);
    several_expect_all(2, 0);
    assert_string_equal(several_runs[0].program.text[TEST_STDOUT], alone.text[TEST_STDOUT]);
}

static void an_agent_without_files_answers(void **state)
{
    (void)state;
    char file[SEVERAL_PATH_BYTES];
    base_error error;
    static const char lines[] = "{\"prompt\": \"he go home\"}\n{\"prompt\": \"i has eat\"}\n";
    (void)snprintf(file, sizeof file, "%s/prompts.jsonl", inputs);
    assert_ok(base_file_write(file, lines, sizeof lines - 1, &error), &error);
    empty_cache();
    answer("file", FLAGS("--prompts", file), "");
    several_assert_says(1, "fetched 6 of the job's 6 files");
    answer("prompt", FLAGS("--prompt", "he go home", "--prompt", "i has eat"), "");
    answer("stream", FLAGS("--prompts", "-"), "he go home\ni has eat\n");
    empty_cache();
    answer("draft", FLAGS("--prompts", file, "--draft", model.out), "");
    several_assert_says(1, "of the job's 10 files");
}

/* ---- what goes wrong ---- */

#define SMALL_INPUTS "--ranks", "2", "--data", part_of_data, "--tokenizer", tokenizer

/* Waits until host 1 has begun to fetch, and has some bytes of a file. */
static void wait_for_part(void)
{
    static const char script[] =
        "until [ -n \"$(find \"$0\" -name '*.part' -size +200k)\" ]; do sleep 0.01; done";
    several_wait_says(1, "fetching what this host lacks");
    several_run_quietly(FLAGS("/bin/sh", "-c", script, test_hosts_cache(1)), 0);
}

/* On a slow link: Ctrl-C, then SIGKILL; the rest on a fast one. Nobody is taken for silent. */
static void an_interrupted_fetch_is_continued(void **state)
{
    (void)state;
    if (!test_hosts_slow(0, 1, "1mbit")) { /* the file takes 8 s */
        skip();
    }
    several_make_key("interrupted");
    const several job = SEVERAL("2", SMALL_INPUTS, "--transport", "tcp");
    training_expect(&one, &test_shared_directory, "interrupted-alone", 0,
                    FLAGS(SMALL_INPUTS, "--transport", "tcp"));
    empty_cache();
    several_start_head(&job, "interrupted");
    several_wait_says(0, "waiting at");
    static const int signals[] = {SIGINT, SIGKILL};
    for (int i = 0; i < 2; i++) {
        several_start(1, &job, several_no_flags);
        wait_for_part();
        (void)kill(several_runs[1].program.pid, signals[i]);
        several_expect(1, 128 + signals[i]);
        several_wait_says(0, "host host-1 (node 1) has left before the job began");
        assert_int_equal(count_cached("files", ".part"), 1);
        /* nothing is left, or a killed agent's directory and lock */
        assert_int_equal(count_cached("runs", ""), 2 * i);
    }
    test_hosts_fast(0, 1);
    several_start(1, &job, several_no_flags);
    several_expect_all(2, 0);
    training_assert_same_file(&one, "state-rank-1.safetensors", &several_runs[0],
                              "state-rank-1.safetensors");
    assert_int_equal(count_cached("files", ".part"), 0);
    assert_int_equal(count_cached("runs", ""), 0);
    assert_silent(0, "no heartbeat");
    assert_silent(1, "no heartbeat");
    several_assert_says(1, "fetched 2 of the job's 2 files (");
    assert_silent(1, "files (1.1 MB) in"); /* not all of it again */
}

/* A byte of the file changes after the head has read its digest. */
static void a_file_that_changes_is_refused(void **state)
{
    (void)state;
    several_make_key("changed");
    const several job = SEVERAL("2", SMALL_INPUTS);
    empty_cache();
    several_start_head(&job, "changed");
    several_wait_says(0, "waiting at");
    FILE *file = fopen(part_of_data, "r+e");
    assert_non_null(file);
    assert_int_equal(fseek(file, -2, SEEK_END), 0);
    assert_int_equal(fputc('?', file), '?');
    assert_int_equal(fclose(file), 0);
    several_start(1, &job, several_no_flags);
    several_expect_all(2, 1);
    several_assert_says(0, "host host-1 (node 1) cannot take part: data.train has changed at the "
                           "head: ");
    several_assert_says(1, "data.train has changed at the head: ");
    assert_int_equal(count_cached("files", ".part"), 0);
}

/* A launcher that something starts again whenever it ends, until there is no head any more. It prints what
 * the first one has said. */
static const char *repeated(void)
{
    static char script[SEVERAL_PATH_BYTES];
    static const char text[] =
        "#!/bin/sh\nuntil case $said in *'no head at'*) true ;; *) false ;; esac; do\n"
        "said=$(\"" LAUNCHER_PATH
        "\" \"$@\" --join-timeout 4 2>&1)\nfirst=${first:-$said}\ndone\necho \"$first\" >&2\nexit "
        "1\n";
    (void)snprintf(script, sizeof script, "%s", test_shared_path("repeated"));
    test_shared_put("repeated", text);
    assert_int_equal(chmod(script, 0700), 0);
    return script;
}

/* However often it comes again: the head does not wait for longer. */
static void a_full_disk_is_named(void **state)
{
    (void)state;
    base_error error;
    char says[SEVERAL_PATH_BYTES + 128];
    several_make_key("full");
    const several job = SEVERAL("2", TRAINING_INPUTS, "--join-timeout", "3");
    empty_cache();
    assert_ok(base_mkdirs(test_hosts_cache(1), &error), &error);
    test_hosts_mount("1m", test_hosts_cache(1));
    several_launchers[1] = repeated();
    several_start_hosts("full", &job);
    several_launchers[1] = NULL;
    several_expect_all(2, 1);
    (void)snprintf(says, sizeof says,
                   "host host-1 (node 1) has left before the job began: cannot write "
                   "%s/ringfence/files/",
                   test_hosts_cache(1));
    several_assert_says(0, says);
    several_assert_says(0, ".part: No space left on device");
    several_assert_says(0,
                        "1 of 2 hosts have not joined within 3 s: node 1 (has left: cannot write ");
    several_assert_says(1, ".part: No space left on device");
    test_program_assert_no_children();
}

/* What the agent's rank will save does not fit: that is said before the first step. */
static void too_little_room_for_a_state_is_named(void **state)
{
    (void)state;
    char cache[SEVERAL_PATH_BYTES];
    base_error error;
    (void)snprintf(cache, sizeof cache, "%s", test_shared_path("small-cache"));
    assert_ok(base_mkdirs(cache, &error), &error);
    test_hosts_unmount_all();
    test_hosts_mount("64k", cache);
    several_make_key("room");
    const several job = SEVERAL("2", "--ranks", "2");
    several_start_head(&job, "room");
    several_start(1, &job, FLAGS("--cache", cache));
    several_expect_all(2, 1);
    several_assert_says(0, "host host-1 (node 1): the disk of its --cache has room for 0.1 MB, and "
                           "its ranks save 0.");
    assert_silent(0, "step 1/");
    test_program_assert_no_children();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_without_files_trains),
        cmocka_unit_test(a_damaged_cache_is_fetched_again),
        cmocka_unit_test(an_agent_fetches_tokens),
        cmocka_unit_test(an_agent_without_a_checkpoint_trains),
        cmocka_unit_test(an_agent_without_files_answers),
        cmocka_unit_test(an_interrupted_fetch_is_continued),
        cmocka_unit_test(a_file_that_changes_is_refused),
        cmocka_unit_test(a_full_disk_is_named),
        cmocka_unit_test(too_little_room_for_a_state_is_named),
    };
    const int skipped = test_hosts_skip(2);
    return skipped != 0 ? skipped
                        : cmocka_run_group_tests(tests, setup, test_shared_directory_remove);
}
