/* The lines that the launcher prints of a comparison and of a curve. Called by inference.c. */
#include <math.h>

#include "record/inference_lesson.h"

static void put_ms(base_buffer *text, double ms)
{
    base_buffer_number(text, ms, ms < 1 ? 3 : 2);
    base_buffer_put(text, " ms");
}

static void put_comparison(const launch_inference_figures *of, base_buffer *lines)
{
    base_buffer_put(lines, "a token of a text: ");
    put_ms(lines, of->tp.per_token_ms.median);
    base_buffer_printf(lines, " on %d ranks, ", of->rank_count);
    put_ms(lines, of->single.per_token_ms.median);
    base_buffer_put(lines, " on one (");
    base_buffer_number(lines, of->speedup, 2);
    base_buffer_printf(lines, " x, %d %s); replicas ", of->rounds,
                       of->rounds == 1 ? "round" : "rounds");
    base_buffer_number(lines, of->replicas.tokens_per_s.median, 0);
    base_buffer_put(lines, " tokens/s, together ");
    base_buffer_number(lines, of->tp.tokens_per_s.median, 0);
    base_buffer_put(lines, "\n");
}

static void put_curve(const launch_curve *curve, base_buffer *lines)
{
    bool any = false;
    for (int i = 0; i < curve->point_count; i++) {
        const launch_curve_point *point = &curve->points[i];
        if (isfinite(point->single_ms) && isfinite(point->tp_ms)) {
            base_buffer_printf(lines, "%s%.0f: %.2f x", any ? ", " : "d_model ", point->d_model,
                               point->single_ms / point->tp_ms);
            any = true;
        }
    }
    base_buffer_put(lines, any ? "\n" : "");
}

void launch_inference_lines(const launch_inference_figures *figures, const json_t *results,
                            base_buffer *lines)
{
    const char *reason = json_string_value(json_object_get(results, "baseline_null_because"));
    if (figures->rounds > 0) {
        put_comparison(figures, lines);
    } else if (reason != NULL) {
        base_buffer_printf(lines, "nothing was compared: %s\n", reason);
    }
    put_curve(&figures->curve, lines);
}
