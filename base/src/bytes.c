/* Bounds-checked little-endian cursors and overflow-checked size arithmetic. Used by every decoder
 * of binary data: key files, leases, identities of ranks, the ledger's journal, safetensors. */
#include "base/bytes.h"

#include <string.h>

base_reader base_reader_make(const void *data, size_t size_bytes)
{
    return (base_reader){.data = data, .size_bytes = size_bytes};
}

const void *base_read_bytes(base_reader *reader, size_t size_bytes)
{
    if (reader->failed || size_bytes > reader->size_bytes - reader->offset_bytes) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *bytes = reader->data + reader->offset_bytes;
    reader->offset_bytes += size_bytes;
    return bytes;
}

static uint64_t read_little_endian(base_reader *reader, size_t size_bytes)
{
    const uint8_t *bytes = base_read_bytes(reader, size_bytes);
    uint64_t value = 0;
    for (size_t i = 0; bytes != NULL && i < size_bytes; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

uint32_t base_read_u32(base_reader *reader)
{
    return (uint32_t)read_little_endian(reader, 4);
}

uint64_t base_read_u64(base_reader *reader)
{
    return read_little_endian(reader, 8);
}

base_writer base_writer_make(void *data, size_t size_bytes)
{
    return (base_writer){.data = data, .size_bytes = size_bytes};
}

void base_write_bytes(base_writer *writer, const void *data, size_t size_bytes)
{
    if (writer->failed || size_bytes > writer->size_bytes - writer->offset_bytes) {
        writer->failed = true;
        return;
    }
    if (size_bytes > 0) {
        memcpy(writer->data + writer->offset_bytes, data, size_bytes);
    }
    writer->offset_bytes += size_bytes;
}

static void write_little_endian(base_writer *writer, uint64_t value, size_t size_bytes)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < size_bytes; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    base_write_bytes(writer, bytes, size_bytes);
}

void base_write_u32(base_writer *writer, uint32_t value)
{
    write_little_endian(writer, value, 4);
}

void base_write_u64(base_writer *writer, uint64_t value)
{
    write_little_endian(writer, value, 8);
}

bool base_add_size(size_t a, size_t b, size_t *result)
{
    size_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *result = sum;
    return true;
}

bool base_mul_size(size_t a, size_t b, size_t *result)
{
    size_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *result = product;
    return true;
}
