/* Writes a trace as a file: the picture alone, or a page to step through it. Called by sweep.c. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "chart/style.h"
#include "common/kinds.h"
#include "ringfence/coll_error.h"
#include "trace_draw.h"

static const char STYLE[] =
    ":root{color-scheme:light dark}"
    "body{margin:0 auto;max-width:1060px;padding:28px 20px 48px;background:var(--card);"
    "color:var(--ink);font:16px/1.5 system-ui,-apple-system,\"Segoe UI\",\"DejaVu "
    "Sans\",sans-serif}"
    "h1{font-size:24px;margin:0 0 6px}h2{font-size:18px;margin:26px 0 4px}"
    "p{margin:0 0 12px;max-width:78ch}.trace{display:block;width:100%;max-width:920px;height:auto}"
    ".steps{display:flex;flex-wrap:wrap;max-width:920px;gap:8px;align-items:center;margin:8px "
    "0}.steps[hidden]{display:none}"
    ".steps input{flex:1;min-width:160px}button{font:inherit;padding:3px 12px;min-width:5.2em}"
    "table{border-collapse:collapse;font-size:14px;margin:0 0 14px}"
    "caption{text-align:left;font-weight:600;padding:4px 0}"
    "th,td{text-align:left;padding:4px 16px 4px 0;border-top:1px solid var(--grid);"
    "vertical-align:top}thead th{border-top:0;color:var(--soft);font-weight:600}"
    "td,pre{font-family:ui-monospace,\"DejaVu Sans Mono\",Menlo,Consolas,monospace;font-size:13px}"
    "td:first-child{white-space:nowrap}"
    "@media(max-width:1000px){th,td{padding-right:8px}}"
    ".scroll,pre{overflow-x:auto}";

/* Buttons and the slider stop and wind the picture's own clock. Without script it plays by itself,
 * and all tables are shown. */
static const char SCRIPT[] =
    "const svg=document.querySelector('svg'),tables=[...document.querySelectorAll('table.round')],"
    "frames=tables.length,film=(frames+1)*S,at=document.getElementById('at'),"
    "play=document.getElementById('play');let until=null;"
    "const frame=()=>Math.min(frames-1,Math.floor(svg.getCurrentTime()%film/S+1e-4));"
    "const stop=t=>{svg.pauseAnimations();svg.setCurrentTime(t);until=null};"
    "const end=f=>(f+1)*S-.02;"
    "const next=()=>{const free=!svg.animationsPaused()&&until===null,"
    "f=free?frame():(frame()+1)%frames;"
    "if(!free)svg.setCurrentTime(f*S);until=end(f);svg.unpauseAnimations()};"
    "const back=()=>stop(end(Math.max(0,frame()-1)));"
    "const toggle=()=>{if(svg.animationsPaused()||until!==null){until=null;svg.unpauseAnimations()}"
    "else svg.pauseAnimations()};"
    "document.getElementById('back').onclick=back;document.getElementById('next').onclick=next;"
    "play.onclick=toggle;at.max=frames-1;at.oninput=()=>stop(end(+at.value));"
    "onkeydown=e=>{if(e.target===at)return;if(e.key==='ArrowRight')next();"
    "else if(e.key==='ArrowLeft')back();else if(e.key===' '&&e.target===document.body){toggle();"
    "e.preventDefault()}};"
    "const tick=()=>{if(until!==null&&svg.getCurrentTime()%film>=until)stop(until);"
    "const f=frame();at.value=f;tables.forEach((t,i)=>t.hidden=i!==f);"
    "play.textContent=svg.animationsPaused()||until!==null?'Play':'Pause';"
    "requestAnimationFrame(tick)};"
    "if(matchMedia('(prefers-reduced-motion: reduce)').matches)stop(end(1));"
    "document.querySelector('.steps').hidden=false;tick();";

static void put_tables(const trace_result *played, base_buffer *text)
{
    trace_line line;
    base_buffer_put(text, "<div class=\"scroll\">");
    for (int row = 0; row <= played->round_count; row++) {
        base_buffer_put(text, "<table class=\"round\"><caption>");
        base_buffer_printf(text, row == 0 ? "start" : "round %d", row - 1);
        base_buffer_put(text, "</caption><thead><tr><th></th><th>sends</th><th>receives</th>");
        for (int block = 0; block < played->block_count; block++) {
            base_buffer_printf(text, "<th>%c</th>", 'A' + block);
        }
        base_buffer_put(text, "</tr></thead><tbody>\n");
        for (int rank = 0; rank < played->plan.ranks; rank++) {
            trace_line_make(played, row, rank, &line);
            for (int i = 0; i < 3 + played->block_count; i++) {
                base_buffer_printf(text, "%s<td>%s</td>", i == 0 ? "<tr>" : "", line.text[i]);
            }
            base_buffer_put(text, "</tr>\n");
        }
        base_buffer_put(text, "</tbody></table>\n");
    }
    base_buffer_put(text, "</div>\n");
}

/* What each rank sends in all, in vectors, and what at least one must. */
static void put_sent(const trace_result *played, base_buffer *text)
{
    const int ranks = played->plan.ranks;
    int blocks[TRACE_RANKS_MAX] = {0};
    int most = 0;
    for (int i = 0; i < played->message_count; i++) {
        const trace_message *message = &played->messages[i];
        blocks[message->from] += message->block_count;
        most = blocks[message->from] > most ? blocks[message->from] : most;
    }
    base_buffer_put(text, "<h2>What is sent</h2>\n<p>");
    for (int rank = 0; rank < ranks; rank++) {
        base_buffer_printf(text, "%srank %d: %d block%s", rank == 0 ? "" : ", ", rank, blocks[rank],
                           blocks[rank] == 1 ? "" : "s");
    }
    if (played->block_count > 1) {
        base_buffer_printf(text, ". A block is 1/%d of the vector, so the", played->block_count);
    } else {
        base_buffer_put(text, ". A block is the whole vector. The");
    }
    base_buffer_printf(text, " busiest rank sends %.2f vectors.",
                       (double)most / played->block_count);
    if (played->plan.kind == COLL_ALL_REDUCE) {
        base_buffer_printf(text,
                           " In every all-reduce of %d ranks that is 2 (n-1)/n = %.2f at least.",
                           ranks, 2.0 * (ranks - 1) / ranks);
    }
    base_buffer_put(text, "</p>\n");
}

/* What is printed for people, between two pieces of HTML; nothing if it is empty. */
static void put_printed(const trace_result *played, void (*print)(const trace_result *, FILE *),
                        const char *before, const char *behind, base_buffer *text)
{
    char *words = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&words, &bytes);
    if (out != NULL) {
        print(played, out);
    }
    if (out == NULL || fclose(out) != 0) {
        text->failed = true;
    } else if (bytes > 0) {
        base_buffer_put(text, before);
        base_buffer_html(text, words);
        base_buffer_put(text, behind);
    }
    free(words);
}

/* How the picture is read. */
static void put_legend(const trace_result *played, base_buffer *text)
{
    const coll_kind kind = played->plan.kind;
    base_buffer_put(text,
                    "<p>A box is a rank, and a row in it a block of the vector. An arrow carries "
                    "the blocks that its label names.");
    if (coll_kind_reduces(kind)) {
        base_buffer_put(text, " A piece with the number k is in the row once rank k's part has "
                              "been added. Pale pieces are what the tables have in brackets.");
        base_buffer_put(text,
                        coll_kind_is_scan(kind) ? "" : " A sum that is complete has a frame.");
    }
    base_buffer_put(text, "</p>\n");
}

static void put_page(const trace_result *played, base_buffer *text)
{
    char title[TRACE_LINE_BYTES];
    trace_title(played, title);
    base_buffer_printf(text,
                       "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                       "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                       "<title>%s</title><style>%s%s%s</style></head>\n<body><h1>%s</h1>\n",
                       title, CHART_STYLE, TRACE_RULES, STYLE, title);
    put_legend(played, text);
    base_buffer_put(text, "<div class=\"steps\" hidden><button id=\"back\">Back</button><button "
                          "id=\"play\">Pause</button><button id=\"next\">Next</button><input "
                          "id=\"at\" type=\"range\" min=\"0\" aria-label=\"round\"></div>\n");
    trace_draw(played, NULL, text);
    put_tables(played, text);
    put_printed(played, trace_print_key, "<p>In the tables, ", "</p>\n", text);
    put_sent(played, text);
    put_printed(played, trace_print_sums, "<h2>In which order</h2>\n<pre>", "</pre>\n", text);
    base_buffer_printf(text, "<script>const S=%d;%s</script>\n</body></html>\n", TRACE_FRAME_S,
                       SCRIPT);
}

static void put_picture(const trace_result *played, base_buffer *text)
{
    base_buffer rules = {0};
    base_buffer with_names = {0};
    base_buffer_put(&with_names, TRACE_RULES);
    base_buffer_put(&with_names, ".page{fill:var(--card)}");
    if (!with_names.failed) {
        chart_style_put_light(&rules, with_names.data);
    }
    text->failed = text->failed || with_names.failed || rules.failed;
    if (!text->failed) {
        trace_draw(played, rules.data, text);
    }
    base_buffer_fini(&rules);
    base_buffer_fini(&with_names);
}

coll_status trace_draw_write(const trace_result *played, const char *path, coll_error *reterr)
{
    const char *ending = strrchr(path, '.');
    base_buffer text = {0};
    if (ending != NULL && strcmp(ending, ".html") == 0) {
        put_page(played, &text);
    } else {
        put_picture(played, &text);
    }
    const coll_status status =
        text.failed ? coll_fail(reterr, COLL_ERR_MEMORY, "no memory to draw %s", path)
                    : (coll_status)base_file_write(path, text.data, text.length_bytes,
                                                   base_error_of(reterr));
    base_buffer_fini(&text);
    return status;
}
