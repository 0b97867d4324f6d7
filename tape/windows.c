/* What a call leaves out of the attributes of windows, which rows state an entry of for each spatial axis: strides and
 * dilations of 1, no padding. */
#include "tape/tape.h"

#include <string.h>

static const int64_t ones[XCVM_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
static const int64_t zeros[2 * XCVM_MAX_RANK];

static const xcvm_field *named(const xcvm_schema *schema, const char *name)
{
    for (size_t i = 0; i < schema->field_count; i++)
        if (strcmp(schema->fields[i].name, name) == 0)
            return &schema->fields[i];
    return NULL;
}

static xcvm_ints *ints_named(const xcvm_schema *schema, const char *name, void *args)
{
    const xcvm_field *f = named(schema, name);
    return f != NULL && f->kind == XCVM_FIELD_INTS ? (xcvm_ints *)(void *)((char *)args + f->offset) : NULL;
}

/* Spatial axes of the window; 0 where they do not show. */
static size_t axes_of(const tape_record *r)
{
    const xcvm_ints *kernel = ints_named(r->schema, "kernel_shape", r->args);
    const xcvm_field *filter = named(r->schema, "w");
    if (kernel != NULL)
        return kernel->count <= XCVM_MAX_RANK ? kernel->count : 0;
    const xcvm_value *w = filter != NULL ? xcvm_field_value(filter, r->args, 0) : NULL;
    return w != NULL && w->kind == XCVM_KIND_TENSOR && w->rank > 2 ? (size_t)w->rank - 2 : 0;
}

/* Pads are left open where something else says what they are. */
static bool leaves_pads_open(const tape_record *r)
{
    const xcvm_field *automatic = named(r->schema, "auto_pad");
    const xcvm_ints *shape = ints_named(r->schema, "output_shape", r->args);
    return (shape != NULL && shape->count > 0) ||
           (automatic != NULL && *(const int *)(const void *)((char *)r->args + automatic->offset) != 0);
}

static void fill(xcvm_ints *ints, const int64_t *with, size_t count)
{
    if (ints != NULL && ints->count == 0)
        *ints = (xcvm_ints){with, count};
}

void tape_fill_windows(const tape_record *r)
{
    const size_t axes = axes_of(r);
    fill(ints_named(r->schema, "strides", r->args), ones, axes);
    fill(ints_named(r->schema, "dilations", r->args), ones, axes);
    fill(ints_named(r->schema, "output_padding", r->args), zeros, axes);
    if (!leaves_pads_open(r))
        fill(ints_named(r->schema, "pads", r->args), zeros, 2 * axes);
}
