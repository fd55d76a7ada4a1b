/* Checked little-endian reading and writing in a caller's buffer.
 *
 * A cursor never leaves its buffer. The first step beyond the end sets `failed`. After that every
 * read gives 0, and every write does nothing. So callers process a whole message and check `failed`
 * once. Not shared between threads. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct base_reader {
    const uint8_t *data;
    size_t size_bytes;
    size_t offset_bytes;
    bool failed;
} base_reader;

typedef struct base_writer {
    uint8_t *data;
    size_t size_bytes;
    size_t offset_bytes;
    bool failed;
} base_writer;

base_reader base_reader_make(const void *data, size_t size_bytes);
uint32_t base_read_u32(base_reader *reader);
uint64_t base_read_u64(base_reader *reader);

/* The next size_bytes of the buffer, not copied; NULL if fewer are left. */
const void *base_read_bytes(base_reader *reader, size_t size_bytes);

base_writer base_writer_make(void *data, size_t size_bytes);
void base_write_u32(base_writer *writer, uint32_t value);
void base_write_u64(base_writer *writer, uint64_t value);
void base_write_bytes(base_writer *writer, const void *data, size_t size_bytes);

/* The smaller one. */
static inline size_t base_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t base_max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* a + b and a * b. On overflow false, with *result unchanged. */
bool base_add_size(size_t a, size_t b, size_t *result);
bool base_mul_size(size_t a, size_t b, size_t *result);

#endif
