#include "tree_order.h"

#include <stdint.h>
#include <string.h>

#include "limits.h"

enum {
    BLOCK_BYTES = 4096, /* operands and intermediate results of one block stay in the first cache */
    LEVELS_MAX = 7,     /* pending subtrees: one per bit of the operand count */
};

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
    kernel->combine(target, stack->top[level], stack->top[level + 1], count);
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
static void finish_block(pending_stack *stack, const coll_kernel *kernel, void *out,
                         const uint8_t *const *operands, int operand_count, size_t count,
                         int divisor)
{
    if (kernel->wide == NULL) {
        combine_block(stack, kernel, out, operands, operand_count, count);
        if (kernel->divide != NULL && divisor > 1) {
            kernel->divide(out, count, divisor);
        }
        return;
    }
    _Alignas(64) float wide[BLOCK_BYTES / sizeof(float)];
    combine_block(stack, kernel, wide, operands, operand_count, count);
    if (kernel->wide->divide != NULL && divisor > 1) {
        kernel->wide->divide(wide, count, divisor);
    }
    kernel->narrow(out, wide, count);
}

void coll_tree_combine(const coll_kernel *kernel, void *out, const void *const *operands,
                       int operand_count, size_t count, int divisor)
{
    const bool divides = kernel->divide != NULL && divisor > 1;
    if (operand_count == 1) {
        if (out != operands[0]) {
            memcpy(out, operands[0], count * kernel->element_bytes);
        }
        if (divides) {
            kernel->divide(out, count, divisor);
        }
        return;
    }
    if (operand_count == 2 && !divides) { /* one rounding in any case */
        kernel->combine(out, operands[0], operands[1], count);
        return;
    }
    pending_stack stack;
    const size_t element_bytes = kernel->element_bytes;
    const size_t block = BLOCK_BYTES / (kernel->wide != NULL ? sizeof(float) : element_bytes);
    for (size_t done = 0; done < count; done += block) {
        const uint8_t *at[COLL_RANKS_MAX];
        for (int r = 0; r < operand_count; r++) {
            at[r] = (const uint8_t *)operands[r] + done * element_bytes;
        }
        finish_block(&stack, kernel, (uint8_t *)out + done * element_bytes, at, operand_count,
                     count - done < block ? count - done : block, divisor);
    }
}
