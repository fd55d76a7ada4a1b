/* Draws schedules. Called by simulate/main.c and cli/plan_command.c. */
#include "pipeline/picture.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"

enum { COLUMNS_MAX = 100 };

/* Of the SVG, in its own units. */
enum {
    WIDTH = 1000,
    LEFT = 70,
    RIGHT = 16,
    HEAD = 40,   /* above the first schedule: the legend, */
    LEGEND = 34, /* where a part has so much room, and more for each character */
    LEGEND_CHARACTER = 8,
    TITLE = 30,
    ROW = 24,
    BASELINE = 15, /* of a text, below the top of its row */
    GAP = 18,
    FOOT = 44,
    DIGIT = 7,     /* of a number in a task, */
    LABEL_MIN = 3, /* which needs so much room beside its digits */
};

/* How passes are drawn. */
static const struct {
    char mark;         /* of micro-batch 0, in text */
    const char *style; /* in the SVG */
    const char *name;
} pass_looks[PROTO_PIPELINE_PASSES] = {
    [PROTO_PIPELINE_FORWARD] = {'0', "f", "forward"},
    [PROTO_PIPELINE_BACKWARD] = {'a', "b", "backward"},
    [PROTO_PIPELINE_WEIGHTS] = {'A', "w", "weight gradients"},
};

static launch_pipeline_span span_of(const launch_pipeline_run *run, int stage, int index)
{
    const int tasks = proto_pipeline_tasks(&run->pipeline);
    return run->spans[(size_t)stage * (size_t)tasks + (size_t)index];
}

static int64_t shortest_ns(const launch_pipeline_run *run)
{
    const int count = run->pipeline.stages * proto_pipeline_tasks(&run->pipeline);
    int64_t shortest = run->result.step_ns;
    for (int i = 0; i < count; i++) {
        const int64_t took_ns = run->spans[i].end_ns - run->spans[i].begin_ns;
        shortest = took_ns < shortest ? took_ns : shortest;
    }
    return shortest;
}

int64_t launch_pipeline_column_ns(const launch_pipeline_run *run)
{
    const int64_t least = (run->result.step_ns + COLUMNS_MAX - 1) / COLUMNS_MAX;
    const int64_t shortest = shortest_ns(run);
    return shortest > least ? shortest : least;
}

void launch_pipeline_picture_text(const launch_pipeline_run *run, FILE *out)
{
    const int tasks = proto_pipeline_tasks(&run->pipeline);
    const int64_t column_ns = launch_pipeline_column_ns(run);
    for (int stage = 0; stage < run->pipeline.stages; stage++) {
        int index = 0;
        (void)fprintf(out, "  stage %-2d |", stage);
        for (int64_t at = column_ns / 2; at < run->result.step_ns; at += column_ns) {
            while (index < tasks && span_of(run, stage, index).end_ns <= at) {
                index++;
            }
            char mark = '.';
            if (index < tasks && span_of(run, stage, index).begin_ns <= at) {
                const proto_pipeline_task task =
                    proto_pipeline_task_at(&run->pipeline, stage, index);
                mark = (char)(pass_looks[task.pass].mark + task.micro_batch % 10);
            }
            (void)fputc(mark, out);
        }
        (void)fputs("|\n", out);
    }
}

static double place(int64_t at_ns, int64_t longest_ns)
{
    return LEFT + (double)at_ns / (double)longest_ns * (WIDTH - LEFT - RIGHT);
}

static void svg_task(const launch_pipeline_run *run, int stage, int index, double y,
                     int64_t longest_ns, FILE *out)
{
    const proto_pipeline_task task = proto_pipeline_task_at(&run->pipeline, stage, index);
    const launch_pipeline_span span = span_of(run, stage, index);
    const double x = place(span.begin_ns, longest_ns);
    const double width = place(span.end_ns, longest_ns) - x;
    (void)fprintf(out,
                  "<rect class=\"%s%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\">"
                  "<title>stage %d, %s of micro-batch %d, chunk %d: %.3f to %.3f ms</title>"
                  "</rect>\n",
                  pass_looks[task.pass].style, task.chunk % 2 == 0 ? "" : " odd", x, y, width,
                  ROW - 2, stage, pass_looks[task.pass].name, task.micro_batch, task.chunk,
                  (double)span.begin_ns / 1e6, (double)span.end_ns / 1e6);
    char number[16];
    const int digits = snprintf(number, sizeof number, "%d", task.micro_batch);
    if (width >= LABEL_MIN + DIGIT * digits) {
        (void)fprintf(out, "<text class=\"in\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x + width / 2,
                      y + BASELINE, number);
    }
}

/* Returns where the next schedule begins. */
static double svg_run(const launch_pipeline_run *run, double top, int64_t longest_ns, FILE *out)
{
    const proto_pipeline *pipeline = &run->pipeline;
    (void)fprintf(
        out,
        "<text x=\"%d\" y=\"%.1f\"><tspan class=\"name\">%s</tspan>  step %.4g ms, bubble "
        "%.1f %%, messages %lld</text>\n",
        LEFT, top + 19, proto_pipeline_name(pipeline->kind), (double)run->result.step_ns / 1e6,
        100 * run->result.bubble, (long long)run->result.messages);
    top += TITLE;
    for (int stage = 0; stage < pipeline->stages; stage++) {
        const double y = top + (double)stage * ROW;
        (void)fprintf(out,
                      "<text class=\"soft end\" x=\"%d\" y=\"%.1f\">stage %d</text>\n"
                      "<rect class=\"idle\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>\n",
                      LEFT - 8, y + BASELINE, stage, LEFT, y,
                      place(run->result.step_ns, longest_ns) - LEFT, ROW - 2);
        for (int index = 0; index < proto_pipeline_tasks(pipeline); index++) {
            svg_task(run, stage, index, y, longest_ns, out);
        }
    }
    return top + (double)pipeline->stages * ROW + GAP;
}

static void svg_legend_part(const char *style, const char *text, int *x, FILE *out)
{
    (void)fprintf(out,
                  "<rect class=\"%s\" x=\"%d\" y=\"14\" width=\"14\" height=\"14\"/>"
                  "<text x=\"%d\" y=\"26\">%s</text>\n",
                  style, *x, *x + 20, text);
    *x += LEGEND + LEGEND_CHARACTER * (int)strlen(text);
}

static void svg_legend(bool splits, FILE *out)
{
    int x = LEFT;
    for (int pass = 0; pass < (splits ? PROTO_PIPELINE_PASSES : PROTO_PIPELINE_WEIGHTS); pass++) {
        svg_legend_part(pass_looks[pass].style, pass_looks[pass].name, &x, out);
    }
    svg_legend_part("idle", "idle: the bubble", &x, out);
    (void)fprintf(
        out,
        "<text class=\"soft\" x=\"%d\" y=\"26\">the number is the micro-batch; odd chunks "
        "are paler</text>\n",
        x);
}

/* Ticks at a round number of milliseconds, at most ten of them. */
static void svg_axis(double y, int64_t longest_ns, FILE *out)
{
    const double longest_ms = (double)longest_ns / 1e6;
    double step_ms = 1e-6;
    for (int i = 0; longest_ms / step_ms > 10; i++) {
        step_ms *= i % 3 == 1 ? 2.5 : 2; /* 1 2 5 10 20 50 … */
    }
    for (int i = 0; i * step_ms <= longest_ms; i++) {
        const double x = place((int64_t)(i * step_ms * 1e6), longest_ns);
        (void)fprintf(out,
                      "<path class=\"line\" d=\"M%.1f %.1fv5\"/>"
                      "<text class=\"soft mid\" x=\"%.1f\" y=\"%.1f\">%g</text>\n",
                      x, y, x, y + 19, i * step_ms);
    }
    (void)fprintf(out,
                  "<path class=\"line\" d=\"M%d %.1fH%d\"/>"
                  "<text class=\"soft mid\" x=\"%d\" y=\"%.1f\">ms since the step began</text>\n",
                  LEFT, y, WIDTH - RIGHT, (LEFT + WIDTH - RIGHT) / 2, y + 36);
}

void launch_pipeline_picture_svg(const launch_pipeline_run *runs, int count, FILE *out)
{
    int64_t longest_ns = 1;
    int height = HEAD + FOOT;
    bool splits = false;
    for (int i = 0; i < count; i++) {
        const int64_t step_ns = runs[i].result.step_ns;
        longest_ns = step_ns > longest_ns ? step_ns : longest_ns;
        splits = splits || proto_pipeline_splits(&runs[i].pipeline);
        height += TITLE + runs[i].pipeline.stages * ROW + GAP;
    }
    (void)fprintf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                  "font-family=\"system-ui,'DejaVu Sans',sans-serif\" font-size=\"14\">\n<style>",
                  WIDTH, height);
    (void)fputs(
        "text{fill:#16202c}.page{fill:#fff}.soft{fill:#5c6877;font-size:13px}.name{font-weight:600}"
        ".end{text-anchor:end}.mid,.in{text-anchor:middle}.in{fill:#fff;font-size:12px;"
        "stroke:#0007;stroke-width:2px;paint-order:stroke}"
        ".f{fill:#88b0e7}.b{fill:#3f7fd9}.w{fill:#3f9d78}.odd{fill-opacity:.78}.idle{fill:#e9edf1}"
        ".line{stroke:#98a3b0;fill:none}rect.f,rect.b,rect.w{stroke:#fff;stroke-width:1}"
        "@media(prefers-color-scheme:dark){text{fill:#e6ebf0}.page{fill:#10151b}"
        ".soft{fill:#9aa7b4}.in{fill:#fff}.idle{fill:#2b3641}rect.f,rect.b,rect.w{stroke:#10151b}}"
        "</style>\n",
        out);
    (void)fprintf(out, "<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n", WIDTH, height);
    svg_legend(splits, out);
    double top = HEAD;
    for (int i = 0; i < count; i++) {
        top = svg_run(&runs[i], top, longest_ns, out);
    }
    svg_axis(top - GAP / 2.0, longest_ns, out);
    (void)fputs("</svg>\n", out);
}

base_status launch_pipeline_picture_write(const launch_pipeline_run *runs, int count,
                                          const char *path, base_error *reterr)
{
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        return base_fail_errno(reterr, errno, "cannot write %s", path);
    }
    launch_pipeline_picture_svg(runs, count, file);
    const bool whole = ferror(file) == 0;
    if (fclose(file) != 0 || !whole) {
        return base_fail(reterr, BASE_ERR_IO, "cannot write all of %s", path);
    }
    return BASE_OK;
}

base_status launch_pipeline_picture_check(const char *path, base_error *reterr)
{
    const char *ending = strrchr(path, '.');
    if (ending == NULL || strcmp(ending, ".svg") != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--plot: %s: a picture's name must end with .svg", path);
    }
    const base_status status = base_file_check_writable(path, reterr);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "--plot");
}
