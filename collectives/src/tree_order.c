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
    uint8_t scratch[LEVELS_MAX][BLOCK_BYTES];
    int depth;
    int left; /* combinations still to do; the last one goes to the output */
} pending_stack;

static void combine_top(pending_stack *stack, const coll_kernel *kernel, uint8_t *out, size_t count)
{
    const int level = stack->depth - 2;
    uint8_t *target = --stack->left == 0 ? out : stack->scratch[level];
    kernel->combine(target, stack->top[level], stack->top[level + 1], count);
    stack->top[level] = target;
    stack->depth--;
}

/* A binary counter: operand r closes as many subtrees as r has trailing ones. What is pending in
 * the end is combined from the right. */
static void combine_block(pending_stack *stack, const coll_kernel *kernel, uint8_t *out,
                          const void *const *operands, int operand_count, size_t offset_bytes,
                          size_t count)
{
    stack->depth = 0;
    stack->left = operand_count - 1;
    for (int r = 0; r < operand_count; r++) {
        stack->top[stack->depth++] = (const uint8_t *)operands[r] + offset_bytes;
        for (int bits = r; (bits & 1) != 0; bits >>= 1) {
            combine_top(stack, kernel, out, count);
        }
    }
    while (stack->depth > 1) {
        combine_top(stack, kernel, out, count);
    }
}

void coll_tree_combine(const coll_kernel *kernel, void *out, const void *const *operands,
                       int operand_count, size_t count, size_t element_bytes)
{
    if (operand_count == 1) {
        if (out != operands[0]) {
            memcpy(out, operands[0], count * element_bytes);
        }
        return;
    }
    if (operand_count == 2) {
        kernel->combine(out, operands[0], operands[1], count);
        return;
    }
    pending_stack stack;
    const size_t block_count = BLOCK_BYTES / element_bytes;
    for (size_t done = 0; done < count; done += block_count) {
        const size_t n = count - done < block_count ? count - done : block_count;
        combine_block(&stack, kernel, (uint8_t *)out + done * element_bytes, operands,
                      operand_count, done * element_bytes, n);
    }
}
