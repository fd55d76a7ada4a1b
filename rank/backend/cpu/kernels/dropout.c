/* Dropout (backend/dropout.h), in forward and in backward. Compiled once per instruction set; models call it
 * through the backend.
 *
 * Words of 32 bits stand in the lower halves of lanes of 64, where a product of two has room. What is in the upper
 * halves does not matter. Half of the calls have even numbers and half odd ones, so that two vectors of words become
 * one of 32 bits by a shift. */
#include "kernels_isa.h"

enum {
    ROUNDS = 10,
    WORDS = 4,
    CALLS = 16, /* that stand side by side */
    COLUMNS = CALLS * WORDS,
};

#define LOWER_HALF UINT64_C(0xffffffff)

/* Of each round, in lower halves. */
typedef struct philox_keys {
    uint64_t of[ROUNDS][2];
} philox_keys;

static philox_keys make_keys(uint64_t seed)
{
    philox_keys keys;
    uint32_t first = (uint32_t)seed;
    uint32_t second = (uint32_t)(seed >> 32);
    for (int round = 0; round < ROUNDS; round++) {
        keys.of[round][0] = first;
        keys.of[round][1] = second;
        first += UINT32_C(0x9e3779b9);
        second += UINT32_C(0xbb67ae85);
    }
    return keys;
}

VEC_INLINE void philox(const philox_keys *keys, vec_wide words[WORDS])
{
    const vec_wide zeros = {0};
    const vec_wide first_factor = zeros + UINT64_C(0xd2511f53);
    const vec_wide second_factor = zeros + UINT64_C(0xcd9e8d57);
    for (int round = 0; round < ROUNDS; round++) {
        const vec_wide first = vec_multiply_wide(words[0], first_factor);
        const vec_wide second = vec_multiply_wide(words[2], second_factor);
        words[0] = (second >> 32) ^ words[1] ^ keys->of[round][0];
        words[1] = second;
        words[2] = (first >> 32) ^ words[3] ^ keys->of[round][1];
        words[3] = first;
    }
}

/* 0, 2, 4 … */
VEC_INLINE vec_wide even_numbers(void)
{
    vec_wide numbers;
    for (int i = 0; i < VEC_LANES / 2; i++) {
        numbers[i] = 2 * (uint64_t)i;
    }
    return numbers;
}

/* The words of VEC_LANES neighbouring calls, from that counter on. */
VEC_INLINE void draw(const rank_dropout *args, const philox_keys *keys, uint32_t counter,
                     vec_bits drawn[WORDS])
{
    const vec_wide zeros = {0};
    const vec_wide counters = even_numbers() + counter;
    vec_wide even[WORDS] = {counters, zeros + args->site, zeros + (uint32_t)args->step,
                            zeros + (args->step >> 32)};
    vec_wide odd[WORDS] = {counters + 1, even[1], even[2], even[3]};
    philox(keys, even);
    philox(keys, odd);
    for (int i = 0; i < WORDS; i++) {
        drawn[i] = (vec_bits)((even[i] & LOWER_HALF) | (odd[i] << 32));
    }
}

/* Drops what the words say of the columns from `column` on. */
VEC_INLINE void drop(const rank_dropout *args, size_t row, size_t column, vec_bits words)
{
    const size_t left = args->width - column;
    const size_t at = row * args->width + column;
    const vec_int kept = (vec_int)(words >= args->below);
    vec x = vec_load(args->from + at, left);
    if (args->bias != NULL) {
        x += vec_load(args->bias + column, left);
    }
    vec_store(args->to + at, vec_select(kept, x * args->scale, vec_set(0.0f)), left);
}

void KERNEL(dropout)(const rank_dropout *args)
{
    const philox_keys keys = make_keys(args->seed);
    const size_t width = args->width;
    for (size_t row = 0; row < args->rows; row++) {
        const size_t own = args->tokens != NULL ? (size_t)args->tokens[row] : row;
        const size_t begin = (args->first_token + own) * RANK_DROPOUT_ROW_CALLS;
        for (size_t block = 0; block < width; block += COLUMNS) {
            for (size_t call = 0; call < CALLS && block + call < width; call += VEC_LANES) {
                vec_bits words[WORDS];
                draw(args, &keys, (uint32_t)(begin + block / WORDS + call), words);
                for (size_t i = 0; i < WORDS && block + call + i * CALLS < width; i++) {
                    drop(args, row, block + call + i * CALLS, words[i]);
                }
            }
        }
    }
}
