/* Initial weights: drawn at random, or read from a file. */
#include "train/trainer.h"

#include "compiler/onnx_model/onnx_model.h"
#include "ops/random/draw.h"
#include "train/data/convert_rows.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum scheme { HE, GLOROT, NORMAL, UNIFORM, ORTHOGONAL, SCHEMES } scheme;
static const char *const scheme_names[SCHEMES] = {"he", "glorot", "normal", "uniform", "orthogonal"};

/* New values of the model's weights. */
typedef struct values {
    const xcc_weight *weights;
    size_t count;
    xcvm_value **items; /* per weight; NULL: unchanged */
    bool *read;         /* per weight: read from the file */
    void *external;     /* weights in external files */
    struct {
        char missing[200], unused[200]; /* a few names, of weights and of arrays */
        size_t taken, wanted, rounded, unused_count, missing_count;
        xcvm_dtype from, to; /* types of the first rounded array */
    } report;
} values;

/* ---- Drawing ---- */

/* Seeds a generator per name (FNV-1a), so that no weight depends on the others. */
static uint64_t generator_of(uint64_t seed, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed;
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

/* A weight as a matrix: the inputs and outputs of a unit. */
typedef struct fan {
    double in, out;
    size_t rows, columns; /* for orthogonal: units, and what each reads; for gates of each block of `block` */
} fan;

static fan fan_of(const xcc_weight *w)
{
    size_t elements = 1, field = 1;
    for (int i = 0; i < w->rank; i++)
        elements *= (size_t)w->dims[i];
    for (int i = 2; i < w->rank; i++)
        field *= (size_t)w->dims[i];
    const size_t first = (size_t)w->dims[0], second = (size_t)w->dims[1];
    if (w->role == XCC_WEIGHT_GATES && w->rank == 3) {
        const size_t units = second / (size_t)w->gates;
        return (fan){(double)w->dims[2], (double)units, units, (size_t)w->dims[2]};
    }
    if (w->role == XCC_WEIGHT_IN_OUT)
        return (fan){(double)(first * field), (double)(second * field), first, first > 0 ? elements / first : 0};
    return (fan){(double)(second * field), (double)(first * field), first, first > 0 ? elements / first : 0};
}

static void draw(double *to, size_t count, scheme s, const fan *f, uint64_t *state)
{
    const double in = fmax(f->in, 1), out = fmax(f->out, 1);
    for (size_t i = 0; i < count; i++)
        switch (s) {
        case HE:
            to[i] = xcvm_draw_normal(state) * sqrt(2 / in);
            break;
        case GLOROT:
            to[i] = xcvm_draw_uniform(state, sqrt(6 / (in + out)));
            break;
        case NORMAL:
            to[i] = xcvm_draw_normal(state) * 0.02;
            break;
        case UNIFORM:
            to[i] = xcvm_draw_uniform(state, 1 / sqrt(in));
            break;
        case ORTHOGONAL:
        case SCHEMES:
            to[i] = xcvm_draw_normal(state);
            break;
        }
    const size_t block = f->rows * f->columns;
    for (size_t at = 0; s == ORTHOGONAL && block > 0 && at + block <= count; at += block)
        xcvm_orthogonalize(to + at, f->rows, f->columns);
}

static void store(xcvm_value *value, size_t index, double number)
{
    const float single = (float)number;
    const uint16_t half = value->dtype == XCVM_F16 ? xcvm_f32_to_f16(single) : xcvm_f32_to_bf16(single);
    if (value->dtype == XCVM_F64)
        ((double *)value->data)[index] = number;
    else if (value->dtype == XCVM_F32)
        ((float *)value->data)[index] = single;
    else
        ((uint16_t *)value->data)[index] = half;
}

/* The constant for a weight that is not drawn; false: unchanged. */
static bool plain_value(const xcc_weight *w, double *number)
{
    *number = w->role == XCC_WEIGHT_SCALE || w->role == XCC_WEIGHT_VARIANCE ? 1 : 0;
    return w->role == XCC_WEIGHT_SCALE || w->role == XCC_WEIGHT_VARIANCE || w->role == XCC_WEIGHT_SHIFT;
}

static xcvm_status draw_weight(const xct_trainer *t, const xcc_weight *w, scheme s, xcvm_value **item,
                               xcvm_error *error)
{
    const bool matrix =
        w->rank >= 2 && (w->role == XCC_WEIGHT_OUT_IN || w->role == XCC_WEIGHT_IN_OUT || w->role == XCC_WEIGHT_GATES);
    double number = 0;
    if (!xcvm_dtype_is_float(w->dtype) || (!matrix && !plain_value(w, &number)))
        return XCVM_OK;
    XCVM_TRY(xcvm_tensor_create(&t->initial.allocator, w->dtype, w->rank, w->dims, item, error));
    const size_t count = xcvm_value_count(*item);
    double *numbers = matrix ? xcvm_allocate(&t->initial.allocator, count * sizeof *numbers) : NULL;
    XCVM_CHECK(error, !matrix || numbers != NULL, OUT_OF_MEMORY, "no memory to draw \"%.100s\"", w->name);
    if (matrix) {
        const fan f = fan_of(w);
        uint64_t state = generator_of(t->options.seed, w->name);
        draw(numbers, count, s, &f, &state);
    }
    for (size_t i = 0; i < count; i++)
        store(*item, i, matrix ? numbers[i] : number);
    xcvm_deallocate(&t->initial.allocator, numbers, count * sizeof *numbers);
    return XCVM_OK;
}

static xcvm_status draw_all(const xct_trainer *t, values *v, xcvm_error *error)
{
    size_t s = 0;
    while (s < SCHEMES && strcmp(scheme_names[s], t->options.init) != 0)
        s++;
    XCVM_CHECK(error, s < SCHEMES, INVALID_ARGUMENT,
               "there is no way \"%.60s\" to draw weights; there is: he, glorot, normal, uniform, orthogonal",
               t->options.init);
    for (size_t i = 0; i < v->count; i++)
        XCVM_TRY(draw_weight(t, &v->weights[i], (scheme)s, &v->items[i], error));
    return XCVM_OK;
}

/* ---- Reading ---- */

/* The types that are converted to each other. */
static bool is_real(xcvm_dtype dtype)
{
    return dtype == XCVM_F16 || dtype == XCVM_BF16 || dtype == XCVM_F32 || dtype == XCVM_F64;
}

static xcvm_status check_weight(const xct_trainer *t, const xcc_weight *w, const xcvm_value *value, xcvm_error *error)
{
    char has[100], wants[100];
    const bool floats = xcvm_dtype_is_float(w->dtype) && value->kind == XCVM_KIND_TENSOR &&
                        is_real((xcvm_dtype)value->dtype) && is_real(w->dtype);
    const bool tensor = value->kind == XCVM_KIND_TENSOR, typed = tensor && (value->dtype == w->dtype || floats);
    if (typed && value->rank == w->rank && memcmp(value->dims, w->dims, (size_t)w->rank * sizeof *w->dims) == 0)
        return XCVM_OK;
    const bool turned =
        tensor && value->rank == 2 && w->rank == 2 && value->dims[0] == w->dims[1] && value->dims[1] == w->dims[0];
    XCVM_FAIL(error, SHAPE_MISMATCH, "%s: \"%.100s\" is %s%s, the model has %s%s. %s", t->options.weights, w->name,
              xcvm_dtype_name((xcvm_dtype)value->dtype), xcvm_dims_describe(value->rank, value->dims, has, sizeof has),
              xcvm_dtype_name(w->dtype), xcvm_dims_describe(w->rank, w->dims, wants, sizeof wants),
              !typed   ? "Convert the array to the model's type"
              : turned ? "Transpose the array (.T in NumPy)"
                       : "Leave the array out to keep the model's own, or use weights of the same network");
}

/* Converts an array to the type of its weight. Fails on numbers beyond its range. */
static xcvm_status convert_weight(const xct_trainer *t, const xcc_weight *w, values *v, xcvm_value **value,
                                  xcvm_error *error)
{
    const xcvm_dtype from = (xcvm_dtype)(*value)->dtype;
    const size_t count = xcvm_value_count(*value);
    xcvm_value *made = NULL;
    bool rounded = false;
    if (from == w->dtype)
        return XCVM_OK;
    XCVM_TRY(xcvm_tensor_create(&t->initial.allocator, w->dtype, w->rank, w->dims, &made, error));
    enum { PORTION = 256 };
    double numbers[PORTION], stored[PORTION];
    for (size_t at = 0, now; at < count; at += now) {
        now = xcvm_min(count - at, PORTION);
        xct_convert(from, (const char *)(*value)->data + at * xcvm_dtype_size(from), XCVM_F64, numbers, now);
        for (size_t i = 0; i < now; i++)
            store(made, at + i, numbers[i]);
        xct_convert(w->dtype, (const char *)made->data + at * xcvm_dtype_size(w->dtype), XCVM_F64, stored, now);
        for (size_t i = 0; i < now; i++) {
            rounded |= stored[i] != numbers[i] && !isnan(numbers[i]);
            if (!isfinite(numbers[i]) || isfinite(stored[i]))
                continue;
            xcvm_value_release(made);
            XCVM_FAIL(error, OUT_OF_RANGE, "%s: \"%.100s\" has the number %g, which is beyond the greatest of %s",
                      t->options.weights, w->name, numbers[i], xcvm_dtype_name(w->dtype));
        }
    }
    if (rounded && v->report.rounded++ == 0) {
        v->report.from = from;
        v->report.to = w->dtype;
    }
    xcvm_value_release(*value);
    *value = made;
    return XCVM_OK;
}

/* Appends a name to a list of limited length. */
static void add_name(char list[200], const char *name)
{
    const size_t length = strlen(list), more = strlen(name);
    if (length + more + 5 < 160)
        (void)snprintf(list + length, 200 - length, "%s\"%s\"", length > 0 ? ", " : "", name);
    else if (length < 4 || strcmp(list + length - 3, "...") != 0)
        (void)snprintf(list + length, 200 - length, "%s...", length > 0 ? ", " : "");
}

/* Removes the first part of a name, such as "module." from DataParallel; NULL if the rest is not a weight. */
static const char *without_prefix(const values *v, const char *name)
{
    const char *dot = strchr(name, '.');
    return dot != NULL && xcc_weights_find(v->weights, v->count, dot + 1, strlen(dot + 1)) != NULL ? dot + 1 : NULL;
}

static xcvm_status take_array(const xct_trainer *t, const xct_arrays *arrays, size_t index, const xcc_weight *w,
                              values *v, xcvm_error *error)
{
    const size_t at = (size_t)(w - v->weights);
    XCVM_CHECK(error, !v->read[at], INVALID_ARGUMENT, "%s: there are two arrays \"%.100s\"", t->options.weights,
               w->name);
    xcvm_value *value = NULL;
    XCVM_TRY(xct_arrays_read(arrays, index, w->dtype, &value, error));
    xcvm_value_release(v->items[at]);
    v->items[at] = value;
    v->read[at] = true;
    XCVM_TRY(check_weight(t, w, value, error));
    v->report.taken += xcvm_dtype_is_float(w->dtype);
    return convert_weight(t, w, v, &v->items[at], error);
}

static xcvm_status take_arrays(const xct_trainer *t, const xct_arrays *arrays, values *v, xcvm_error *error)
{
    const char *prefixed = NULL, *stripped = NULL;
    size_t taken = 0;
    for (size_t i = 0; i < xct_arrays_count(arrays); i++) {
        const char *name = xct_arrays_name_at(arrays, i);
        const xcc_weight *w = xcc_weights_find(v->weights, v->count, name, strlen(name));
        if (w != NULL) {
            XCVM_TRY(take_array(t, arrays, i, w, v, error));
            taken++;
            continue;
        }
        v->report.unused_count++;
        add_name(v->report.unused, name);
        if (prefixed == NULL && (stripped = without_prefix(v, name)) != NULL)
            prefixed = name;
    }
    for (size_t i = 0; i < v->count; i++)
        if (xcvm_dtype_is_float(v->weights[i].dtype)) {
            v->report.wanted++;
            v->report.missing_count += !v->read[i];
            if (!v->read[i])
                add_name(v->report.missing, v->weights[i].name);
        }
    XCVM_CHECK(error, taken > 0, INVALID_ARGUMENT,
               "%s: no array has the name of one of the model's weights, as \"%.60s\"; it holds %s.%s%.60s%s%.60s%s",
               t->options.weights, v->count > 0 ? v->weights[0].name : "",
               v->report.unused[0] != '\0' ? v->report.unused : "nothing", prefixed != NULL ? " Name \"" : "",
               prefixed != NULL ? prefixed : "", prefixed != NULL ? "\" as \"" : "", prefixed != NULL ? stripped : "",
               prefixed != NULL ? "\", and its like" : "");
    return XCVM_OK;
}

static void report_line(const xct_trainer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void report_line(const xct_trainer *t, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length >= 0)
        t->compile.diagnostics.call(t->compile.diagnostics.user, XCC_DIAGNOSTIC_WEIGHTS, line);
}

static void report_weights(const xct_trainer *t, const values *v)
{
    if (t->compile.diagnostics.call == NULL)
        return;
    const char *path = t->options.weights;
    report_line(t, "%s: %zu of %zu parameters taken", path, v->report.taken, v->report.wanted);
    if (v->report.missing_count > 0)
        report_line(t, "%s: has no array for %zu parameters, which stay as they are: %s", path, v->report.missing_count,
                    v->report.missing);
    if (v->report.unused_count > 0)
        report_line(t, "%s: %zu arrays have names of no parameter and are not used: %s", path, v->report.unused_count,
                    v->report.unused);
    if (v->report.rounded > 0)
        report_line(t, "%s: numbers of %zu arrays are rounded from %s to %s", path, v->report.rounded,
                    xcvm_dtype_name(v->report.from), xcvm_dtype_name(v->report.to));
}

static xcvm_status read_all(const xct_trainer *t, values *v, xcvm_error *error)
{
    xct_arrays *arrays = NULL;
    XCVM_TRY(xct_arrays_load_file(t->options.weights, &t->initial.allocator, &arrays, error));
    const xcvm_status status = take_arrays(t, arrays, v, error);
    if (status == XCVM_OK)
        report_weights(t, v);
    xct_arrays_destroy(arrays);
    return status;
}

/* ---- The model ---- */

static const xcvm_value *new_value(void *user, const char *name, size_t length)
{
    const values *v = user;
    const xcc_weight *w = xcc_weights_find(v->weights, v->count, name, length);
    const xcvm_value *item = w != NULL ? v->items[w - v->weights] : NULL;
    return item != NULL ? item : xcc_external_weights_find(v->external, name, length);
}

/* Names the limit if memory ran out for the model. */
static xcvm_status name_limit(const xct_trainer *t, xcvm_status status, xcvm_error *error)
{
    if (status == XCVM_OUT_OF_MEMORY && t->initial.refused != 0)
        return xcvm_error_set(error, status,
                              "initial weights: %zu bytes more than %zu would go past the memory limit of %zu",
                              t->initial.refused, t->initial.held, t->initial.limit);
    return status;
}

/* The trainer's model becomes a changed one. */
static xcvm_status write_model(xct_trainer *t, const xcc_replacement *how, xcvm_error *error)
{
    xcvm_bytes changed = {.allocator = t->changed.allocator};
    xcvm_status status =
        xcc_weights_replace(t->model, t->model_count, how, (xcvm_sink){xcvm_bytes_sink, &changed}, error);
    if (changed.failed)
        status = xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for the model with other weights");
    if (status != XCVM_OK) {
        xcvm_bytes_release(&changed);
        return status;
    }
    xcvm_bytes_release(&t->changed);
    t->changed = changed;
    t->model = changed.at;
    t->model_count = changed.count;
    t->path = NULL;
    return XCVM_OK;
}

xcvm_status xct_separate_weights(xct_trainer *t, xcvm_error *error)
{
    xcvm_arena arena = {.allocator = &t->initial.allocator};
    xcc_model_edits edits;
    if (t->external != NULL)
        return XCVM_OK;
    xcvm_status status = xcc_merged_weights_edits(t->model, t->model_count, &arena, &edits, error);
    if (status == XCVM_OK && edits.names.count > 0)
        status = write_model(t, &(xcc_replacement){.edits = &edits}, error);
    if (status == XCVM_OK)
        xcc_node_names_note(&edits.names, &t->compile, XCC_DIAGNOSTIC_WEIGHTS,
                            "separated from equal weights that the model stores once");
    xcvm_arena_release(&arena);
    return name_limit(t, status, error);
}

xcvm_status xct_initialize(xct_trainer *t, xcvm_error *error)
{
    if (t->options.init == NULL && t->options.weights == NULL)
        return XCVM_OK;
    xcvm_arena arena = {.allocator = &t->initial.allocator};
    values v = {.external = t->external};
    const char *nested = xcc_external_weights_nested(t->external);
    XCVM_CHECK(error, nested == NULL, UNSUPPORTED,
               "\"%.100s\", a tensor inside a node of the model, lies in another file; such a model keeps its weights",
               nested);
    xcvm_status status = xcc_weights_list(t->model, t->model_count, &arena, &v.weights, &v.count, error);
    if (status == XCVM_OK) {
        v.items = xcvm_arena_allocate(&arena, (v.count + 1) * sizeof(xcvm_value *));
        v.read = xcvm_arena_allocate(&arena, (v.count + 1) * sizeof *v.read);
        if (v.items == NULL || v.read == NULL)
            status = xcvm_error_set(error, XCVM_OUT_OF_MEMORY, "no memory for new weights");
    }
    if (status == XCVM_OK && t->options.init != NULL)
        status = draw_all(t, &v, error);
    if (status == XCVM_OK && t->options.weights != NULL)
        status = read_all(t, &v, error);
    if (status == XCVM_OK)
        status = write_model(t, &(xcc_replacement){.find = new_value, .find_user = &v}, error);
    status = name_limit(t, status, error);
    for (size_t i = 0; v.items != NULL && i < v.count; i++)
        xcvm_value_release(v.items[i]);
    xcvm_arena_release(&arena);
    return status;
}
