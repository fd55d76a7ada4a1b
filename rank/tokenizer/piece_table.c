/* Counts pieces in a hash table. Called by texts.c and by corpus-gen. */
#include "piece_table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

enum { ENTRIES_FIRST = 1 << 12, PIECES_FIRST = 1 << 11, BYTES_FIRST = 1 << 14 };

static uint64_t hash_of(const uint8_t *piece, size_t piece_bytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < piece_bytes; i++) {
        hash = (hash ^ piece[i]) * UINT64_C(0x100000001b3);
    }
    return hash ^ hash >> 32;
}

/* The piece's entry, or the free one where it belongs. */
static uint32_t *find(const rank_piece_table *table, const uint8_t *piece, size_t piece_bytes)
{
    size_t at = (size_t)hash_of(piece, piece_bytes) & table->entry_mask;
    for (; table->entries[at] != 0; at = (at + 1) & table->entry_mask) {
        const rank_counted_piece *known = &table->pieces[table->entries[at] - 1];
        if (known->size_bytes == piece_bytes &&
            memcmp(table->bytes + known->offset, piece, piece_bytes) == 0) {
            break;
        }
    }
    return &table->entries[at];
}

/* Keeps at least half of the entries free. */
static bool grow_entries(rank_piece_table *table)
{
    if (table->entries != NULL && 2 * table->piece_count <= table->entry_mask) {
        return true;
    }
    const size_t count = table->entries == NULL ? ENTRIES_FIRST : 2 * (table->entry_mask + 1);
    uint32_t *larger = calloc(count, sizeof *larger);
    if (larger == NULL) {
        return false;
    }
    free(table->entries);
    table->entries = larger;
    table->entry_mask = count - 1;
    for (size_t i = 0; i < table->piece_count; i++) {
        const rank_counted_piece *piece = &table->pieces[i];
        *find(table, table->bytes + piece->offset, piece->size_bytes) = (uint32_t)i + 1;
    }
    return true;
}

/* Makes room for one more piece of so many bytes. */
static bool grow_pieces(rank_piece_table *table, size_t piece_bytes)
{
    rank_counted_piece *pieces = base_grow(table->pieces, table->piece_count,
                                           &table->piece_capacity, PIECES_FIRST, sizeof *pieces);
    table->pieces = pieces != NULL ? pieces : table->pieces;
    uint8_t *bytes = base_reserve(table->bytes, table->bytes_used, piece_bytes,
                                  &table->bytes_capacity, BYTES_FIRST, 1);
    table->bytes = bytes != NULL ? bytes : table->bytes;
    return pieces != NULL && bytes != NULL;
}

base_status rank_piece_table_add(rank_piece_table *table, const uint8_t *piece, size_t piece_bytes,
                                 base_error *reterr)
{
    if (piece_bytes == 0) {
        return BASE_OK;
    }
    if (!grow_entries(table)) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu different words",
                         table->piece_count);
    }
    uint32_t *entry = find(table, piece, piece_bytes);
    if (*entry == 0) {
        if (piece_bytes > RANK_PIECE_TABLE_BYTES_MAX - table->bytes_used) {
            return base_fail(reterr, BASE_ERR_LIMIT,
                             "a tokenizer is learned from different words of at most %d MiB; give "
                             "it less text",
                             RANK_PIECE_TABLE_BYTES_MAX >> 20);
        }
        if (!grow_pieces(table, piece_bytes)) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu different words",
                             table->piece_count);
        }
        memcpy(table->bytes + table->bytes_used, piece, piece_bytes);
        table->pieces[table->piece_count++] = (rank_counted_piece){
            .offset = (uint32_t)table->bytes_used, .size_bytes = (uint32_t)piece_bytes};
        table->bytes_used += piece_bytes;
        *entry = (uint32_t)table->piece_count;
    }
    table->pieces[*entry - 1].occurrences++;
    table->text_bytes += piece_bytes;
    return BASE_OK;
}

void rank_piece_table_fini(rank_piece_table *table)
{
    free(table->pieces);
    free(table->bytes);
    free(table->entries);
    memset(table, 0, sizeof *table);
}
