/* The different pieces of texts, and how often each occurs. Merges are learned from them: they never
 * cross the bounds of a piece.
 *
 * Memory depends on the different pieces, not on how long the texts are. One thread at a time. */
#ifndef RANK_TOKENIZER_PIECE_TABLE_H
#define RANK_TOKENIZER_PIECE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { RANK_PIECE_TABLE_BYTES_MAX = 1 << 28 }; /* of all different pieces together */

typedef struct rank_counted_piece {
    uint64_t occurrences;
    uint32_t offset; /* in the table's bytes */
    uint32_t size_bytes;
} rank_counted_piece;

/* All zero: empty. */
typedef struct rank_piece_table {
    rank_counted_piece *pieces; /* (piece_count), in the order of their first occurrence */
    size_t piece_count;
    size_t piece_capacity;
    uint8_t *bytes; /* of all different pieces, end to end */
    size_t bytes_used;
    size_t bytes_capacity;
    uint32_t *entries; /* (entry_mask + 1), open addressing: a piece's number + 1, 0: free */
    size_t entry_mask;
    uint64_t text_bytes; /* of all pieces, each as often as it occurs */
} rank_piece_table;

/* Counts one piece, which is copied. An empty one is none. BASE_ERR_LIMIT above
 * RANK_PIECE_TABLE_BYTES_MAX. */
BASE_MUST_CHECK base_status rank_piece_table_add(rank_piece_table *table, const uint8_t *piece,
                                                 size_t piece_bytes, base_error *reterr);
void rank_piece_table_fini(rank_piece_table *table);

#endif
