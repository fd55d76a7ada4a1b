/* A directory with one data file, and the tokenizer of tests/oracle. */
#ifndef TEST_DATA_FIXTURE_H
#define TEST_DATA_FIXTURE_H

#include "rank/data.h"
#include "support.h"

typedef struct data_fixture {
    test_directory directory;
    rank_tokenizer *tokenizer;
    char path[BASE_PATH_BYTES]; /* of the data file; there is none yet */
} data_fixture;

/* For a group of tests: *state is the fixture. */
int data_set_up(void **state);
int data_tear_down(void **state);

/* The whole data file. */
void data_write(const data_fixture *fixture, const char *text);

/* Of so many slots, `here` of them from `first` on; 2 × 32 tokens a batch. */
rank_data_options data_options(const data_fixture *fixture, int slots, int first, int here);

/* rank_data_next_batch of what has no file to read. */
void data_next_batch(rank_data *data, int slot_index, rank_batch *batch);

#endif
