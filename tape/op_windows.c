/* Defaults of window attributes that a call leaves out. The definitions require an entry for each spatial axis:
 * strides and dilations of 1, no padding. */
#include "tape/op_binding.h"

#include <string.h>

static const int64_t ones[XCVM_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
static const int64_t zeros[2 * XCVM_MAX_RANK];

static const xcvm_field *find_field(const xcvm_schema *schema, const char *name)
{
    for (size_t i = 0; i < schema->field_count; i++)
        if (strcmp(schema->fields[i].name, name) == 0)
            return &schema->fields[i];
    return NULL;
}

static xcvm_ints *find_ints(const xcvm_schema *schema, const char *name, void *args)
{
    const xcvm_field *f = find_field(schema, name);
    return f != NULL && f->kind == XCVM_FIELD_INTS ? (xcvm_ints *)(void *)((char *)args + f->offset) : NULL;
}

/* Spatial axes of the window; 0 if they are unknown. */
static size_t axes_of(const tape_op_record *r)
{
    const xcvm_ints *kernel = find_ints(r->schema, "kernel_shape", r->args);
    const xcvm_field *filter = find_field(r->schema, "w");
    if (kernel != NULL)
        return kernel->count <= XCVM_MAX_RANK ? kernel->count : 0;
    const xcvm_value *w = filter != NULL ? xcvm_field_value(filter, r->args, 0) : NULL;
    return w != NULL && w->kind == XCVM_KIND_TENSOR && w->rank > 2 ? (size_t)w->rank - 2 : 0;
}

/* Another attribute determines the padding. */
static bool leaves_pads_open(const tape_op_record *r)
{
    const xcvm_field *automatic = find_field(r->schema, "auto_pad");
    const xcvm_ints *shape = find_ints(r->schema, "output_shape", r->args);
    return (shape != NULL && shape->count > 0) ||
           (automatic != NULL && *(const int *)(const void *)((char *)r->args + automatic->offset) != 0);
}

static void fill_ints(xcvm_ints *ints, const int64_t *with, size_t count)
{
    if (ints != NULL && ints->count == 0)
        *ints = (xcvm_ints){with, count};
}

void tape_op_fill_windows(const tape_op_record *r)
{
    const size_t axes = axes_of(r);
    fill_ints(find_ints(r->schema, "strides", r->args), ones, axes);
    fill_ints(find_ints(r->schema, "dilations", r->args), ones, axes);
    fill_ints(find_ints(r->schema, "output_padding", r->args), zeros, axes);
    if (!leaves_pads_open(r))
        fill_ints(find_ints(r->schema, "pads", r->args), zeros, 2 * axes);
}
