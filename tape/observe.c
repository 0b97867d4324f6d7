/* Observers, creators of variables, NaN checks, and drawings of a tape. */
#include "base/clock.h"
#include "ops/util/convert.h"
#include "tape/tape.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *name_of(const tape_op_record *r)
{
    return r->operation != NULL ? r->operation->name : r->schema->name;
}

/* ---- Observers ---- */

void xcvm_tape_set_observer(xcvm_tape *tape, const xcvm_tape_observer *observer)
{
    if (!TAPE_ENTER(tape, xcvm_tape_set_observer))
        return;
    tape->observer = observer != NULL ? *observer : (xcvm_tape_observer){0};
}

uint64_t tape_op_observe(xcvm_tape *t, const tape_op_record *r, uint64_t begun)
{
    const uint64_t now = xcvm_clock_ns();
    const xcvm_call_event event = {.name = name_of(r),
                                   .number = r->number,
                                   .backward = r->backward,
                                   .done = begun != 0,
                                   .ns = begun != 0 ? now - begun : 0,
                                   .live_bytes = xcvm_heap_live(t->kernel.heap)};
    t->observer.call(t->observer.user, &event);
    return begun != 0 ? now : xcvm_clock_ns();
}

/* ---- Creators ---- */

bool xcvm_var_get_creator(xcvm_tape *tape, xcvm_var v, xcvm_creator_info *creator)
{
    const tape_variable *variable = !TAPE_ENTER(tape, xcvm_var_get_creator)
                                        ? NULL
                                        : tape_resolve(tape, v, "the variable whose creator is asked for");
    const tape_op_record *r = variable != NULL ? variable->creator : NULL;
    if (r == NULL)
        return false;
    size_t result = 0;
    while (r->out[result] != variable)
        result++;
    const xcvm_creator_info found = {.size = creator->size,
                                     .name = name_of(r),
                                     .number = r->number,
                                     .operand_count = r->in_count,
                                     .result_count = r->out_count,
                                     .result = result,
                                     .backward = r->backward};
    memcpy(creator, &found, creator->size < sizeof found ? creator->size : sizeof found);
    return true;
}

/* ---- NaN ---- */

static bool has_nan(const tape_variable *v)
{
    const xcvm_value *type = v != NULL ? &v->value.type : NULL;
    double block[XCVM_BLOCK];
    if (type == NULL || type->kind != XCVM_KIND_TENSOR || !xcvm_dtype_is_float((xcvm_dtype)type->dtype))
        return false;
    for (size_t at = 0, count = xcvm_element_count(type); at < count; at += XCVM_BLOCK) {
        const size_t n = count - at < XCVM_BLOCK ? count - at : XCVM_BLOCK;
        xcvm_load_f64((xcvm_dtype)type->dtype, type->data, at, n, block);
        for (size_t i = 0; i < n; i++)
            if (isnan(block[i]))
                return true;
    }
    return false;
}

xcvm_status tape_op_check_nan(xcvm_tape *t, const tape_op_record *r)
{
    bool made = false;
    for (uint32_t i = 0; i < r->out_count && !made; i++)
        made = has_nan(r->out[i]);
    for (uint32_t i = 0; i < r->in_count && made; i++)
        made = !has_nan(r->in[i]);
    XCVM_CHECK(&t->error, !made, OUT_OF_RANGE, "the result has NaN, which no operand has");
    return XCVM_OK;
}

/* ---- Drawings ---- */

typedef struct drawing {
    xcvm_sink sink;
    bool failed;
} drawing;

static void write_line(drawing *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void write_line(drawing *d, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const size_t count = length < (int)sizeof line ? (size_t)length : sizeof line - 1;
    d->failed = d->failed || length < 0 || !d->sink.call(d->sink.user, line, count);
}

static void draw_variable(drawing *d, const tape_variable *v)
{
    char text[192];
    write_line(d, "  v%llu [label=\"%s\"%s];\n", (unsigned long long)v->serial,
               xcvm_value_describe(&v->value.type, text, sizeof text),
               v->creator == NULL && v->requires ? ", style=filled" : "");
}

static bool is_read_before(const tape_op_record *r, const tape_variable *v)
{
    for (; r != NULL && r->serial >= v->serial; r = r->previous)
        for (uint32_t i = 0; i < r->in_count; i++)
            if (r->in[i] == v)
                return true;
    return false;
}

/* A variable without a recorded creator is drawn at its first reader. */
static bool is_first_reader(const tape_op_record *r, uint32_t index)
{
    const tape_variable *v = r->in[index];
    if (v == NULL || v->creator != NULL)
        return false;
    for (uint32_t i = 0; i < index; i++)
        if (r->in[i] == v)
            return false;
    if (is_read_before(r->previous, v))
        return false;
    return !r->waiting || !is_read_before(r->tape->ops.last, v);
}

static void draw_call(drawing *d, const tape_op_record *r)
{
    write_line(d, "  c%llu [label=\"%.200s\", shape=box%s];\n", (unsigned long long)r->number, name_of(r),
               r->backward ? ", style=dashed" : "");
    for (uint32_t i = 0; i < r->in_count; i++) {
        if (is_first_reader(r, i))
            draw_variable(d, r->in[i]);
        if (r->in[i] != NULL)
            write_line(d, "  v%llu -> c%llu;\n", (unsigned long long)r->in[i]->serial, (unsigned long long)r->number);
    }
    for (uint32_t i = 0; i < r->out_count; i++) {
        if (r->out[i] == NULL)
            continue;
        draw_variable(d, r->out[i]);
        write_line(d, "  c%llu -> v%llu;\n", (unsigned long long)r->number, (unsigned long long)r->out[i]->serial);
    }
}

xcvm_status xcvm_tape_draw(xcvm_tape *tape, xcvm_sink sink, xcvm_error *error)
{
    TAPE_BEGIN(tape, xcvm_tape_draw, error);
    XCVM_CHECK(error, sink.call != NULL, INVALID_ARGUMENT, "sink is NULL");
    drawing d = {sink, false};
    write_line(&d, "digraph tape {\n  node [shape=ellipse];\n");
    for (const tape_op_record *r = tape->ops.first; r != NULL && !d.failed; r = r->next)
        draw_call(&d, r);
    for (const tape_op_record *r = tape->waiting.first; r != NULL && !d.failed; r = r->next)
        draw_call(&d, r);
    write_line(&d, "}\n");
    XCVM_CHECK(error, !d.failed, IO, "the drawing cannot be written");
    return XCVM_OK;
}
