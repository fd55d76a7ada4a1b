/* rank_data on small files: slots, epochs, packing, targets, and files that are refused;
 * rank_pairs.
 */
#include "rank/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "limits.h"
#include "support.h"

enum { SENTENCES = 57, RANKS_MAX = 8, MICRO_BATCHES_MAX = 4, BATCHES_MAX = 64, TEXT_BYTES = 128 };

typedef struct data_fixture {
    test_folder folder;
    rank_tokenizer *tokenizer;
    char path[BASE_PATH_BYTES];
} data_fixture;

static int set_up(void **state)
{
    base_error error;
    data_fixture *made = calloc(1, sizeof *made);
    assert_non_null(made);
    test_folder_make(&made->folder);
    (void)snprintf(made->path, sizeof made->path, "%s",
                   test_folder_path(&made->folder, "data.jsonl"));
    assert_ok(rank_tokenizer_load(ORACLE_FOLDER "/tokenizer.json", &made->tokenizer, &error),
              &error);
    *state = made;
    return 0;
}

static int tear_down(void **state)
{
    data_fixture *made = *state;
    rank_tokenizer_destroy(made->tokenizer);
    test_folder_remove(&made->folder);
    free(made);
    return 0;
}

static void write_file(const data_fixture *fixture, const char *text)
{
    base_error error;
    assert_ok(base_file_write(fixture->path, text, strlen(text), &error), &error);
}

/* Sentence i says its own number, and has a length of its own. */
static void sentence_text(int i, char text[TEXT_BYTES])
{
    (void)snprintf(text, TEXT_BYTES, "n%d%.*s \xe2\x86\x92 the%.*s", i, i % 7, " a b c d",
                   (i * 5) % 11, " e f g h i j");
}

static void write_numbered(const data_fixture *fixture)
{
    static char file[SENTENCES * (TEXT_BYTES + 16)];
    size_t used = 0;
    for (int i = 0; i < SENTENCES; i++) {
        char text[TEXT_BYTES];
        sentence_text(i, text);
        used += (size_t)snprintf(file + used, sizeof file - used, "{\"text\":\"%s\"}\n", text);
    }
    write_file(fixture, file);
}

static rank_data_options options_of(const data_fixture *fixture, int slots, int first, int here)
{
    return (rank_data_options){.path = fixture->path,
                               .tokenizer = fixture->tokenizer,
                               .slot_count = slots,
                               .slot_first = first,
                               .slots_here = here,
                               .batch = 2,
                               .context = 32,
                               .seed = 35000};
}

/* What one slot hands out in an epoch: batches laid end to end, each after its token count. */
typedef struct slot_dump {
    int32_t ids[8192];
    size_t id_count;
    int numbers[SENTENCES]; /* of the sentences, in order */
    int count;
} slot_dump;

static int segment_number(const data_fixture *fixture, const rank_batch *batch, int segment)
{
    char text[TEXT_BYTES];
    const int32_t start = batch->segment_start[segment];
    const int32_t end = batch->segment_start[segment + 1];
    (void)rank_tokenizer_decode(fixture->tokenizer, batch->ids + start, (size_t)(end - start), text,
                                sizeof text);
    char expected[TEXT_BYTES];
    const int number = (int)strtol(text + 1, NULL, 10);
    sentence_text(number, expected);
    assert_string_equal(text, expected);
    return number;
}

static void check_batch(const data_fixture *fixture, const rank_batch *batch,
                        const rank_data_options *options)
{
    assert_true(batch->token_count <= options->batch * options->context);
    assert_int_equal(batch->segment_start[0], 0);
    assert_int_equal(batch->segment_start[batch->segment_count], batch->token_count);
    for (int s = 0; s < batch->segment_count; s++) {
        const int32_t end = batch->segment_start[s + 1];
        assert_true(end > batch->segment_start[s]);
        assert_true(end - batch->segment_start[s] <= options->context);
        for (int32_t i = batch->segment_start[s]; i + 1 < end; i++) {
            assert_int_equal(batch->targets[i], batch->ids[i + 1]);
        }
        assert_int_equal(batch->targets[end - 1], rank_tokenizer_end_id(fixture->tokenizer));
    }
}

static void dump_slot(const data_fixture *fixture, rank_data *data,
                      const rank_data_options *options, int slot_index, slot_dump *dump)
{
    base_error error;
    rank_batch batch;
    memset(dump, 0, sizeof *dump);
    for (int b = 0; b < BATCHES_MAX; b++) {
        assert_ok(rank_data_next_batch(data, slot_index, &batch, &error), &error);
        if (batch.token_count == 0) {
            assert_int_equal(batch.segment_count, 0);
            return;
        }
        check_batch(fixture, &batch, options);
        dump->ids[dump->id_count++] = batch.token_count;
        memcpy(dump->ids + dump->id_count, batch.ids,
               (size_t)batch.token_count * sizeof *batch.ids);
        dump->id_count += (size_t)batch.token_count;
        for (int s = 0; s < batch.segment_count; s++) {
            dump->numbers[dump->count++] = segment_number(fixture, &batch, s);
        }
    }
    fail_msg("a slot did not run out");
}

/* Every division of the job into ranks and micro-batches: each sentence once an epoch, by the rank
 * that owns it; and a slot's batches are the same whoever has the slot. */
static void each_sentence_is_handed_out_once_an_epoch(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    static slot_dump dump;
    static slot_dump alone;
    write_numbered(fixture);
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        for (int here = 1; here <= MICRO_BATCHES_MAX; here++) {
            int seen[SENTENCES] = {0};
            uint64_t shards = 0;
            for (int rank = 0; rank < ranks; rank++) {
                const rank_data_options options =
                    options_of(fixture, ranks * here, rank * here, here);
                rank_data *data = NULL;
                rank_data_facts facts;
                assert_ok(rank_data_open(&options, &data, &error), &error);
                rank_data_get_facts(data, &facts);
                assert_int_equal(facts.sentences_total, SENTENCES);
                shards += facts.sentences_shard;
                assert_int_equal(rank_data_remaining(data), facts.sentences_shard);
                for (int j = 0; j < here; j++) {
                    dump_slot(fixture, data, &options, j, &dump);
                    for (int i = 0; i < dump.count; i++) {
                        assert_int_equal(dump.numbers[i] % options.slot_count, rank * here + j);
                        seen[dump.numbers[i]]++;
                    }
                    const rank_data_options one =
                        options_of(fixture, ranks * here, rank * here + j, 1);
                    rank_data *other = NULL;
                    assert_ok(rank_data_open(&one, &other, &error), &error);
                    dump_slot(fixture, other, &one, 0, &alone);
                    assert_int_equal(dump.id_count, alone.id_count);
                    assert_memory_equal(dump.ids, alone.ids, dump.id_count * sizeof *dump.ids);
                    rank_data_close(other);
                }
                assert_int_equal(rank_data_remaining(data), 0);
                rank_data_close(data);
            }
            assert_int_equal(shards, SENTENCES);
            for (int i = 0; i < SENTENCES; i++) {
                assert_int_equal(seen[i], 1);
            }
        }
    }
}

static void an_epoch_is_a_new_order_of_the_same_sentences(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    static slot_dump first;
    static slot_dump second;
    rank_batch batch;
    rank_data *data = NULL;
    const rank_data_options options = options_of(fixture, 2, 1, 1);
    write_numbered(fixture);
    assert_ok(rank_data_open(&options, &data, &error), &error);
    dump_slot(fixture, data, &options, 0, &first);
    assert_ok(rank_data_next_batch(data, 0, &batch, &error), &error);
    assert_int_equal(batch.token_count, 0);
    rank_data_next_epoch(data);
    assert_int_equal(rank_data_remaining(data), first.count);
    dump_slot(fixture, data, &options, 0, &second);
    assert_int_equal(first.count, second.count);
    assert_memory_not_equal(first.numbers, second.numbers, sizeof first.numbers);
    int seen[SENTENCES] = {0};
    for (int i = 0; i < first.count; i++) {
        seen[first.numbers[i]]++;
        seen[second.numbers[i]]++;
    }
    for (int i = 0; i < SENTENCES; i++) {
        assert_int_equal(seen[i], i % 2 == 1 ? 2 : 0);
    }
    rank_data_close(data);
}

/* Only tokens after the arrow are targets; the arrow's own token predicts the first of them. */
static void loss_can_be_on_the_correction_alone(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_batch batch;
    rank_data *data = NULL;
    rank_data_options options = options_of(fixture, 1, 0, 1);
    options.loss_on_correction = true;
    static const char *const lines[] = {
        "{\"text\":\"she dont like apples\"}",
        "{\"text\":\"she dont like apples \xe2\x86\x92 she doesn't like apples\"}",
        "{\"wrong\":\"she dont like apples\",\"right\":\"she doesn't like apples\"}",
    };
    int tokens[3] = {0};
    for (int form = 0; form < 3; form++) {
        const char *wrong = "she dont like apples \xe2\x86\x92";
        const bool arrow = form > 0;
        size_t prefix = 0;
        write_file(fixture, lines[form]);
        assert_ok(rank_tokenizer_encode(fixture->tokenizer, wrong, strlen(wrong), NULL, 0, &prefix,
                                        &error),
                  &error);
        assert_ok(rank_data_open(&options, &data, &error), &error);
        assert_ok(rank_data_next_batch(data, 0, &batch, &error), &error);
        assert_int_equal(batch.segment_count, 1);
        const int32_t end = rank_tokenizer_end_id(fixture->tokenizer);
        for (int32_t i = 0; i < batch.token_count; i++) {
            const int32_t next = i + 1 < batch.token_count ? batch.ids[i + 1] : end;
            const bool masked = arrow && (size_t)i + 1 < prefix;
            assert_int_equal(batch.targets[i], masked ? -1 : next);
        }
        tokens[form] = batch.token_count;
        rank_data_close(data);
    }
    assert_int_equal(tokens[1], tokens[2]);
}

/* Room for 2 × 8 tokens, one for each byte: 7 + 9 fill it, 8 + 9 do not; 9 is too long alone. */
static void whole_sentences_are_packed_while_they_fit(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_batch batch;
    rank_data_facts facts;
    rank_data *data = NULL;
    rank_data_options options = options_of(fixture, 1, 0, 1);
    options.context = 8;
    /* Capital letters are not in the corpus: no merges. */
    write_file(fixture,
               "{\"text\":\"ABCDEFGH\"}\n{\"text\":\"ABCDEFG\"}\n{\"text\":\"ABCDEFGHI\"}\n"
               "{\"text\":\"ABCDEFG\"}\n{\"text\":\"A\"}\n");
    assert_ok(rank_data_open(&options, &data, &error), &error);
    rank_data_get_facts(data, &facts);
    assert_int_equal(facts.sentences_shard, 5);
    assert_int_equal(facts.sentences_long, 1);
    assert_string_equal(facts.first_sentence, "ABCDEFGH");
    for (int epoch = 0; epoch < 20; epoch++) {
        uint64_t left = 4;
        assert_int_equal(rank_data_remaining(data), left);
        for (int tokens = 0; left > 0;) {
            assert_ok(rank_data_next_batch(data, 0, &batch, &error), &error);
            assert_true(batch.segment_count > 0 && batch.token_count <= 16);
            tokens += batch.token_count;
            left -= (uint64_t)batch.segment_count;
            assert_int_equal(rank_data_remaining(data), left);
            assert_true(left > 0 || tokens == 8 + 7 + 7 + 1);
            assert_true(left == 0 || batch.token_count > 16 - 8);
        }
        rank_data_next_epoch(data);
    }
    rank_data_close(data);
}

/* A shard without a sentence joins with empty batches. */
static void more_slots_than_sentences_is_fine(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_batch batch;
    rank_data_facts facts;
    rank_data *data = NULL;
    const rank_data_options options = options_of(fixture, 4, 1, 3);
    write_file(fixture, "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
    assert_ok(rank_data_open(&options, &data, &error), &error);
    rank_data_get_facts(data, &facts);
    assert_int_equal(facts.sentences_total, 2);
    assert_int_equal(facts.sentences_shard, 1);
    assert_string_equal(facts.first_sentence, "b");
    const int expected[3] = {1, 0, 0};
    for (int slot = 0; slot < 3; slot++) {
        assert_ok(rank_data_next_batch(data, slot, &batch, &error), &error);
        assert_int_equal(batch.segment_count, expected[slot]);
    }
    rank_data_close(data);
}

static void refuse(const data_fixture *fixture, const char *text, const char *reason)
{
    base_error error = {.status = BASE_OK};
    rank_data *data = NULL;
    const rank_data_options options = options_of(fixture, 2, 0, 1);
    write_file(fixture, text);
    const base_status status = rank_data_open(&options, &data, &error);
    assert_null(data);
    if (status != BASE_ERR_INVALID || strstr(error.message, reason) == NULL ||
        strstr(error.message, fixture->path) == NULL) {
        fail_msg("%s: \"%s\", expected \"%s\"", text, error.message, reason);
    }
}

static void malformed_files_are_refused_with_file_and_line(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_data *data = NULL;
    refuse(fixture, "", "no sentences");
    refuse(fixture, "\n", ":1: the line is empty");
    refuse(fixture, "{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"text\":\"c\"", ":3: column");
    refuse(fixture, "{\"text\":\"a\"}\n{\"text\":\"b\"}\n\n", ":3: the line is empty");
    refuse(fixture, "{\"text\":\"a\"}\n{\"text\":\"b\"}\nnot json\n", ":3: column");
    refuse(fixture, "{\"verb\":\"a\",\"rule\":\"b\"}\n", ":1: no \"text\"");

    /* Lines of others are counted only. */
    write_file(fixture, "{\"text\":\"a\"}\nnot json\n");
    const rank_data_options first = options_of(fixture, 2, 0, 1);
    assert_ok(rank_data_open(&first, &data, &error), &error);
    rank_data_close(data);
    const rank_data_options second = options_of(fixture, 2, 1, 1);
    assert_status(rank_data_open(&second, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, ":2: "));
}

static void a_line_has_a_limit(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_data *data = NULL;
    const size_t most = RANK_DATA_LINE_BYTES_MAX;
    char *text = malloc(4 * most);
    assert_non_null(text);
    const rank_data_options options = options_of(fixture, 2, 0, 1);
    for (size_t over = 0; over < 2; over++) {
        /* A short line, one of most + over bytes, and another short one. */
        size_t used = (size_t)sprintf(text, "{\"text\":\"a\"}\n{\"text\":\"");
        const size_t fill = most + over - strlen("{\"text\":\"\"}");
        memset(text + used, 'x', fill);
        used += fill;
        used += (size_t)sprintf(text + used, "\"}\n{\"text\":\"c\"}");
        assert_ok(base_file_write(fixture->path, text, used, &error), &error);
        const base_status status = rank_data_open(&options, &data, &error);
        assert_int_equal(status, over ? BASE_ERR_INVALID : BASE_OK);
        assert_true(!over || strstr(error.message, ":2: longer than") != NULL);
        rank_data_close(data);
        data = NULL;
    }
    memset(text, 'x', 4 * most);
    assert_ok(base_file_write(fixture->path, text, 4 * most, &error), &error);
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, ":1: longer than"));
    free(text);
}

static void files_and_options_that_cannot_be_are_refused(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_data *data = NULL;
    write_file(fixture, "{\"text\":\"a\"}\n");
    rank_data_options options = options_of(fixture, 1, 0, 1);
    options.path = test_folder_path(&fixture->folder, "none");
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_NOTFOUND);
    assert_non_null(strstr(error.message, "none"));
    options.path = fixture->folder.path;
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_IO);
    options.path = test_folder_path(&fixture->folder, "fifo");
    assert_int_equal(mkfifo(options.path, 0600), 0);
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_IO);
    assert_non_null(strstr(error.message, "fifo is not a regular file"));
    options.path = "/dev/null";
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_IO);
    static const struct {
        int slots, first, here, batch, context;
    } wrong[] = {
        {0, 0, 1, 1, 1},         {1, -1, 1, 1, 1}, {1, 0, 0, 1, 1},          {1, 0, 2, 1, 1},
        {2, 2, 1, 1, 1},         {1, 0, 1, 0, 1},  {1, 0, 1, 1, 0},          {1, 0, 1, 1 << 20, 64},
        {1 << 20, 0, 1, 16, 64}, {1, 0, 1, -1, 4}, {1, 2147483647, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options = options_of(fixture, wrong[i].slots, wrong[i].first, wrong[i].here);
        options.batch = wrong[i].batch;
        options.context = wrong[i].context;
        assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
        assert_null(data);
    }
    rank_data_close(NULL);
    rank_pairs_close(NULL);
}

static void pairs_are_shared_out(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    const char *wrong = NULL;
    const char *right = NULL;
    rank_pairs *pairs = NULL;
    write_file(fixture, "{\"text\":\"a \xe2\x86\x92 b\",\"wrong\":\"a\",\"right\":\"b\"}\n"
                        "{\"text\":\"c \xe2\x86\x92 \",\"wrong\":\"c\",\"right\":\"\"}\n"
                        "{\"text\":\"e \\u2192 f\",\"wrong\":\"e\",\"right\":\"f\"}\n");
    assert_ok(rank_pairs_open(fixture->path, 0, 2, &pairs, &error), &error);
    assert_int_equal(rank_pairs_count(pairs), 2);
    rank_pairs_get(pairs, 0, &wrong, &right);
    assert_string_equal(wrong, "a");
    assert_string_equal(right, "b");
    rank_pairs_get(pairs, 1, &wrong, &right);
    assert_string_equal(wrong, "e");
    assert_string_equal(right, "f");
    rank_pairs_close(pairs);
    assert_ok(rank_pairs_open(fixture->path, 1, 2, &pairs, &error), &error);
    assert_int_equal(rank_pairs_count(pairs), 1);
    rank_pairs_close(pairs);
    assert_ok(rank_pairs_open(fixture->path, 7, 8, &pairs, &error), &error);
    assert_int_equal(rank_pairs_count(pairs), 0);
    rank_pairs_close(pairs);

    write_file(fixture, "{\"text\":\"a\"}\n");
    assert_status(rank_pairs_open(fixture->path, 0, 1, &pairs, &error), BASE_ERR_INVALID);
    assert_null(pairs);
    assert_non_null(strstr(error.message, "data.jsonl:1: no \"wrong\""));
    write_file(fixture, "");
    assert_status(rank_pairs_open(fixture->path, 0, 1, &pairs, &error), BASE_ERR_INVALID);
}

/* Files with a few bytes changed are read or refused, never worse. Seeded, so it can be repeated.
 */
static void changed_files_are_read_or_refused(void **state)
{
    const data_fixture *fixture = *state;
    static const char good[] = "{\"text\":\"a \xe2\x86\x92 b\",\"wrong\":\"a\",\"right\":\"b\"}\n"
                               "{\"text\":\"he went\"}\n{\"text\":\"c\\u00e9\",\"n\":1}\n";
    uint32_t random = 35000;
    int read_count = 0;
    for (int i = 0; i < 600; i++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (int edit = 0; edit < 1 + i % 3; edit++) {
            random = random * UINT32_C(1664525) + UINT32_C(1013904223);
            text[(random >> 8) % (sizeof good - 1)] = (char)(random >> 24);
        }
        base_error error;
        rank_data *data = NULL;
        const rank_data_options options = options_of(fixture, 1, 0, 1);
        assert_ok(base_file_write(fixture->path, text, sizeof good - 1, &error), &error);
        const base_status status = rank_data_open(&options, &data, &error);
        assert_true(status == BASE_OK || status == BASE_ERR_INVALID);
        if (status == BASE_OK) {
            rank_batch batch;
            assert_ok(rank_data_next_batch(data, 0, &batch, &error), &error);
            assert_true(batch.token_count > 0);
            read_count++;
        }
        rank_data_close(data);
    }
    assert_true(read_count > 0 && read_count < 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sentence_is_handed_out_once_an_epoch),
        cmocka_unit_test(an_epoch_is_a_new_order_of_the_same_sentences),
        cmocka_unit_test(loss_can_be_on_the_correction_alone),
        cmocka_unit_test(whole_sentences_are_packed_while_they_fit),
        cmocka_unit_test(more_slots_than_sentences_is_fine),
        cmocka_unit_test(malformed_files_are_refused_with_file_and_line),
        cmocka_unit_test(a_line_has_a_limit),
        cmocka_unit_test(files_and_options_that_cannot_be_are_refused),
        cmocka_unit_test(pairs_are_shared_out),
        cmocka_unit_test(changed_files_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
