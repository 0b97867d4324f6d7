/* Plots loss and metric over the steps. */
#include "train/history.h"

#include "base/decimal.h"
#include "proto/writer.h"

#include <math.h>
#include <stdio.h>

enum {
    WIDTH = 760,
    PANEL = 260, /* height of a panel with title and axis labels */
    LEFT = 70,
    RIGHT = 20,
    TOP = 34,
    BOTTOM = 40,
    HEAD = 34, /* the picture's title */
    TICKS = 6,
    SMOOTHED = 50 /* parts that the width has when a line is smoothed */
};

typedef struct axis {
    double low, high, step; /* of numbers, or of their decimal logarithms; step between ticks */
    bool logarithmic;
} axis;

typedef struct panel {
    xcvm_writer *w;
    axis x, y;
    double left, top, width, height;
} panel;

/* ---- Numbers ---- */

static void put_decimal(xcvm_writer *w, double value, int precision)
{
    char text[XCVM_DECIMAL_TEXT];
    xcvm_writer_text(w, xcvm_decimal_text(value, precision, text));
}

/* Coordinates, in tenths of a pixel. */
static void put_place(xcvm_writer *w, double value) { put_decimal(w, round(value * 10) / 10, 6); }

static void put_attribute(xcvm_writer *w, const char *name, double value)
{
    xcvm_writer_format(w, " %s=\"", name);
    put_place(w, value);
    xcvm_writer_text(w, "\"");
}

/* Returns the smallest number of the form 1, 2 or 5 times a power of ten that is at least `least`. */
static double round_step(double least)
{
    const double power = pow(10, floor(log10(least)));
    const double part = least / power;
    return power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

/* A range without ticks, such as one of the largest numbers, is replaced by 0 to 1. */
static void choose_axis_range(axis *a, double low, double high)
{
    if (!(high > low)) {
        const double half = fabs(low) > 0 ? fabs(low) / 2 : 0.5;
        low -= half;
        high += half;
    }
    a->step = round_step((high - low) / TICKS);
    a->low = floor(low / a->step) * a->step;
    a->high = ceil(high / a->step) * a->step;
    const double rows = (a->high - a->low) / a->step;
    if (!(rows >= 1 && rows <= 4 * TICKS))
        *a = (axis){.low = 0, .high = 1, .step = 0.2, .logarithmic = a->logarithmic};
}

/* ---- Lines ---- */

static double place_x(const panel *p, double step)
{
    return p->left + (step - p->x.low) / (p->x.high - p->x.low) * p->width;
}

static double place_y(const panel *p, double value)
{
    const double at = p->y.logarithmic ? log10(value) : value;
    const double part = (at - p->y.low) / (p->y.high - p->y.low);
    return p->top + p->height - fmin(fmax(part, 0), 1) * p->height;
}

/* A moving average over a fiftieth of the points on each side, if there are many. */
static double smooth(const xct_series *s, size_t at)
{
    const size_t reach = s->count / SMOOTHED / 2;
    const size_t from = at > reach ? at - reach : 0, to = at + reach < s->count ? at + reach : s->count - 1;
    double sum = 0;
    for (size_t i = from; i <= to; i++)
        sum += s->value[i];
    return sum / (double)(to - from + 1);
}

static void draw_line(const panel *p, const xct_series *s, const char *class, bool smoothed)
{
    if (s->count == 0)
        return;
    xcvm_writer_format(p->w, "<polyline class=\"%s\" points=\"", class);
    for (size_t i = 0; i < s->count; i++) {
        put_place(p->w, place_x(p, s->step[i]));
        xcvm_writer_text(p->w, ",");
        put_place(p->w, place_y(p, smoothed ? smooth(s, i) : s->value[i]));
        xcvm_writer_text(p->w, i + 1 < s->count ? " " : "\"/>\n");
    }
}

static void draw_points(const panel *p, const xct_series *s)
{
    for (size_t i = 0; i < s->count && s->count <= 200; i++) {
        xcvm_writer_text(p->w, "<circle class=\"held\"");
        put_attribute(p->w, "cx", place_x(p, s->step[i]));
        put_attribute(p->w, "cy", place_y(p, s->value[i]));
        xcvm_writer_text(p->w, " r=\"2.5\"/>\n");
    }
}

/* ---- Axes ---- */

static void draw_text(const panel *p, double x, double y, const char *anchor, const char *class, const char *text)
{
    xcvm_writer_format(p->w, "<text class=\"%s\" text-anchor=\"%s\"", class, anchor);
    put_attribute(p->w, "x", x);
    put_attribute(p->w, "y", y);
    xcvm_writer_text(p->w, ">");
    for (; *text != '\0'; text++) {
        const char *escaped = *text == '<' ? "&lt;" : *text == '&' ? "&amp;" : NULL;
        if (escaped != NULL)
            xcvm_writer_text(p->w, escaped);
        else if ((unsigned char)*text >= ' ')
            xcvm_writer_put(p->w, text, 1);
    }
    xcvm_writer_text(p->w, "</text>\n");
}

static void draw_grid(const panel *p, double x1, double y1, double x2, double y2)
{
    xcvm_writer_text(p->w, "<line class=\"grid\"");
    put_attribute(p->w, "x1", x1);
    put_attribute(p->w, "y1", y1);
    put_attribute(p->w, "x2", x2);
    put_attribute(p->w, "y2", y2);
    xcvm_writer_text(p->w, "/>\n");
}

static void draw_axes(const panel *p)
{
    char text[XCVM_DECIMAL_TEXT];
    const int rows = (int)round((p->y.high - p->y.low) / p->y.step);
    for (int i = 0; i <= rows; i++) {
        const double at = p->y.low + i * p->y.step, value = p->y.logarithmic ? pow(10, at) : at;
        const double y = p->top + p->height * (1 - (double)i / rows);
        draw_grid(p, p->left, y, p->left + p->width, y);
        if (isfinite(value)) /* the power of ten above the greatest number is not */
            draw_text(p, p->left - 8, y + 4, "end", "tick",
                      xcvm_decimal_text(fabs(value) < p->y.step * 1e-9 && !p->y.logarithmic ? 0 : value,
                                        p->y.logarithmic ? 2 : 3, text));
    }
    const int columns = (int)round((p->x.high - p->x.low) / p->x.step);
    for (int i = 0; i <= columns; i++) {
        const double x = p->left + p->width * (double)i / columns;
        draw_grid(p, x, p->top, x, p->top + p->height);
        draw_text(p, x, p->top + p->height + 16, "middle", "tick",
                  xcvm_decimal_text(p->x.low + i * p->x.step, 9, text));
    }
    draw_text(p, p->left + p->width, p->top + p->height + 32, "end", "tick", "step");
}

/* ---- Panels ---- */

static void extend(const xct_series *s, double *low, double *high)
{
    for (size_t i = 0; i < s->count; i++) {
        *low = fmin(*low, s->value[i]);
        *high = fmax(*high, s->value[i]);
    }
}

static double last_step(const xct_history *h)
{
    double last = 1;
    for (size_t i = 0; i <= h->columns.metric_count; i++) {
        if (h->figures[i].count > 0)
            last = fmax(last, h->figures[i].step[h->figures[i].count - 1]);
        if (h->validation[i].count > 0)
            last = fmax(last, h->validation[i].step[h->validation[i].count - 1]);
    }
    return last;
}

static void draw_legend(const panel *p, bool validation)
{
    const double y = p->top - 10;
    double x = p->left + p->width - (validation ? 190 : 80);
    static const char *const names[] = {"training", "validation"}, *const classes[] = {"learn", "held line"};
    for (int i = 0; i <= (int)validation; i++, x += 100) {
        xcvm_writer_format(p->w, "<line class=\"%s\"", classes[i]);
        put_attribute(p->w, "x1", x);
        put_attribute(p->w, "x2", x + 18);
        put_attribute(p->w, "y1", y - 4);
        put_attribute(p->w, "y2", y - 4);
        xcvm_writer_text(p->w, "/>\n");
        draw_text(p, x + 24, y, "start", "tick", names[i]);
    }
}

static void draw_panel(xcvm_writer *w, const xct_history *h, size_t figure, double top)
{
    const xct_series *learn = &h->figures[figure], *held = &h->validation[figure];
    panel p = {.w = w, .left = LEFT, .top = top + TOP, .width = WIDTH - LEFT - RIGHT, .height = PANEL - TOP - BOTTOM};
    double low = INFINITY, high = -INFINITY;
    extend(learn, &low, &high);
    extend(held, &low, &high);
    if (!(high >= low)) {
        low = 0;
        high = 1;
    }
    /* A linear axis would flatten the low end of more than two powers of ten. */
    p.y.logarithmic = low > 0 && high / low > 100;
    choose_axis_range(&p.x, 0, last_step(h));
    choose_axis_range(&p.y, p.y.logarithmic ? log10(low) : low, p.y.logarithmic ? log10(high) : high);
    draw_text(&p, p.left, p.top - 10, "start", "name",
              figure == 0 ? "loss" : xct_metric_name(h->columns.metrics[figure - 1]));
    draw_legend(&p, held->count > 0);
    draw_axes(&p);
    draw_line(&p, learn, "raw", false);
    draw_line(&p, learn, "learn", true);
    draw_line(&p, held, "held line", false);
    draw_points(&p, held);
}

/* Colors are repeated, since not every SVG renderer supports variables. */
static const char style[] =
    "<style>\n"
    "text { font: 12px system-ui, sans-serif; fill: #24292f } text.title { font-size: 15px; font-weight: 600 } "
    "text.name { font-weight: 600 } text.tick { font-size: 11px }\n"
    ".ground { fill: #ffffff } .grid { stroke: #d0d7de; stroke-width: 1 } polyline { fill: none }\n"
    ".raw { stroke: #0b62c4; stroke-width: 1; opacity: 0.3 } .learn { stroke: #0b62c4; stroke-width: 2 } "
    ".line { stroke: #c2510a; stroke-width: 2 } circle.held { fill: #c2510a }\n"
    "@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .ground { fill: #0d1117 } .grid { stroke: #30363d } "
    ".raw, .learn { stroke: #58a6ff } .line { stroke: #f0883e } circle.held { fill: #f0883e } }\n"
    "</style>\n";

xcvm_status xct_curve_write(const xct_history *h, const char *title, xcvm_sink sink, xcvm_error *error)
{
    const bool metric = h->columns.metric_count > 0 && (h->figures[1].count > 0 || h->validation[1].count > 0);
    const int height = HEAD + PANEL * (metric ? 2 : 1);
    xcvm_writer w;
    xcvm_writer_start(&w, sink);
    xcvm_writer_format(&w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" ", WIDTH, height);
    xcvm_writer_format(&w, "viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH, height);
    xcvm_writer_text(&w, style);
    xcvm_writer_format(&w, "<rect class=\"ground\" width=\"%d\" height=\"%d\"/>\n", WIDTH, height);
    const panel whole = {.w = &w};
    draw_text(&whole, LEFT, 24, "start", "title", title);
    draw_panel(&w, h, 0, HEAD);
    if (metric)
        draw_panel(&w, h, 1, HEAD + PANEL);
    xcvm_writer_text(&w, "</svg>\n");
    return xcvm_writer_finish(&w, error);
}
