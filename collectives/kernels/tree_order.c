/* Combines the operands of any number of ranks in the canonical order, block by block. Called by
 * every protocol that has all operands at hand: inline, staged, arena, and plans by exec.c. */
#include "kernels/tree_order.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/limits.h"

enum {
    BLOCK_BYTES = 4096, /* operands and intermediate results of one block stay in the first cache */
    LEVELS_MAX = 7,     /* pending subtrees: one per bit of the operand count */
};

_Static_assert((int)COLL_ELEMENT_BYTES_MAX <= (int)BLOCK_BYTES, "a block has whole elements");

_Static_assert((1 << (LEVELS_MAX - 1)) >= COLL_RANKS_MAX, "one pending subtree per bit");

typedef struct pending_stack {
    const uint8_t *top[LEVELS_MAX + 1]; /* an operand, or the scratch block of the same level */
    _Alignas(64) uint8_t scratch[LEVELS_MAX][BLOCK_BYTES];
    int depth;
    int left; /* combinations still to do; the last one goes to the output */
} pending_stack;

static void combine_top(pending_stack *stack, const coll_kernel *kernel, void *out, size_t count)
{
    const int level = stack->depth - 2;
    uint8_t *target = --stack->left == 0 ? out : stack->scratch[level];
    coll_kernel_combine(kernel, target, stack->top[level], stack->top[level + 1], count);
    stack->top[level] = target;
    stack->depth--;
}

/* A binary counter: operand r closes as many subtrees as r has trailing ones. What is pending in
 * the end is combined from the right. With `widen`, operands go through the scratch of the level
 * they are put on. */
static void combine_block(pending_stack *stack, const coll_kernel *kernel, void *out,
                          const uint8_t *const *operands, int operand_count, size_t count)
{
    const coll_kernel *adder = kernel->wide != NULL ? kernel->wide : kernel;
    stack->depth = 0;
    stack->left = operand_count - 1;
    for (int r = 0; r < operand_count; r++) {
        const uint8_t *operand = operands[r];
        if (kernel->wide != NULL) {
            uint8_t *level = stack->scratch[stack->depth];
            kernel->widen((float *)(void *)level, operand, count);
            operand = level;
        }
        stack->top[stack->depth++] = operand;
        for (int bits = r; (bits & 1) != 0; bits >>= 1) {
            combine_top(stack, adder, out, count);
        }
    }
    while (stack->depth > 1) {
        combine_top(stack, adder, out, count);
    }
}

/* One block of at most BLOCK_BYTES, of the wide type if there is one. */
static void finish_block(pending_stack *stack, const coll_tree *block, void *out, size_t count)
{
    const coll_kernel *kernel = block->kernel;
    if (kernel->wide == NULL) {
        combine_block(stack, kernel, out, block->operands, block->operand_count, count);
        if (kernel->divide != NULL && block->divisor > 1) {
            kernel->divide(out, count, block->divisor);
        }
        return;
    }
    _Alignas(64) float wide[BLOCK_BYTES / sizeof(float)];
    combine_block(stack, kernel, wide, block->operands, block->operand_count, count);
    if (kernel->wide->divide != NULL && block->divisor > 1) {
        kernel->wide->divide(wide, count, block->divisor);
    }
    kernel->narrow(out, wide, count);
}

/* Block by block into the first output, and from there to the others. */
static void spread_blocks(const coll_tree *tree, uint8_t *const *outs, int out_count, size_t count)
{
    const coll_kernel *kernel = tree->kernel;
    const size_t element_bytes = kernel->element_bytes;
    const size_t block = BLOCK_BYTES / (kernel->wide != NULL ? sizeof(float) : element_bytes);
    const uint8_t *at[COLL_RANKS_MAX];
    const coll_tree piece = {.kernel = kernel,
                             .operands = at,
                             .operand_count = tree->operand_count,
                             .divisor = tree->divisor};
    pending_stack stack;
    for (size_t done = 0; done < count; done += block) {
        const size_t n = count - done < block ? count - done : block;
        const size_t offset_bytes = done * element_bytes;
        for (int r = 0; r < tree->operand_count; r++) {
            at[r] = tree->operands[r] + offset_bytes;
        }
        finish_block(&stack, &piece, outs[0] + offset_bytes, n);
        for (int o = 1; o < out_count; o++) {
            memcpy(outs[o] + offset_bytes, outs[0] + offset_bytes, n * element_bytes);
        }
    }
}

void coll_tree_spread(const coll_tree *tree, uint8_t *const *outs, int out_count, size_t count)
{
    const coll_kernel *kernel = tree->kernel;
    const uint8_t *const *from = tree->operands;
    const bool divides = kernel->divide != NULL && tree->divisor > 1;
    if (tree->operand_count == 1) {
        for (int o = 0; o < out_count; o++) {
            if (outs[o] != from[0]) {
                memcpy(outs[o], from[0], count * kernel->element_bytes);
            }
        }
        for (int o = 0; divides && o < out_count; o++) {
            kernel->divide(outs[o], count, tree->divisor);
        }
    } else if (tree->operand_count == 2 && !divides &&
               (out_count == 1 || (out_count == 2 && kernel->own == NULL))) {
        if (out_count == 1) { /* one rounding in any case */
            coll_kernel_combine(kernel, outs[0], from[0], from[1], count);
        } else {
            kernel->combine_twice(outs[0], outs[1], from[0], from[1], count);
        }
    } else if (kernel->combine_many != NULL) {
        kernel->combine_many(outs, out_count, from, tree->operand_count,
                             count * kernel->element_bytes, divides ? tree->divisor : 0);
    } else {
        spread_blocks(tree, outs, out_count, count);
    }
}

/* out = all that is pending, from the right; the stack stays as it is. */
static void write_prefix(const pending_stack *stack, const coll_kernel *kernel, uint8_t *out,
                         size_t count)
{
    const coll_kernel *adder = kernel->wide != NULL ? kernel->wide : kernel;
    _Alignas(64) uint8_t sum[BLOCK_BYTES];
    const uint8_t *right = stack->top[stack->depth - 1];
    for (int level = stack->depth - 2; level >= 0; level--) {
        uint8_t *target = level == 0 && kernel->wide == NULL ? out : sum;
        coll_kernel_combine(adder, target, stack->top[level], right, count);
        right = target;
    }
    if (kernel->wide != NULL) {
        kernel->narrow(out, (const float *)(const void *)right, count);
    } else if (right != out) {
        memcpy(out, right, count * kernel->element_bytes);
    }
}

/* Puts an operand on top: widened, or copied if what is written now lies where it does. */
static void push(pending_stack *stack, const coll_kernel *kernel, const uint8_t *operand,
                 bool copied, size_t count)
{
    uint8_t *level = stack->scratch[stack->depth];
    if (kernel->wide != NULL) {
        kernel->widen((float *)(void *)level, operand, count);
    } else if (copied) {
        memcpy(level, operand, count * kernel->element_bytes);
    }
    stack->top[stack->depth++] = kernel->wide != NULL || copied ? level : operand;
}

/* One block of at most BLOCK_BYTES, of the wide type if there is one: the binary counter of
 * combine_block, with a look at what is pending at each operand. The prefix of one operand has its bits:
 * widening would not keep those of a signaling NaN. */
static void scan_block(const coll_tree_prefixes *p, size_t offset_bytes, size_t count)
{
    const coll_kernel *adder = p->kernel->wide != NULL ? p->kernel->wide : p->kernel;
    const int last = p->operand_count - 1;
    const int lone = p->exclusive ? 1 : 0;         /* whose prefix is one operand */
    pending_stack stack = {.depth = 0, .left = 0}; /* nothing goes to an output */
    for (int r = 0; r <= last; r++) {
        uint8_t *out = p->outs[r] + offset_bytes;
        if (p->exclusive && r == last && r > lone) {
            write_prefix(&stack, p->kernel, out, count);
            break;
        }
        const uint8_t *operand = p->operands[r] + offset_bytes;
        push(&stack, p->kernel, operand, operand == out && r > 0, count);
        if (p->exclusive && r > lone) {
            stack.depth--;
            write_prefix(&stack, p->kernel, out, count);
            stack.depth++;
        }
        for (int bits = r; (bits & 1) != 0 && r < last; bits >>= 1) {
            combine_top(&stack, adder, NULL, count);
        }
        if (!p->exclusive && r > lone) {
            write_prefix(&stack, p->kernel, out, count);
        }
    }
    if (lone <= last && p->outs[lone] != p->operands[0]) {
        memcpy(p->outs[lone] + offset_bytes, p->operands[0] + offset_bytes,
               count * p->kernel->element_bytes);
    }
}

void coll_tree_scan(const coll_tree_prefixes *prefixes, size_t count)
{
    const coll_kernel *kernel = prefixes->kernel;
    const size_t block =
        BLOCK_BYTES / (kernel->wide != NULL ? sizeof(float) : kernel->element_bytes);
    for (size_t done = 0; done < count; done += block) {
        scan_block(prefixes, done * kernel->element_bytes,
                   count - done < block ? count - done : block);
    }
}

void coll_tree_combine(const coll_kernel *kernel, void *out, const void *const *operands,
                       int operand_count, size_t count, int divisor)
{
    const uint8_t *from[COLL_RANKS_MAX];
    uint8_t *const target = out;
    const coll_tree tree = {
        .kernel = kernel, .operands = from, .operand_count = operand_count, .divisor = divisor};
    for (int r = 0; r < operand_count; r++) {
        from[r] = operands[r];
    }
    coll_tree_spread(&tree, &target, 1, count);
}
