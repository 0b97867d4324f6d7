/* Schedules. */
#include "train/schedule.h"
#include "xcvm/train.h"

#include <math.h>

/* Every kind starts with a linear warm-up from 0. */
#define WARM_UP                                                                                                        \
    {                                                                                                                  \
        "warmup", "0", XCT_STEPS, 0, 0                                                                                 \
    }
enum { WARM_UP_STEPS };

static double constant(const double *v, double step, double all)
{
    (void)v;
    (void)step;
    (void)all;
    return 1;
}

/* The progress from the end of the warm-up to the last step, from 0 to 1. */
static double progress(const double *v, double step, double all)
{
    const double length = all - v[WARM_UP_STEPS];
    const double part = length > 0 ? (step - v[WARM_UP_STEPS]) / length : 1;
    return fmin(fmax(part, 0), 1);
}

static double blend(double from, double to, double part) { return from + (to - from) * part; }

/* Interpolates along half a cosine. */
static double wave(double from, double to, double part) { return to + (from - to) * 0.5 * (1 + cos(M_PI * part)); }

enum { STEP_EVERY = 1, STEP_FACTOR };
static double step_down(const double *v, double step, double all)
{
    (void)all;
    const double every = fmax(v[STEP_EVERY], 1);
    return pow(v[STEP_FACTOR], floor(fmax(step - v[WARM_UP_STEPS], 0) / every));
}

static double exponential(const double *v, double step, double all)
{
    (void)all;
    return pow(v[STEP_FACTOR], fmax(step - v[WARM_UP_STEPS], 0) / fmax(v[STEP_EVERY], 1));
}

enum { TO = 1 };
static double linear(const double *v, double step, double all) { return blend(1, v[TO], progress(v, step, all)); }
static double cosine(const double *v, double step, double all) { return wave(1, v[TO], progress(v, step, all)); }

/* Smith and Topin, "Super-Convergence", 2018, with the form and defaults of PyTorch's OneCycleLR. The scheduled rate is
 * its maximum. */
enum { CYCLE_UP = 1, CYCLE_FROM, CYCLE_TO };
static double one_cycle(const double *v, double step, double all)
{
    const double last = fmax(all - 1, 1), up = fmax(v[CYCLE_UP] - 1, 0);
    if (step <= up && up > 0)
        return wave(v[CYCLE_FROM], 1, step / up);
    return wave(1, v[CYCLE_TO], fmin((step - up) / fmax(last - up, 1), 1));
}

/* Warm-up, a constant rate, and a linear decay. */
enum { STABLE_DECAY = 1, STABLE_TO };
static double stable(const double *v, double step, double all)
{
    const double begin = all - v[STABLE_DECAY];
    return step < begin ? 1 : blend(1, v[STABLE_TO], fmin((step - begin) / fmax(v[STABLE_DECAY], 1), 1));
}

enum { PLATEAU_FACTOR = 1, PLATEAU_PATIENCE, PLATEAU_THRESHOLD, PLATEAU_MIN };

static const xct_kind kinds[] = {
    {"constant", {WARM_UP}},
    {"step", {WARM_UP, {"every", "10e", XCT_STEPS, 0, 0}, {"factor", "0.1", XCT_NUMBER, 0, 1}}},
    {"exponential", {WARM_UP, {"every", "1e", XCT_STEPS, 0, 0}, {"factor", "0.95", XCT_NUMBER, 0, 1}}},
    {"linear", {WARM_UP, {"to", "0", XCT_NUMBER, 0, 1}}},
    {"cosine", {WARM_UP, {"to", "0", XCT_NUMBER, 0, 1}}},
    {"onecycle",
     {WARM_UP, {"up", "30%", XCT_STEPS, 0, 0}, {"from", "0.04", XCT_NUMBER, 0, 1}, {"to", "4e-6", XCT_NUMBER, 0, 1}}},
    {"wsd", {WARM_UP, {"decay", "20%", XCT_STEPS, 0, 0}, {"to", "0", XCT_NUMBER, 0, 1}}},
    {"plateau",
     {WARM_UP,
      {"factor", "0.1", XCT_NUMBER, 0, 1},
      {"patience", "10", XCT_NUMBER, 0, 1e9},
      {"threshold", "1e-4", XCT_NUMBER, 0, 1},
      {"min", "0", XCT_NUMBER, 0, 1}}},
};
static double (*const functions[])(const double *values, double step, double all) = {
    constant, step_down, exponential, linear, cosine, one_cycle, stable, constant};
enum { KINDS = sizeof kinds / sizeof *kinds, PLATEAU = KINDS - 1 };
_Static_assert(sizeof functions / sizeof *functions == KINDS, "every kind has a function");

size_t xct_schedule_count(void) { return KINDS; }
const char *xct_schedule_at(size_t index) { return index < KINDS ? kinds[index].name : NULL; }

xcvm_status xct_schedule_parse(const char *text, const xct_span *span, xct_schedule *schedule, xcvm_error *error)
{
    *schedule = (xct_schedule){.all = span->all, .best = INFINITY, .factor = 1};
    return xct_settings_parse(text != NULL ? text : "constant", "schedule", kinds, KINDS, span, &schedule->kind,
                              schedule->values, error);
}

double xct_schedule_factor(const xct_schedule *s, uint64_t step)
{
    const double warm = s->values[WARM_UP_STEPS], at = (double)step;
    const double rising = warm > 0 && at < warm ? (at + 1) / warm : 1;
    return fmin(rising, 1) * s->factor * functions[s->kind](s->values, at, s->all);
}

void xct_schedule_observe(xct_schedule *s, double loss)
{
    if (s->kind != PLATEAU)
        return;
    /* PyTorch's ReduceLROnPlateau: a loss counts as better if it is lower by more than a share of the best. */
    if (loss < s->best - fabs(s->best) * s->values[PLATEAU_THRESHOLD] || (isinf(s->best) && isfinite(loss))) {
        s->best = loss;
        s->waited = 0;
        return;
    }
    s->waited += 1;
    if (s->waited > s->values[PLATEAU_PATIENCE]) {
        s->factor = fmax(s->factor * s->values[PLATEAU_FACTOR], s->values[PLATEAU_MIN]);
        s->waited = 0;
    }
}
