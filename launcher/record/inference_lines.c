/* The lines that the launcher prints of a comparison and of a curve. Called by inference.c. */
#include <math.h>

#include "record/inference_lesson.h"

static void put_ms(launch_text *text, double ms)
{
    launch_text_number(text, ms, ms < 1 ? 3 : 2);
    launch_text_put(text, " ms");
}

static void put_comparison(const launch_inference_figures *of, launch_text *lines)
{
    launch_text_put(lines, "a token of a text: ");
    put_ms(lines, of->tp.per_token_ms.median);
    launch_text_printf(lines, " on %d ranks, ", of->rank_count);
    put_ms(lines, of->single.per_token_ms.median);
    launch_text_put(lines, " on one (");
    launch_text_number(lines, of->speedup, 2);
    launch_text_printf(lines, " x, %d %s); replicas ", of->rounds,
                       of->rounds == 1 ? "round" : "rounds");
    launch_text_number(lines, of->replicas.tokens_per_s.median, 0);
    launch_text_put(lines, " tokens/s, together ");
    launch_text_number(lines, of->tp.tokens_per_s.median, 0);
    launch_text_put(lines, "\n");
}

static void put_curve(const launch_curve *curve, launch_text *lines)
{
    bool any = false;
    for (int i = 0; i < curve->point_count; i++) {
        const launch_curve_point *point = &curve->points[i];
        if (isfinite(point->single_ms) && isfinite(point->tp_ms)) {
            launch_text_printf(lines, "%s%.0f: %.2f x", any ? ", " : "d_model ", point->d_model,
                               point->single_ms / point->tp_ms);
            any = true;
        }
    }
    launch_text_put(lines, any ? "\n" : "");
}

void launch_inference_lines(const launch_inference_figures *figures, const json_t *results,
                            launch_text *lines)
{
    const char *reason = json_string_value(json_object_get(results, "baseline_null_because"));
    if (figures->rounds > 0) {
        put_comparison(figures, lines);
    } else if (reason != NULL) {
        launch_text_printf(lines, "nothing was compared: %s\n", reason);
    }
    put_curve(&figures->curve, lines);
}
