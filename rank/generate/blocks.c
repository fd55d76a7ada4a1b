/* The pool of cache blocks: a list of free ones, and what stands in each. Called by schedule.c, which reserves
 * and frees; attention reads the tables. */
#include "generate/blocks.h"

#include <string.h>

#include "base/assert.h"

/* One block. While it is free it stands in the list, whose ends are the list's own entry behind the last
 * block. */
typedef struct block_state {
    uint64_t content; /* its number, from 1 on; 0: nothing is known to stand there */
    uint64_t before;  /* of the content in front of it; 0: it is the beginning */
    int32_t holders;  /* sequences that have it; 0: it is free */
    int32_t next;
    int32_t previous;
    int32_t
        next_alike; /* another block whose content has the same hash, modulo the number of blocks */
} block_state;

_Static_assert(sizeof(block_state) == 32, "no padding");

/* Followed by blocks (block_count + 1), held (sequence_count), tables (…, table_blocks), the first blocks of
 * each hash (block_count), and the tokens of contents (block_count, block_tokens). */
struct rank_blocks {
    uint64_t contents; /* so far */
    rank_blocks_options options;
    int32_t table_blocks; /* of a whole context */
    int32_t free_count;
};

_Static_assert(sizeof(struct rank_blocks) == 32, "no padding");

static int32_t blocks_of(int32_t tokens, int32_t block_tokens)
{
    return tokens / block_tokens + (tokens % block_tokens != 0);
}

static block_state *block_at(const rank_blocks *blocks, int32_t block)
{
    BASE_ASSERT(block >= 0);
    BASE_ASSERT(block <= blocks->options.block_count);
    return (block_state *)(void *)((uint8_t *)(uintptr_t)blocks + sizeof *blocks) + block;
}

static int32_t *held_at(const rank_blocks *blocks, int32_t sequence)
{
    int32_t *held = (int32_t *)(void *)(block_at(blocks, blocks->options.block_count) + 1);
    BASE_ASSERT(sequence >= 0);
    BASE_ASSERT(sequence < blocks->options.sequence_count);
    return held + sequence;
}

static int32_t *table_at(const rank_blocks *blocks, int32_t sequence)
{
    return held_at(blocks, 0) + blocks->options.sequence_count +
           (size_t)sequence * (size_t)blocks->table_blocks;
}

static int32_t *firsts_of(const rank_blocks *blocks)
{
    return table_at(blocks, 0) +
           (size_t)blocks->options.sequence_count * (size_t)blocks->table_blocks;
}

static int32_t *tokens_at(const rank_blocks *blocks, int32_t block)
{
    return firsts_of(blocks) + blocks->options.block_count +
           (size_t)block * (size_t)blocks->options.block_tokens;
}

size_t rank_blocks_bytes(const rank_blocks_options *options)
{
    BASE_ASSERT(options->block_count >= 1);
    BASE_ASSERT(options->block_tokens >= 1);
    BASE_ASSERT(options->sequence_count >= 1);
    BASE_ASSERT(options->context >= 1);
    const size_t table_blocks = (size_t)blocks_of(options->context, options->block_tokens);
    return sizeof(rank_blocks) + ((size_t)options->block_count + 1) * sizeof(block_state) +
           ((size_t)options->sequence_count * (1 + table_blocks) +
            (size_t)options->block_count * (1 + (size_t)options->block_tokens)) *
               sizeof(int32_t);
}

/* Puts a block between two that are neighbours in the list. */
static void link_between(rank_blocks *blocks, int32_t block, int32_t previous, int32_t next)
{
    block_at(blocks, block)->previous = previous;
    block_at(blocks, block)->next = next;
    block_at(blocks, previous)->next = block;
    block_at(blocks, next)->previous = block;
    blocks->free_count++;
}

static void take_out(rank_blocks *blocks, int32_t block)
{
    block_state *state = block_at(blocks, block);
    BASE_ASSERT(blocks->free_count > 0);
    block_at(blocks, state->previous)->next = state->next;
    block_at(blocks, state->next)->previous = state->previous;
    state->next = RANK_BLOCK_NONE;
    state->previous = RANK_BLOCK_NONE;
    blocks->free_count--;
}

rank_blocks *rank_blocks_init(void *storage, const rank_blocks_options *options)
{
    rank_blocks *blocks = storage;
    const int32_t end = options->block_count;
    memset(storage, 0, rank_blocks_bytes(options));
    blocks->options = *options;
    blocks->table_blocks = blocks_of(options->context, options->block_tokens);
    *block_at(blocks, end) = (block_state){.next = end, .previous = end};
    for (int32_t i = end - 1; i >= 0; i--) { /* the lowest is taken first */
        link_between(blocks, i, end, block_at(blocks, end)->next);
    }
    for (int32_t i = 0; i < end; i++) {
        block_at(blocks, i)->next_alike = RANK_BLOCK_NONE;
        firsts_of(blocks)[i] = RANK_BLOCK_NONE;
    }
    for (int32_t sequence = 0; sequence < options->sequence_count; sequence++) {
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

/* Where the search for these tokens behind that content begins. */
static int32_t *first_of(const rank_blocks *blocks, uint64_t before, const int32_t *tokens)
{
    uint64_t hash = before;
    for (int32_t i = 0; i < blocks->options.block_tokens; i++) {
        hash = (hash ^ (uint32_t)tokens[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return firsts_of(blocks) + hash % (uint64_t)blocks->options.block_count;
}

/* The block with these tokens behind that content; RANK_BLOCK_NONE: there is none. */
static int32_t find(const rank_blocks *blocks, uint64_t before, const int32_t *tokens)
{
    const size_t size_bytes = (size_t)blocks->options.block_tokens * sizeof *tokens;
    int32_t block = *first_of(blocks, before, tokens);
    while (block != RANK_BLOCK_NONE &&
           (block_at(blocks, block)->before != before ||
            memcmp(tokens_at(blocks, block), tokens, size_bytes) != 0)) {
        block = block_at(blocks, block)->next_alike;
    }
    return block;
}

/* What stands in the block, and behind it, is found no more. */
static void forget(rank_blocks *blocks, int32_t block)
{
    block_state *state = block_at(blocks, block);
    if (state->content == 0) {
        return;
    }
    int32_t *at = first_of(blocks, state->before, tokens_at(blocks, block));
    while (*at != block) {
        at = &block_at(blocks, *at)->next_alike;
    }
    *at = state->next_alike;
    state->next_alike = RANK_BLOCK_NONE;
    state->content = 0;
    state->before = 0;
}

int32_t rank_blocks_cached(const rank_blocks *blocks, const int32_t *tokens, int32_t count)
{
    const int32_t each = blocks->options.block_tokens;
    uint64_t before = 0;
    int32_t cached = 0;
    for (; count >= each && cached < blocks->table_blocks; cached++) {
        const int32_t block = find(blocks, before, tokens);
        if (block == RANK_BLOCK_NONE) {
            break;
        }
        before = block_at(blocks, block)->content;
        tokens += each;
        count -= each;
    }
    return cached;
}

int32_t rank_blocks_share(rank_blocks *blocks, int32_t sequence, const int32_t *tokens,
                          int32_t count)
{
    const int32_t each = blocks->options.block_tokens;
    int32_t *held = held_at(blocks, sequence);
    uint64_t before = 0;
    BASE_ASSERT(*held == 0);
    while (count >= each && *held < blocks->table_blocks) {
        const int32_t block = find(blocks, before, tokens);
        if (block == RANK_BLOCK_NONE) {
            break;
        }
        block_state *state = block_at(blocks, block);
        if (state->holders == 0) {
            take_out(blocks, block);
        }
        state->holders++;
        table_at(blocks, sequence)[(*held)++] = block;
        before = state->content;
        tokens += each;
        count -= each;
    }
    return *held;
}

bool rank_blocks_reserve(rank_blocks *blocks, int32_t sequence, int32_t tokens)
{
    int32_t *held = held_at(blocks, sequence);
    const int32_t needed = rank_blocks_needed(blocks, tokens);
    BASE_ASSERT(tokens >= 1);
    BASE_ASSERT(tokens <= blocks->options.context);
    if (needed - *held > blocks->free_count) {
        return false;
    }
    while (*held < needed) {
        const int32_t block = block_at(blocks, blocks->options.block_count)->next;
        block_state *state = block_at(blocks, block);
        BASE_ASSERT(state->holders == 0);
        take_out(blocks, block);
        forget(blocks, block);
        state->holders = 1;
        table_at(blocks, sequence)[(*held)++] = block;
    }
    return true;
}

void rank_blocks_fill(rank_blocks *blocks, int32_t sequence, int32_t i, const int32_t *tokens)
{
    const int32_t *table = table_at(blocks, sequence);
    BASE_ASSERT(i >= 0);
    BASE_ASSERT(i < *held_at(blocks, sequence));
    block_state *state = block_at(blocks, table[i]);
    BASE_ASSERT(state->content == 0);
    state->before = i > 0 ? block_at(blocks, table[i - 1])->content : 0;
    BASE_ASSERT(i == 0 || state->before != 0);
    state->content = ++blocks->contents;
    memcpy(tokens_at(blocks, table[i]), tokens,
           (size_t)blocks->options.block_tokens * sizeof *tokens);
    int32_t *first = first_of(blocks, state->before, tokens);
    state->next_alike = *first;
    *first = table[i];
}

/* The list begins with blocks without content, the last released first. What has content goes to its end, the
 * beginning of a text last: it is of use to most. */
void rank_blocks_release(rank_blocks *blocks, int32_t sequence)
{
    const int32_t end = blocks->options.block_count;
    int32_t *held = held_at(blocks, sequence);
    int32_t *table = table_at(blocks, sequence);
    for (int32_t i = *held - 1; i >= 0; i--) {
        block_state *state = block_at(blocks, table[i]);
        BASE_ASSERT(state->holders > 0);
        state->holders--;
        if (state->holders == 0 && state->content == 0) {
            link_between(blocks, table[i], end, block_at(blocks, end)->next);
        } else if (state->holders == 0) {
            link_between(blocks, table[i], block_at(blocks, end)->previous, end);
        }
        table[i] = RANK_BLOCK_NONE;
    }
    *held = 0;
}

int32_t rank_blocks_held(const rank_blocks *blocks, int32_t sequence)
{
    return *held_at(blocks, sequence);
}

int32_t rank_blocks_held_alone(const rank_blocks *blocks, int32_t sequence)
{
    int32_t alone = 0;
    for (int32_t i = 0; i < *held_at(blocks, sequence); i++) {
        alone += block_at(blocks, table_at(blocks, sequence)[i])->holders == 1 ? 1 : 0;
    }
    return alone;
}

const int32_t *rank_blocks_table(const rank_blocks *blocks, int32_t sequence)
{
    BASE_ASSERT(sequence >= 0);
    BASE_ASSERT(sequence < blocks->options.sequence_count);
    return table_at(blocks, sequence);
}
