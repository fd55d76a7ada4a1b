/* Reads pairs of a wrong sentence and its correction. Called by generate/ and train/ for
 * evaluation. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/grow.h"
#include "limits.h"
#include "lines.h"
#include "rank/data.h"
#include "record.h"

enum { PAIRS_FIRST = 1024 };

typedef struct pair {
    char *wrong; /* NUL-terminated; owns the memory of both */
    char *right;
} pair;

struct rank_pairs {
    pair *pairs;
    size_t count;
    size_t capacity;
};

static bool keep_pair(rank_pairs *pairs, const rank_record *record)
{
    pair *larger =
        base_grow(pairs->pairs, pairs->count, &pairs->capacity, PAIRS_FIRST, sizeof *larger);
    if (larger == NULL) {
        return false;
    }
    pairs->pairs = larger;
    char *text = calloc(1, record->wrong.bytes + record->right.bytes + 2);
    if (text == NULL) {
        return false;
    }
    memcpy(text, record->wrong.data, record->wrong.bytes);
    memcpy(text + record->wrong.bytes + 1, record->right.data, record->right.bytes);
    pairs->pairs[pairs->count++] = (pair){text, text + record->wrong.bytes + 1};
    return true;
}

/* pairs: NULL if the line is another rank's. *has_pairs: whether the file's first line is one. */
static base_status read_line(rank_pairs *pairs, const rank_lines *lines, bool is_first,
                             bool *has_pairs, base_error *reterr)
{
    rank_record record;
    base_status status = rank_record_read(lines->line, lines->line_bytes, &record, reterr);
    const bool is_pair = status == BASE_OK && record.wrong.data != NULL;
    *has_pairs = is_first ? is_pair : *has_pairs;
    if (status == BASE_OK && *has_pairs && !is_pair) {
        status = base_fail(reterr, BASE_ERR_INVALID, "no \"wrong\" and \"right\"");
    }
    if (status != BASE_OK) {
        status = base_error_prepend(reterr, status, "%s:%" PRIu64, lines->path, lines->number);
    } else if (is_pair && pairs != NULL && !keep_pair(pairs, &record)) {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for the pairs of %s", lines->path);
    }
    rank_record_clear(&record);
    return status;
}

base_status rank_pairs_open(const char *path, int rank, int world_size, rank_pairs **pairs,
                            base_error *reterr)
{
    BASE_ASSERT(world_size > 0);
    BASE_ASSERT(rank >= 0);
    BASE_ASSERT(rank < world_size);
    rank_lines lines;
    uint64_t index = 0;
    bool has_pairs = true;
    *pairs = NULL;
    rank_pairs *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the pairs of %s", path);
    }
    base_status status = rank_lines_open(&lines, path, reterr);
    while (status == BASE_OK && has_pairs && rank_lines_next(&lines, &status, reterr)) {
        const bool is_mine = index % (uint64_t)world_size == (uint64_t)rank;
        if (is_mine || index == 0) {
            status = read_line(is_mine ? made : NULL, &lines, index == 0, &has_pairs, reterr);
        }
        index++;
    }
    rank_lines_close(&lines);
    if (status == BASE_OK && index == 0) {
        status = base_fail(reterr, BASE_ERR_INVALID, "%s has no sentences", path);
    }
    if (status != BASE_OK) {
        rank_pairs_close(made);
        return status;
    }
    *pairs = made;
    return BASE_OK;
}

void rank_pairs_close(rank_pairs *pairs)
{
    if (pairs == NULL) {
        return;
    }
    for (size_t i = 0; i < pairs->count; i++) {
        free(pairs->pairs[i].wrong);
    }
    free(pairs->pairs);
    free(pairs);
}

size_t rank_pairs_count(const rank_pairs *pairs)
{
    return pairs->count;
}

void rank_pairs_get(const rank_pairs *pairs, size_t index, const char **wrong, const char **right)
{
    BASE_ASSERT(index < pairs->count);
    *wrong = pairs->pairs[index].wrong;
    *right = pairs->pairs[index].right;
}
