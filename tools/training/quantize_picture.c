/* Bars of signal to quantization noise. */
#include "training/quantize_picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 900, LABELS = 360, RIGHT = 60, ROW = 16, HEAD = 64, FOOT = 16, MOST_ROWS = 400, TICK = 10 };

static void put_escaped(struct buffer *svg, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '<' || *text == '&')
            buffer_text(svg, *text == '<' ? "&lt;" : "&amp;");
        else if ((unsigned char)*text >= ' ')
            buffer_append(svg, text, 1);
}

/* Numbers with a point for the decimals, whatever the locale: of whole tenths. */
static void put_tenths(struct buffer *svg, double x)
{
    const long tenths = lround(fmin(fmax(x, -1e6), 1e6) * 10);
    buffer_format(svg, "%s%ld.%ld", tenths < 0 ? "-" : "", labs(tenths) / 10, labs(tenths) % 10);
}

static void put_text(struct buffer *svg, int x, int y, const char *anchor, const char *class, const char *text)
{
    buffer_format(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, class);
    put_escaped(svg, text);
    buffer_text(svg, "</text>\n");
}

void quantize_picture(struct buffer *svg, const xcc_quantizer *quantizer, const char *title)
{
    size_t rows = 0;
    double most = TICK;
    const xcc_quantizer_tensor_info *x;
    for (; rows < MOST_ROWS && (x = xcc_quantizer_tensor_at(quantizer, rows)) != NULL; rows++)
        if (isfinite(x->sqnr))
            most = fmax(most, x->sqnr);
    const int scale_end = (int)(ceil(most / TICK) * TICK), span = WIDTH - LABELS - RIGHT,
              height = HEAD + (int)rows * ROW + FOOT;
    buffer_format(svg,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                  "font-family=\"sans-serif\" font-size=\"11\">\n",
                  WIDTH, height, WIDTH, height);
    buffer_text(svg, "<style>.title{font-size:15px}.name{fill:#333}.tick{fill:#777}.bar{fill:#3b7dd8}.bad{fill:#d1495b}"
                     ".grid{stroke:#ddd}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
    put_text(svg, 16, 24, "start", "title", title);
    put_text(svg, WIDTH - 16, 24, "end", "tick", "signal to quantization noise, dB; worst first, red below 20");
    for (int tick = 0; tick <= scale_end; tick += TICK) {
        const int at = LABELS + span * tick / scale_end;
        char text[16];
        snprintf(text, sizeof text, "%d", tick);
        buffer_format(svg, "<line class=\"grid\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", at, HEAD - 8, at,
                      height - FOOT);
        put_text(svg, at, HEAD - 14, "middle", "tick", text);
    }
    for (size_t i = 0; i < rows; i++) {
        x = xcc_quantizer_tensor_at(quantizer, i);
        const int y = HEAD + (int)i * ROW;
        const double decibels = isfinite(x->sqnr) ? fmax(x->sqnr, 0) : scale_end;
        char name[48];
        snprintf(name, sizeof name, "%.47s", x->name);
        put_text(svg, LABELS - 8, y + 10, "end", "name", name);
        buffer_format(svg, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"", x->sqnr < 20 ? "bad" : "bar", LABELS, y);
        put_tenths(svg, span * decibels / scale_end);
        buffer_format(svg, "\" height=\"%d\"/>\n<text class=\"tick\" x=\"%d\" y=\"%d\">", ROW - 4,
                      LABELS + (int)(span * decibels / scale_end) + 4, y + 10);
        put_tenths(svg, x->sqnr);
        buffer_text(svg, "</text>\n");
    }
    buffer_text(svg, "</svg>\n");
}
