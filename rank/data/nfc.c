/* Normal form C. Called by hub.c.
 *
 * A text is cut into clusters. Each begins with a character below U+0300, with U+11A7, or at bytes
 * that are no UTF-8: no mark moves across such a place, and nothing is joined across it. utf8proc decomposes
 * a cluster and composes it again. Its own ordering of marks takes quadratic time, so they are
 * ordered here. */
#include "nfc.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/grow.h"

enum {
    FIRST_CHANGED = 0x300, /* characters below it are in normal form, and begin a cluster */
    FIRST_BYTE = 0xcc,     /* theirs in UTF-8 is below it */
    ROOM_MIN = 256,
    BEFORE_FINALS = 0x11a7, /* Hangul: never joined to what is before, but by utf8proc 2.8 */
    POINTS_MAX = 18,        /* of one decomposed character; without compatibility there are 4 */
    UTF8_MAX = 4,
    CLASSES = 256,
};

static const utf8proc_option_t COMPOSED = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
static const utf8proc_option_t DECOMPOSED = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;

static unsigned mark_class(int32_t point)
{
    return (uint8_t)utf8proc_get_property(point)->combining_class;
}

/* Orders marks by their class; those of one class stay in their order. */
static void sort_marks(int32_t *marks, int32_t *sorted, size_t count)
{
    size_t begins[CLASSES + 1] = {0};
    for (size_t i = 0; i < count; i++) {
        begins[mark_class(marks[i]) + 1]++;
    }
    for (size_t i = 0; i < CLASSES; i++) {
        begins[i + 1] += begins[i];
    }
    for (size_t i = 0; i < count; i++) {
        sorted[begins[mark_class(marks[i])]++] = marks[i];
    }
    memcpy(marks, sorted, count * sizeof *marks);
}

/* Orders each run of marks. Class 0 is no mark. */
static void sort_cluster(const rank_nfc *nfc, size_t count)
{
    size_t end = 0;
    for (size_t begin = 0; begin < count; begin = end + 1) {
        unsigned last = 0;
        bool ordered = true;
        for (end = begin; end < count; end++) {
            const unsigned class = mark_class(nfc->points[end]);
            if (class == 0) {
                break;
            }
            ordered = ordered && class >= last;
            last = class;
        }
        if (!ordered) {
            sort_marks(nfc->points + begin, nfc->sorted, end - begin);
        }
    }
}

/* Appends the cluster's normal form to the text, which has room for it. */
static void end_cluster(rank_nfc *nfc, size_t *count, size_t *used)
{
    utf8proc_ssize_t left = (utf8proc_ssize_t)*count;
    if (left > 1) {
        sort_cluster(nfc, *count);
        left = utf8proc_normalize_utf32(nfc->points, left, COMPOSED);
    }
    for (utf8proc_ssize_t i = 0; i < left; i++) {
        *used += (size_t)utf8proc_encode_char(nfc->points[i], nfc->text + *used);
    }
    *count = 0;
}

static base_status make_points(rank_nfc *nfc, size_t needed, base_error *reterr)
{
    size_t room = nfc->point_room;
    int32_t *points = base_reserve(nfc->points, 0, needed, &room, ROOM_MIN, sizeof *points);
    nfc->points = points != NULL ? points : nfc->points;
    room = nfc->point_room;
    int32_t *sorted = base_reserve(nfc->sorted, 0, needed, &room, ROOM_MIN, sizeof *sorted);
    nfc->sorted = sorted != NULL ? sorted : nfc->sorted;
    if (points == NULL || sorted == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to normalise %zu characters", needed);
    }
    nfc->point_room = room;
    return BASE_OK;
}

static base_status make_text(rank_nfc *nfc, size_t needed, base_error *reterr)
{
    if (needed <= nfc->text_room) {
        return BASE_OK;
    }
    uint8_t *text = realloc(nfc->text, needed);
    if (text == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to normalise a text of %zu bytes",
                         needed);
    }
    nfc->text = text;
    nfc->text_room = needed;
    return BASE_OK;
}

/* Whether all characters are below FIRST_CHANGED. */
static bool is_plain(const uint8_t *text, size_t text_bytes)
{
    for (size_t i = 0; i < text_bytes; i++) {
        if (text[i] >= FIRST_BYTE) {
            return false;
        }
    }
    return true;
}

base_status rank_nfc_of(rank_nfc *nfc, const uint8_t *text, size_t text_bytes,
                        const uint8_t **normal, size_t *normal_bytes, base_error *reterr)
{
    size_t used = 0;
    size_t count = 0;
    *normal = text;
    *normal_bytes = text_bytes;
    if (is_plain(text, text_bytes)) {
        return BASE_OK;
    }
    base_status status = make_text(nfc, RANK_NFC_GROWTH_MAX * text_bytes + UTF8_MAX, reterr);
    for (size_t at = 0; status == BASE_OK && at < text_bytes;) {
        int32_t point = 0;
        const utf8proc_ssize_t taken =
            utf8proc_iterate(text + at, (utf8proc_ssize_t)(text_bytes - at), &point);
        if (taken <= 0 || point < FIRST_CHANGED || point == BEFORE_FINALS) {
            end_cluster(nfc, &count, &used);
        }
        if (taken <= 0) {
            nfc->text[used++] = text[at++];
            continue;
        }
        status = make_points(nfc, count + POINTS_MAX, reterr);
        if (status == BASE_OK) {
            count += (size_t)utf8proc_decompose_char(point, nfc->points + count, POINTS_MAX,
                                                     DECOMPOSED, NULL);
        }
        at += (size_t)taken;
    }
    if (status == BASE_OK) {
        end_cluster(nfc, &count, &used);
        *normal = nfc->text;
        *normal_bytes = used;
    }
    return status;
}

void rank_nfc_fini(rank_nfc *nfc)
{
    free(nfc->points);
    free(nfc->sorted);
    free(nfc->text);
    *nfc = (rank_nfc){.points = NULL};
}
