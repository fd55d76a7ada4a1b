/* A directory with one data file and a tokenizer. Used by the tests of rank/data. */
#include "data_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

int data_set_up(void **state)
{
    base_error error;
    data_fixture *made = calloc(1, sizeof *made);
    assert_non_null(made);
    test_directory_make(&made->directory);
    (void)snprintf(made->path, sizeof made->path, "%s",
                   test_directory_path(&made->directory, "data.jsonl"));
    assert_ok(rank_tokenizer_load(ORACLE_DIRECTORY "/tokenizer.json", &made->tokenizer, &error),
              &error);
    *state = made;
    return 0;
}

int data_tear_down(void **state)
{
    data_fixture *made = *state;
    rank_tokenizer_destroy(made->tokenizer);
    test_directory_remove(&made->directory);
    free(made);
    return 0;
}

void data_write(const data_fixture *fixture, const char *text)
{
    base_error error;
    assert_ok(base_file_write(fixture->path, text, strlen(text), &error), &error);
}

rank_data_options data_options(const data_fixture *fixture, int slots, int first, int here)
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

void data_next_batch(rank_data *data, int slot_index, rank_batch *batch)
{
    base_error error;
    assert_ok(rank_data_next_batch(data, slot_index, batch, &error), &error);
}
