/* The pool of cache blocks: a stack of free ones. Called by schedule.c, which reserves and frees;
 * attention reads the tables. */
#include "generate/blocks.h"

#include "base/assert.h"

struct rank_blocks {
    rank_blocks_options options;
    int32_t table_blocks; /* of a whole context */
    int32_t free_count;
    int32_t
        arrays[]; /* free blocks (block_count), held (sequence_count), tables (…, table_blocks) */
};

static int32_t blocks_of(int32_t tokens, int32_t block_tokens)
{
    return tokens / block_tokens + (tokens % block_tokens != 0);
}

static size_t array_count(const rank_blocks_options *options)
{
    const size_t table_blocks = (size_t)blocks_of(options->context, options->block_tokens);
    return (size_t)options->block_count + (size_t)options->sequence_count * (1 + table_blocks);
}

static int32_t *held_at(rank_blocks *blocks, int32_t sequence)
{
    BASE_ASSERT(sequence >= 0);
    BASE_ASSERT(sequence < blocks->options.sequence_count);
    return blocks->arrays + blocks->options.block_count + sequence;
}

static int32_t *table_at(rank_blocks *blocks, int32_t sequence)
{
    return blocks->arrays + blocks->options.block_count + blocks->options.sequence_count +
           (size_t)sequence * (size_t)blocks->table_blocks;
}

size_t rank_blocks_bytes(const rank_blocks_options *options)
{
    BASE_ASSERT(options->block_count >= 1);
    BASE_ASSERT(options->block_tokens >= 1);
    BASE_ASSERT(options->sequence_count >= 1);
    BASE_ASSERT(options->context >= 1);
    return sizeof(rank_blocks) + array_count(options) * sizeof(int32_t);
}

rank_blocks *rank_blocks_init(void *storage, const rank_blocks_options *options)
{
    rank_blocks *blocks = storage;
    blocks->options = *options;
    blocks->table_blocks = blocks_of(options->context, options->block_tokens);
    blocks->free_count = options->block_count;
    for (int32_t i = 0; i < options->block_count; i++) { /* the lowest is taken first */
        blocks->arrays[i] = options->block_count - 1 - i;
    }
    for (int32_t sequence = 0; sequence < options->sequence_count; sequence++) {
        *held_at(blocks, sequence) = 0;
        for (int32_t i = 0; i < blocks->table_blocks; i++) {
            table_at(blocks, sequence)[i] = RANK_BLOCK_NONE;
        }
    }
    return blocks;
}

int32_t rank_blocks_needed(const rank_blocks *blocks, int32_t tokens)
{
    return blocks_of(tokens, blocks->options.block_tokens);
}

int32_t rank_blocks_free_count(const rank_blocks *blocks)
{
    return blocks->free_count;
}

bool rank_blocks_reserve(rank_blocks *blocks, int32_t sequence, int32_t tokens)
{
    int32_t *held = held_at(blocks, sequence);
    const int32_t needed = rank_blocks_needed(blocks, tokens);
    BASE_ASSERT(*held == 0);
    BASE_ASSERT(tokens >= 1);
    BASE_ASSERT(tokens <= blocks->options.context);
    if (needed > blocks->free_count) {
        return false;
    }
    for (int32_t i = 0; i < needed; i++) {
        blocks->free_count--;
        table_at(blocks, sequence)[i] = blocks->arrays[blocks->free_count];
        blocks->arrays[blocks->free_count] = RANK_BLOCK_NONE;
    }
    *held = needed;
    return true;
}

void rank_blocks_release(rank_blocks *blocks, int32_t sequence)
{
    int32_t *held = held_at(blocks, sequence);
    int32_t *table = table_at(blocks, sequence);
    for (int32_t i = *held - 1; i >= 0; i--) {
        BASE_ASSERT(blocks->free_count < blocks->options.block_count);
        blocks->arrays[blocks->free_count] = table[i];
        blocks->free_count++;
        table[i] = RANK_BLOCK_NONE;
    }
    *held = 0;
}

int32_t rank_blocks_held(const rank_blocks *blocks, int32_t sequence)
{
    return *held_at((rank_blocks *)blocks, sequence);
}

const int32_t *rank_blocks_table(const rank_blocks *blocks, int32_t sequence)
{
    BASE_ASSERT(sequence >= 0);
    BASE_ASSERT(sequence < blocks->options.sequence_count);
    return table_at((rank_blocks *)blocks, sequence);
}
