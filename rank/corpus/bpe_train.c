/* Learns byte-pair merges from the training sentences. Called by output.c, which writes them as
 * tokenizer.json. */
#include "bpe_train.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES_MAX = 48,
    PIECES_MAX = 1 << 15,
    TABLE_ENTRIES = 1 << 16, /* at least twice PIECES_MAX, a power of two */
    IDS_MAX = 1024,          /* vocabulary while training */
};

typedef struct trainer_piece {
    uint32_t occurrences;
    uint32_t id_count;
    uint32_t text_bytes;
    char text[PIECE_BYTES_MAX];
    uint16_t ids[PIECE_BYTES_MAX];
} trainer_piece;

struct corpus_bpe_trainer {
    trainer_piece *pieces;
    size_t piece_count;
    uint32_t *table;       /* (TABLE_ENTRIES), piece + 1, 0: free */
    uint32_t *pair_counts; /* (IDS_MAX, IDS_MAX) */
};

base_status corpus_bpe_trainer_create(corpus_bpe_trainer **trainer, base_error *reterr)
{
    corpus_bpe_trainer *made = calloc(1, sizeof *made);
    *trainer = made;
    if (made != NULL) {
        made->pieces = calloc(PIECES_MAX, sizeof *made->pieces);
        made->table = calloc(TABLE_ENTRIES, sizeof *made->table);
        made->pair_counts = calloc((size_t)IDS_MAX * IDS_MAX, sizeof *made->pair_counts);
    }
    if (made == NULL || made->pieces == NULL || made->table == NULL || made->pair_counts == NULL) {
        corpus_bpe_trainer_destroy(made);
        *trainer = NULL;
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to train the tokenizer");
    }
    return BASE_OK;
}

void corpus_bpe_trainer_destroy(corpus_bpe_trainer *trainer)
{
    if (trainer == NULL) {
        return;
    }
    free(trainer->pieces);
    free(trainer->table);
    free(trainer->pair_counts);
    free(trainer);
}

static base_status add_piece(corpus_bpe_trainer *trainer, const char *text, size_t text_bytes,
                             base_error *reterr)
{
    uint32_t hash = UINT32_C(2166136261); /* FNV-1a */
    for (size_t i = 0; i < text_bytes; i++) {
        hash = (hash ^ (uint8_t)text[i]) * UINT32_C(16777619);
    }
    uint32_t at = hash & (TABLE_ENTRIES - 1);
    for (; trainer->table[at] != 0; at = (at + 1) & (TABLE_ENTRIES - 1)) {
        trainer_piece *piece = &trainer->pieces[trainer->table[at] - 1];
        if (piece->text_bytes == text_bytes && memcmp(piece->text, text, text_bytes) == 0) {
            piece->occurrences++;
            return BASE_OK;
        }
    }
    if (text_bytes > PIECE_BYTES_MAX || trainer->piece_count == PIECES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "the tokenizer is trained on at most %d words of at most %d bytes",
                         (int)PIECES_MAX, (int)PIECE_BYTES_MAX);
    }
    trainer_piece *piece = &trainer->pieces[trainer->piece_count++];
    trainer->table[at] = (uint32_t)trainer->piece_count;
    piece->occurrences = 1;
    piece->text_bytes = (uint32_t)text_bytes;
    piece->id_count = (uint32_t)text_bytes;
    memcpy(piece->text, text, text_bytes);
    for (size_t i = 0; i < text_bytes; i++) {
        piece->ids[i] = (uint8_t)text[i];
    }
    return BASE_OK;
}

base_status corpus_bpe_trainer_add(corpus_bpe_trainer *trainer, const char *text,
                                   base_error *reterr)
{
    size_t text_bytes = strlen(text);
    while (text_bytes > 0) {
        const size_t piece_bytes = rank_bpe_piece_bytes(text, text_bytes);
        const base_status status = add_piece(trainer, text, piece_bytes, reterr);
        if (status != BASE_OK) {
            return status;
        }
        text += piece_bytes;
        text_bytes -= piece_bytes;
    }
    return BASE_OK;
}

/* The most frequent pair of the pieces as they are now, and how often it occurs. */
static uint32_t most_frequent(corpus_bpe_trainer *trainer, int id_count, rank_bpe_pair *best)
{
    memset(trainer->pair_counts, 0, (size_t)IDS_MAX * IDS_MAX * sizeof *trainer->pair_counts);
    for (size_t i = 0; i < trainer->piece_count; i++) {
        const trainer_piece *piece = &trainer->pieces[i];
        for (uint32_t j = 0; j + 1 < piece->id_count; j++) {
            trainer->pair_counts[piece->ids[j] * IDS_MAX + piece->ids[j + 1]] += piece->occurrences;
        }
    }
    uint32_t most = 0;
    for (int left = 0; left < id_count; left++) {
        for (int right = 0; right < id_count; right++) {
            const uint32_t count = trainer->pair_counts[left * IDS_MAX + right];
            if (count > most) {
                most = count;
                *best = (rank_bpe_pair){(uint16_t)left, (uint16_t)right};
            }
        }
    }
    return most;
}

static void join(trainer_piece *piece, rank_bpe_pair pair, uint16_t made)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < piece->id_count; i++) {
        const int joins = i + 1 < piece->id_count && piece->ids[i] == pair.left &&
                          piece->ids[i + 1] == pair.right;
        piece->ids[kept++] = joins ? made : piece->ids[i];
        i += joins ? 1 : 0;
    }
    piece->id_count = kept;
}

base_status corpus_bpe_trainer_run(corpus_bpe_trainer *trainer, int merge_count,
                                   rank_bpe_pair *merges, base_error *reterr)
{
    if (merge_count < 0 || RANK_BPE_BYTES + merge_count >= IDS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "at most %d merges", IDS_MAX - RANK_BPE_BYTES - 1);
    }
    for (int m = 0; m < merge_count; m++) {
        if (most_frequent(trainer, RANK_BPE_BYTES + m, &merges[m]) < 2) {
            return base_fail(reterr, BASE_ERR_INVALID, "the texts give %d merges, not %d", m,
                             merge_count);
        }
        for (size_t i = 0; i < trainer->piece_count; i++) {
            join(&trainer->pieces[i], merges[m], (uint16_t)(RANK_BPE_BYTES + m));
        }
    }
    return BASE_OK;
}
