/* Lines that are prompts with completions, or chats: which of their tokens a batch has as inputs and as targets. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "chat_case.h"
#include "data_fixture.h"

enum { IDS_MAX = 64 };

static const char prompts[] = "{\"prompt\":\"he goed\",\"completion\":\" he went\"}\n"
                              "{\"text\":\"she has a cat\"}\n"
                              "{\"prompt\":\"\",\"completion\":\"a\"}\n";

static rank_ids encode(rank_tokenizer *tokenizer, const char *text, int32_t *at)
{
    base_error error;
    rank_ids ids = {.at = at, .capacity = IDS_MAX};
    assert_ok(rank_tokenizer_encode(tokenizer, text, strlen(text), &ids, &error), &error);
    return ids;
}

/* The segment whose first tokens are those of the text. */
static int find_segment(const rank_batch *batch, const rank_ids *begin)
{
    for (int s = 0; s < batch->segment_count; s++) {
        const int32_t *at = batch->ids + batch->segment_start[s];
        if (memcmp(at, begin->at, begin->count * sizeof *at) == 0) {
            return s;
        }
    }
    fail_msg("no segment begins so");
    return -1;
}

/* Checks that a segment is these two texts, of which the second and the end token are targets, and the first too
 * if `all`. */
static void check_segment(const data_fixture *fixture, const rank_batch *batch, const char *prompt,
                          const char *completion, bool all)
{
    int32_t of_prompt[IDS_MAX];
    int32_t of_completion[IDS_MAX];
    const rank_ids first = encode(fixture->tokenizer, prompt, of_prompt);
    const rank_ids second = encode(fixture->tokenizer, completion, of_completion);
    const int segment = find_segment(batch, first.count > 0 ? &first : &second);
    const size_t begin = (size_t)batch->segment_start[segment];
    const size_t end = (size_t)batch->segment_start[segment + 1];
    assert_int_equal(end - begin, first.count + second.count);
    for (size_t i = 0; i < first.count + second.count; i++) {
        const int32_t id = i < first.count ? of_prompt[i] : of_completion[i - first.count];
        assert_int_equal(batch->ids[begin + i], id);
        if (i > 0) {
            assert_int_equal(batch->targets[begin + i - 1], all || i >= first.count ? id : -1);
        }
    }
    assert_int_equal(batch->targets[end - 1], rank_tokenizer_end_id(fixture->tokenizer));
}

static void completions_are_targets(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    data_write(fixture, prompts);
    for (int all = 0; all < 2; all++) {
        rank_batch batch;
        rank_data *data = NULL;
        rank_data_info info;
        rank_data_options options = data_options(fixture, 1, 0, 1);
        options.loss_on_correction = all == 0;
        assert_ok(rank_data_open(&options, &data, &error), &error);
        rank_data_get_info(data, &info);
        assert_int_equal(info.sentences_total, 3);
        assert_int_equal(info.sentences_long, 0);
        assert_int_equal(info.pairs, 0);
        assert_string_equal(info.first_sentence, "he goed he went");
        data_next_batch(data, 0, &batch);
        assert_int_equal(batch.segment_count, 3);
        check_segment(fixture, &batch, "he goed", " he went", all == 1);
        check_segment(fixture, &batch, "", "a", all == 1);
        check_segment(fixture, &batch, "she has a cat", "", true);
        rank_data_close(data);
    }
}

/* A slot has the same batches whatever rank has it, and can be gone back to. */
static void slots_share_them_out(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    data_write(fixture, prompts);
    for (int slot = 0; slot < 3; slot++) {
        rank_batch batch;
        rank_batch of_all;
        rank_data *data = NULL;
        rank_data *all = NULL;
        const rank_data_options options = data_options(fixture, 3, slot, 1);
        const rank_data_options together = data_options(fixture, 3, 0, 3);
        assert_ok(rank_data_open(&options, &data, &error), &error);
        assert_ok(rank_data_open(&together, &all, &error), &error);
        data_next_batch(data, 0, &batch);
        data_next_batch(all, slot, &of_all);
        assert_true(batch.token_count > 0);
        assert_int_equal(batch.token_count, of_all.token_count);
        assert_memory_equal(batch.ids, of_all.ids, (size_t)batch.token_count * sizeof *batch.ids);
        assert_memory_equal(batch.targets, of_all.targets,
                            (size_t)batch.token_count * sizeof *batch.targets);
        rank_data_close(data);
        rank_data_close(all);
    }
}

static void what_is_too_long_is_left_out(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    int32_t at[2 * IDS_MAX];
    rank_data_info info;
    bool fits = false;
    uint64_t count = 0;
    data_write(fixture, "{\"prompt\":\"she has\",\"completion\":\" a cat\"}\n");
    const int inputs = (int)(encode(fixture->tokenizer, "she has", at).count +
                             encode(fixture->tokenizer, " a cat", at).count);
    for (int context = inputs - 1; context <= inputs; context++) {
        rank_data *data = NULL;
        rank_data_options options = data_options(fixture, 1, 0, 1);
        options.context = context;
        assert_ok(rank_data_any_fits(&options, &fits, &count, &error), &error);
        assert_int_equal(fits, context == inputs);
        assert_ok(rank_data_open(&options, &data, &error), &error);
        rank_data_get_info(data, &info);
        assert_int_equal(info.sentences_long, context == inputs ? 0 : 1);
        rank_data_close(data);
    }
}

/* Of two answers the one with weight 0 is context, and what follows the last one that is learned is left out. */
static void expect_one_answer(const data_fixture *fixture, const rank_data_options *options,
                              const rank_chat *chat)
{
    static const char *const lines[] = {
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
        "\"b\",\"weight\":0},{\"role\":\"assistant\",\"content\":\"c\",\"weight\":1}]}\n",
        "{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":"
        "\"c\"},{\"from\":\"gpt\",\"value\":\"b\",\"weight\":0}]}\n",
    };
    base_error error;
    for (size_t i = 0; i < 2; i++) {
        rank_data *data = NULL;
        rank_batch batch;
        int32_t ids[IDS_MAX];
        int marks = 0;
        int targets = 0;
        data_write(fixture, lines[i]);
        assert_ok(rank_data_open(options, &data, &error), &error);
        data_next_batch(data, 0, &batch);
        (void)encode(options->tokenizer, "c", ids);
        for (int at = 0; at < batch.token_count; at++) {
            marks += batch.ids[at] == chat->close_id ? 1 : 0;
            targets += batch.targets[at] >= 0 ? 1 : 0;
        }
        assert_int_equal(marks, i == 0 ? 2 : 1); /* behind what comes before the answer */
        assert_int_equal(targets, 2);            /* c, and the mark */
        assert_int_equal(batch.targets[batch.token_count - 2], ids[0]);
        assert_int_equal(batch.targets[batch.token_count - 1], chat->close_id);
        rank_data_close(data);
    }
    data_write(fixture,
               "{\"messages\":[{\"role\":\"assistant\",\"content\":\"b\",\"weight\":0}]}\n");
    rank_data *none = NULL;
    assert_status(rank_data_open(options, &none, &error), BASE_ERR_INVALID);
    assert_non_null(
        strstr(error.message, ":1: \"messages\": no message of the assistant to learn"));
}

/* The lesson's own tokens are tested in test_chat.c. */
static void chats_need_a_template(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_batch batch;
    rank_data *data = NULL;
    rank_data_info info;
    rank_data_options options = data_options(fixture, 1, 0, 1);
    data_write(fixture, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
                        "{\"role\":\"assistant\",\"content\":\"b\"}]}\n");
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_UNSUPPORTED);
    assert_non_null(
        strstr(error.message, "data.jsonl:1: \"messages\": a chat needs a --checkpoint"));

    rank_tokenizer *tokenizer = chat_case_load("qwen2");
    rank_chat none = chat_case_read("{{ 'what' }}", "", tokenizer);
    options.tokenizer = tokenizer;
    options.chat = &none;
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "leaves out what a user says"));

    rank_chat chat = chat_case_read(CHATML CHATML_ANSWER, "", tokenizer);
    rank_chat_fini(&none);
    options.chat = &chat;
    options.loss_on_correction = true;
    options.context = IDS_MAX;
    assert_ok(rank_data_open(&options, &data, &error), &error);
    rank_data_get_info(data, &info);
    assert_string_equal(info.first_sentence, "a b ");
    data_next_batch(data, 0, &batch);
    assert_int_equal(batch.segment_count, 1);
    const int last = batch.token_count - 1;
    int targets = 0;
    for (int i = 0; i <= last; i++) {
        targets += batch.targets[i] >= 0 ? 1 : 0;
    }
    assert_int_equal(targets, 2); /* b, and the mark */
    assert_int_equal(batch.targets[last], chat.close_id);
    assert_int_equal(batch.targets[last - 1], batch.ids[last]);
    rank_data_close(data);

    expect_one_answer(fixture, &options, &chat);
    options.windows = true;
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "prompts and chats are not cut into windows"));
    data_write(fixture, prompts);
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, ":1: prompts and chats are not cut into windows"));
    options.windows = false;

    data_write(fixture, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n");
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, ":1: \"messages\": no message of the assistant"));
    rank_chat_fini(&chat);
    rank_tokenizer_destroy(tokenizer);
}

/* An answer of a byte that the vocabulary does not have: nothing stands before the mark that ends it. */
static void a_chat_without_tokens_is_an_error(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_data *data = NULL;
    rank_data_options options = data_options(fixture, 1, 0, 1);
    const char *path = test_directory_path(&fixture->directory, "tokenizer.json");
    json_t *root = json_load_file(ORACLE_DIRECTORY "/hub_gpt2.json", 0, NULL);
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    assert_int_equal(json_object_del(vocab, "\xc4\x81"), 0); /* stands for byte 1 */
    assert_int_equal(json_dump_file(root, path, 0), 0);
    json_decref(root);
    assert_ok(rank_tokenizer_load(path, &options.tokenizer, &error), &error);
    rank_chat chat =
        chat_case_read("{% for m in messages %}{{ m.content + '<|endoftext|>' }}{% endfor %}", "",
                       options.tokenizer);
    options.chat = &chat;
    data_write(fixture, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\\u0001\"}]}\n");
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, ":1: \"messages\": the tokenizer has no token for it"));
    rank_chat_fini(&chat);
    rank_tokenizer_destroy(options.tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_are_targets),
        cmocka_unit_test(slots_share_them_out),
        cmocka_unit_test(what_is_too_long_is_left_out),
        cmocka_unit_test(chats_need_a_template),
        cmocka_unit_test(a_chat_without_tokens_is_an_error),
    };
    return cmocka_run_group_tests(tests, data_set_up, data_tear_down);
}
