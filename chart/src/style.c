/* The style sheet of charts. Used by picture.c for files, by the launcher's reports for pages. */
#include "chart/style.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define LIGHT                                                                                      \
    "--card:#fff;--ink:#16202c;--soft:#5c6877;--grid:#e9edf1;--accent:#2f6fd0;--good:#18794e;"     \
    "--compute:#3f7fd9;--inner:#1b2a6b;--overlapped:#0b5351;--exchange:#d9483b;--waiting:#f0938a;" \
    "--optimizer:#d99a1c;--other:#98a3b0;"
#define DARK                                                                                       \
    "--card:#182028;--ink:#e6ebf0;--soft:#9aa7b4;--grid:#25303a;--accent:#6ea8ff;--good:#5fd39b;"  \
    "--compute:#4d8de8;--inner:#1e4fa3;--overlapped:#7fe0d0;--exchange:#e8604f;--waiting:#b0564c;" \
    "--optimizer:#d9a534;--other:#6c7987;"
#define RULES                                                                                      \
    ".chart text{font-size:13px;fill:var(--ink)}"                                                  \
    ".chart .tick,.chart .label{fill:var(--soft)}"                                                 \
    ".chart .inside{fill:#fff;stroke:#0007;stroke-width:2px;paint-order:stroke}.chart "            \
    ".title{font-size:17px}"                                                                       \
    ".chart .inside,.chart .title,.chart .value,.chart .row{font-weight:600}"                      \
    ".chart .value{paint-order:stroke;stroke:var(--card);stroke-width:5px;stroke-linejoin:round}"  \
    ".grid{stroke:var(--grid)}.axis{stroke:var(--soft);opacity:.6}"                                \
    ".hint{fill:var(--ink);fill-opacity:0}.hint:hover{fill-opacity:.12}"                           \
    ".curve{fill:none;stroke:currentColor;stroke-width:2.5;stroke-linejoin:round}"                 \
    ".curve.faint{stroke-width:1;opacity:.4}.curve.dash{stroke-width:1.5;stroke-dasharray:6 5}"    \
    ".point{fill:currentColor;stroke:var(--card);stroke-width:2}"                                  \
    ".spread{stroke:currentColor;stroke-width:2;opacity:.6}"                                       \
    ".divide{stroke:var(--ink);stroke-dasharray:3 3;opacity:.6}"                                   \
    ".part{fill:currentColor}"

const char CHART_STYLE[] =
    ":root{" LIGHT "}@media(prefers-color-scheme:dark){:root{" DARK "}}" RULES;
const char CHART_RULES[] = RULES;

void chart_style_put_light(base_buffer *text, const char *with_names)
{
    const char *name = NULL;
    while ((name = strstr(with_names, "var(--")) != NULL) {
        char property[32];
        const size_t length = strcspn(name, ")") - strlen("var(");
        (void)snprintf(property, sizeof property, "%.*s:#", (int)length, name + strlen("var("));
        const char *colour = strstr(LIGHT, property);
        BASE_ASSERT(colour != NULL);
        colour += strlen(property) - 1;
        base_buffer_printf(text, "%.*s%.*s", (int)(name - with_names), with_names,
                           (int)strcspn(colour, ";"), colour);
        with_names = name + strcspn(name, ")") + 1;
    }
    base_buffer_put(text, with_names);
}
