/* Unicode's normal form C (Unicode Standard Annex 15): letters and the marks on them become one
 * character where there is one, and marks stand in one order. Tables are utf8proc's.
 *
 * Bytes that are no UTF-8 stay as they are; what lies between them is normalised. Takes linear time.
 *
 * A rank_nfc of zeros is ready for use. One thread at a time. */
#ifndef RANK_DATA_NFC_H
#define RANK_DATA_NFC_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { RANK_NFC_GROWTH_MAX = 3 /* a text becomes that many times as long at most (U+1D160) */ };

/* Scratch, which grows to the longest text seen. */
typedef struct rank_nfc {
    int32_t *points; /* (point_room): a cluster's code points, */
    int32_t *sorted; /* (point_room), and marks in order */
    size_t point_room;
    uint8_t *text; /* (text_room) */
    size_t text_room;
} rank_nfc;

/* *normal is the text itself if nothing changes, else it stays valid until the next call. */
BASE_MUST_CHECK base_status rank_nfc_of(rank_nfc *nfc, const uint8_t *text, size_t text_bytes,
                                        const uint8_t **normal, size_t *normal_bytes,
                                        base_error *reterr);
void rank_nfc_fini(rank_nfc *nfc);

#endif
