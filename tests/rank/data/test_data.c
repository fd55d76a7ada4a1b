/* rank_data on small files: slots, epochs, packing, and targets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data_fixture.h"

enum { SENTENCES = 57, RANKS_MAX = 8, MICRO_BATCHES_MAX = 4, BATCHES_MAX = 64, TEXT_BYTES = 128 };

/* Sentence i contains its number, and has a length of its own. */
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
    data_write(fixture, file);
}

/* The batches of one slot in an epoch, one after the other, each after its token count. */
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
    rank_batch batch;
    memset(dump, 0, sizeof *dump);
    for (int b = 0; b < BATCHES_MAX; b++) {
        data_next_batch(data, slot_index, &batch);
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

/* Every division of the job into ranks and micro-batches: the rank that owns a sentence has it once
 * an epoch, and a slot's batches do not depend on the rank that has the slot. */
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
                    data_options(fixture, ranks * here, rank * here, here);
                rank_data *data = NULL;
                rank_data_info info;
                assert_ok(rank_data_open(&options, &data, &error), &error);
                rank_data_get_info(data, &info);
                assert_int_equal(info.sentences_total, SENTENCES);
                shards += info.sentences_shard;
                assert_int_equal(rank_data_remaining(data), info.sentences_shard);
                for (int j = 0; j < here; j++) {
                    dump_slot(fixture, data, &options, j, &dump);
                    for (int i = 0; i < dump.count; i++) {
                        assert_int_equal(dump.numbers[i] % options.slot_count, rank * here + j);
                        seen[dump.numbers[i]]++;
                    }
                    const rank_data_options one =
                        data_options(fixture, ranks * here, rank * here + j, 1);
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
    const rank_data_options options = data_options(fixture, 2, 1, 1);
    write_numbered(fixture);
    assert_ok(rank_data_open(&options, &data, &error), &error);
    dump_slot(fixture, data, &options, 0, &first);
    data_next_batch(data, 0, &batch);
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

/* From every place of two epochs, the batches that follow are the same for whoever goes there at once, also
 * among other ranks. */
static void a_place_can_be_gone_back_to(void **state)
{
    const data_fixture *fixture = *state;
    enum { SLOTS = 3 };
    base_error error;
    rank_batch batch;
    rank_data *data = NULL;
    rank_data *all = NULL;
    const rank_data_options options = data_options(fixture, SLOTS, 0, SLOTS);
    write_numbered(fixture);
    assert_ok(rank_data_open(&options, &data, &error), &error);
    assert_ok(rank_data_open(&options, &all, &error), &error);
    int places = 0;
    for (uint64_t epoch = 0; epoch < 2; epoch++, rank_data_next_epoch(data)) {
        for (bool more = true; more; places++) {
            uint32_t positions[SLOTS];
            rank_data *one[SLOTS] = {NULL};
            for (int slot = 0; slot < SLOTS; slot++) {
                const rank_data_options alone = data_options(fixture, SLOTS, slot, 1);
                positions[slot] = rank_data_position(data, slot);
                assert_ok(rank_data_open(&alone, &one[slot], &error), &error);
                assert_ok(rank_data_seek(one[slot], epoch, &positions[slot], &error), &error);
            }
            assert_ok(rank_data_seek(all, epoch, positions, &error), &error);
            assert_int_equal(rank_data_remaining(all), rank_data_remaining(data));
            more = rank_data_remaining(data) > 0;
            for (int slot = 0; slot < SLOTS; slot++) {
                static int32_t ids[8192];
                data_next_batch(data, slot, &batch);
                const int count = batch.token_count;
                memcpy(ids, batch.ids, (size_t)count * sizeof *ids);
                data_next_batch(all, slot, &batch);
                assert_int_equal(batch.token_count, count);
                assert_memory_equal(batch.ids, ids, (size_t)count * sizeof *ids);
                data_next_batch(one[slot], 0, &batch);
                assert_int_equal(batch.token_count, count);
                assert_memory_equal(batch.ids, ids, (size_t)count * sizeof *ids);
                rank_data_close(one[slot]);
            }
        }
    }
    assert_true(places > 6);
    const uint32_t beyond[SLOTS] = {SENTENCES, 0, 0};
    assert_status(rank_data_seek(all, 0, beyond, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "slot 0 has 19 sentences, and was to go on after 57"));
    rank_data_close(data);
    rank_data_close(all);
}

/* Slots that do not follow each other have the batches that they have alone. */
static void slots_may_be_apart(void **state)
{
    const data_fixture *fixture = *state;
    enum { SLOTS = 6, STEP = 3 };
    base_error error;
    rank_batch batch;
    write_numbered(fixture);
    for (int first = 0; first < STEP; first++) {
        rank_data *data = NULL;
        rank_data_options options = data_options(fixture, SLOTS, first, SLOTS / STEP);
        options.slot_step = STEP;
        assert_ok(rank_data_open(&options, &data, &error), &error);
        for (int i = 0; i < SLOTS / STEP; i++) {
            static int32_t ids[8192];
            const rank_data_options alone = data_options(fixture, SLOTS, first + i * STEP, 1);
            rank_data *one = NULL;
            assert_ok(rank_data_open(&alone, &one, &error), &error);
            assert_true(rank_data_remaining(one) > 0);
            for (bool more = true; more;) {
                data_next_batch(data, i, &batch);
                const int count = batch.token_count;
                memcpy(ids, batch.ids, (size_t)count * sizeof *ids);
                data_next_batch(one, 0, &batch);
                assert_int_equal(batch.token_count, count);
                assert_memory_equal(batch.ids, ids, (size_t)count * sizeof *ids);
                more = count > 0;
            }
            rank_data_close(one);
        }
        rank_data_close(data);
        options.slot_first += SLOTS - STEP + 1; /* the last one is not there */
        assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    }
}

/* Of a pair only tokens after its arrow are targets; the arrow's own token predicts the first of them. An arrow in a
 * text, or in the wrong sentence, is none. */
static void loss_can_be_on_the_correction_alone(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_batch batch;
    rank_data *data = NULL;
    rank_data_options options = data_options(fixture, 1, 0, 1);
    options.loss_on_correction = true;
    enum { FORMS = 4 };
    static const char *const lines[FORMS] = {
        "{\"text\":\"she dont like apples \xe2\x86\x92 she doesn't like apples\"}",
        "{\"wrong\":\"she dont like apples\",\"right\":\"she doesn't like apples\"}",
        ("{\"wrong\":\"she dont like apples\",\"right\":\"she doesn't like apples\","
         "\"text\":\"she dont like apples \xe2\x86\x92 she doesn't like apples\"}"),
        "{\"wrong\":\"cat \xe2\x86\x92 dog\",\"right\":\"dog cat\"}",
    };
    int tokens[FORMS] = {0};
    for (int form = 0; form < FORMS; form++) {
        const char *wrong =
            form == 3 ? "cat \xe2\x86\x92 dog \xe2\x86\x92" : "she dont like apples \xe2\x86\x92";
        const bool arrow = form > 0;
        rank_ids prefix = {.capacity = 0};
        data_write(fixture, lines[form]);
        assert_ok(rank_tokenizer_encode(fixture->tokenizer, wrong, strlen(wrong), &prefix, &error),
                  &error);
        assert_ok(rank_data_open(&options, &data, &error), &error);
        data_next_batch(data, 0, &batch);
        assert_int_equal(batch.segment_count, 1);
        const int32_t end = rank_tokenizer_end_id(fixture->tokenizer);
        for (int32_t i = 0; i < batch.token_count; i++) {
            const int32_t next = i + 1 < batch.token_count ? batch.ids[i + 1] : end;
            const bool masked = arrow && (size_t)i + 1 < prefix.count;
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
    rank_data_info info;
    rank_data *data = NULL;
    rank_data_options options = data_options(fixture, 1, 0, 1);
    options.context = 8;
    /* Capital letters are not in the corpus: no merges. */
    data_write(fixture,
               "{\"text\":\"ABCDEFGH\"}\n{\"text\":\"ABCDEFG\"}\n{\"text\":\"ABCDEFGHI\"}\n"
               "{\"text\":\"ABCDEFG\"}\n{\"text\":\"A\"}\n");
    assert_ok(rank_data_open(&options, &data, &error), &error);
    rank_data_get_info(data, &info);
    assert_int_equal(info.sentences_shard, 5);
    assert_int_equal(info.sentences_long, 1);
    assert_string_equal(info.first_sentence, "ABCDEFGH");
    for (int epoch = 0; epoch < 20; epoch++) {
        uint64_t left = 4;
        assert_int_equal(rank_data_remaining(data), left);
        for (int tokens = 0; left > 0;) {
            data_next_batch(data, 0, &batch);
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

/* A shard without a sentence has empty batches. */
static void more_slots_than_sentences_is_fine(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_batch batch;
    rank_data_info info;
    rank_data *data = NULL;
    const rank_data_options options = data_options(fixture, 4, 1, 3);
    data_write(fixture, "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
    assert_ok(rank_data_open(&options, &data, &error), &error);
    rank_data_get_info(data, &info);
    assert_int_equal(info.sentences_total, 2);
    assert_int_equal(info.sentences_shard, 1);
    assert_string_equal(info.first_sentence, "b");
    const int expected[3] = {1, 0, 0};
    for (int slot = 0; slot < 3; slot++) {
        data_next_batch(data, slot, &batch);
        assert_int_equal(batch.segment_count, expected[slot]);
    }
    rank_data_close(data);
}

/* They have no place in the order, so all ranks agree on whose a sentence is. */
static void blank_lines_are_skipped(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_data *data = NULL;
    rank_data_info info;
    bool fits = true;
    uint64_t count = 0;
    rank_data_options options = data_options(fixture, 2, 1, 1);
    data_write(
        fixture,
        "\xef\xbb\xbf{\"text\":\"aaaa\"}\r\n\r\n \t\n{\"text\":\"bbbb\"}\n{\"text\":\"cccc\"}\n\n");
    assert_ok(rank_data_open(&options, &data, &error), &error);
    rank_data_get_info(data, &info);
    assert_int_equal(info.sentences_total, 3);
    assert_int_equal(info.sentences_shard, 1);
    assert_string_equal(info.first_sentence, "bbbb");
    rank_data_close(data);
    options.context = 1;
    assert_ok(rank_data_any_fits(&options, &fits, &count, &error), &error);
    assert_false(fits);
    assert_int_equal(count, 3);
}

/* As before a prompt: so a model answers after what it has learned after. */
static void a_template_stands_before_each_sentence(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_batch batch;
    rank_data *data = NULL;
    rank_data_info info;
    rank_tokenizer *tokenizer = NULL;
    int32_t plain[8];
    rank_ids ids = {.at = plain, .capacity = 8};
    size_t before = 0;
    assert_ok(rank_tokenizer_load(ORACLE_DIRECTORY "/hub_llama3.json", &tokenizer, &error), &error);
    const int32_t begin = *rank_tokenizer_prefix(tokenizer, &before);
    assert_int_equal(before, 1);
    assert_ok(rank_tokenizer_encode(tokenizer, "#@%", 3, &ids, &error), &error);
    assert_int_equal(ids.count, 3);
    rank_data_options options = data_options(fixture, 1, 0, 1);
    options.tokenizer = tokenizer;
    options.context = 4;
    data_write(fixture, "{\"text\":\"#@%\"}\n{\"text\":\"#@%&\"}\n{\"text\":\"#@%\"}\n");
    assert_ok(rank_data_open(&options, &data, &error), &error);
    rank_data_get_info(data, &info);
    assert_int_equal(info.sentences_long, 1); /* 5 tokens with the one before it */
    data_next_batch(data, 0, &batch);
    assert_int_equal(batch.token_count, 8);
    for (int i = 0; i < 8; i++) {
        const int32_t next = i % 4 < 3 ? plain[i % 4] : rank_tokenizer_end_id(tokenizer);
        assert_int_equal(batch.ids[i], i % 4 == 0 ? begin : plain[i % 4 - 1]);
        assert_int_equal(batch.targets[i], next);
    }
    rank_data_close(data);
    rank_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sentence_is_handed_out_once_an_epoch),
        cmocka_unit_test(an_epoch_is_a_new_order_of_the_same_sentences),
        cmocka_unit_test(a_place_can_be_gone_back_to),
        cmocka_unit_test(slots_may_be_apart),
        cmocka_unit_test(loss_can_be_on_the_correction_alone),
        cmocka_unit_test(whole_sentences_are_packed_while_they_fit),
        cmocka_unit_test(more_slots_than_sentences_is_fine),
        cmocka_unit_test(blank_lines_are_skipped),
        cmocka_unit_test(a_template_stands_before_each_sentence),
    };
    return cmocka_run_group_tests(tests, data_set_up, data_tear_down);
}
