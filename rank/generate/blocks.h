/* The key-value cache's blocks: a pool of blocks of equal size, and each sequence's table of them.
 *
 * A sequence reserves blocks when it is admitted, and more as it grows (schedule.h).
 * Block i of a sequence's table holds its positions from i × block_tokens
 * on. No table has a free block.
 *
 * A block that is full keeps its content when its sequence goes, until the block is needed: a prompt that
 * begins with the same tokens shares it (rank_blocks_share). Blocks without content are taken first, and
 * then those that were released longest ago. Only full blocks are in two tables, and nobody writes to
 * them. A content is its tokens and all before them: it names the content in front of it by a number that
 * is never used again. So what stands in a block is known exactly, and not by a hash.
 *
 * One flat object in the caller's storage, without pointers. Two copies on which the same calls
 * were made are byte-equal. One thread at a time. */
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

/* Bytes of storage, to be aligned for uint64_t. */
size_t rank_blocks_bytes(const rank_blocks_options *options);

/* Makes an object in the storage, with all blocks free. The storage stays the caller's. */
rank_blocks *rank_blocks_init(void *storage, const rank_blocks_options *options);

/* How many blocks `tokens` positions need. */
int32_t rank_blocks_needed(const rank_blocks *blocks, int32_t tokens);
int32_t rank_blocks_free_count(const rank_blocks *blocks);

/* How many blocks have the content that these tokens begin with, of `count` tokens at most. */
int32_t rank_blocks_cached(const rank_blocks *blocks, const int32_t *tokens, int32_t count);

/* Gives a sequence that has no blocks those whose content its tokens begin with. Returns how many: their
 * positions need not be computed. `count` tokens at most are shared. */
int32_t rank_blocks_share(rank_blocks *blocks, int32_t sequence, const int32_t *tokens,
                          int32_t count);

/* Reserves those blocks of positions 0 … tokens - 1 that the sequence has not yet, with 1 <= tokens
 * <= context. False, and nothing has changed, if too few are free. */
bool rank_blocks_reserve(rank_blocks *blocks, int32_t sequence, int32_t tokens);

/* Notes that block i of the sequence's table is full, and so are those before it, which are noted already.
 * tokens: the block's own, block_tokens of them. */
void rank_blocks_fill(rank_blocks *blocks, int32_t sequence, int32_t i, const int32_t *tokens);

/* Frees the sequence's blocks, if it has any: those that no other sequence has. */
void rank_blocks_release(rank_blocks *blocks, int32_t sequence);

/* How many blocks the sequence has, and how many of them no other one has. */
int32_t rank_blocks_held(const rank_blocks *blocks, int32_t sequence);
int32_t rank_blocks_held_alone(const rank_blocks *blocks, int32_t sequence);

/* The sequence's table, as long as a whole context needs: the blocks that it has, then
 * RANK_BLOCK_NONE. Valid as long as the storage. */
const int32_t *rank_blocks_table(const rank_blocks *blocks, int32_t sequence);

#endif
