/* Figures as an SVG file, which needs no other file: on a white page, with title, subtitle and keys. Pure. */
#ifndef CHART_PICTURE_H
#define CHART_PICTURE_H

#include "chart/figure.h"

typedef struct chart_picture {
    const char *title;                  /* escaped, as the next one is */
    const char *subtitle;               /* empty: none */
    const chart_figure *const *figures; /* under each other; one without points is left out */
    int figure_count;
} chart_picture;

/* Nothing if no figure has a point. */
void chart_picture_svg(base_buffer *text, const chart_picture *picture);

/* BASE_ERR_INVALID unless a picture may have this name, which ends with .svg. */
BASE_MUST_CHECK base_status chart_picture_name_check(const char *path, base_error *reterr);

#endif
