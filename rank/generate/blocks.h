/* The key-value cache's blocks: a pool of equal blocks of tokens, and each sequence's table of
 * them.
 *
 * A sequence reserves the blocks of all the tokens that it may ever have when it is admitted, so
 * that it never runs out of them half way. Block i of a sequence's table holds its positions
 * i × block_tokens and up. No block is in two tables, and a free one is in none.
 *
 * One flat object in the caller's storage, without a pointer in it: two copies to which the same
 * calls were made are byte-equal. One thread at a time. */
#ifndef RANK_GENERATE_BLOCKS_H
#define RANK_GENERATE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RANK_BLOCK_NONE = -1 }; /* in the unused rest of a table */

typedef struct rank_blocks_options {
    int32_t block_count;    /* >= 1: of the pool */
    int32_t block_tokens;   /* >= 1: positions in a block */
    int32_t sequence_count; /* >= 1: tables */
    int32_t context;        /* >= 1: tokens that a sequence can have at most */
} rank_blocks_options;

typedef struct rank_blocks rank_blocks;

/* Bytes of storage, to be aligned for int32_t. */
size_t rank_blocks_bytes(const rank_blocks_options *options);

/* Lays an object out in the storage: all blocks are free. The storage stays the caller's. */
rank_blocks *rank_blocks_init(void *storage, const rank_blocks_options *options);

/* Blocks that `tokens` positions take. */
int32_t rank_blocks_needed(const rank_blocks *blocks, int32_t tokens);
int32_t rank_blocks_free_count(const rank_blocks *blocks);

/* Gives the sequence, which has none, the blocks of positions 0 … tokens - 1, for 1 <= tokens <=
 * context. False, and nothing has changed, where too few are free. */
bool rank_blocks_reserve(rank_blocks *blocks, int32_t sequence, int32_t tokens);

/* Frees what the sequence holds; nothing where it holds nothing. */
void rank_blocks_release(rank_blocks *blocks, int32_t sequence);

int32_t rank_blocks_held(const rank_blocks *blocks, int32_t sequence);

/* The sequence's table, rank_blocks_held blocks and RANK_BLOCK_NONE behind them, as long as one for
 * a whole context. Valid for as long as the storage. */
const int32_t *rank_blocks_table(const rank_blocks *blocks, int32_t sequence);

/* The row of the cache that a reserved position has: block × block_tokens + the rest. */
size_t rank_blocks_row(const rank_blocks *blocks, int32_t sequence, int32_t position);

#endif
