/* The overlap check: memory that a run writes must not overlap other bound memory. A sweep over all spans in address
 * order, because a program may have many inputs and outputs. */
#include "vm/session.h"

typedef struct span {
    uintptr_t begin, end;
    size_t index; /* index of the input or output */
    bool is_target;
} span;

typedef struct spans {
    span *at; /* NULL: only counting */
    size_t count;
} spans;

/* Limit, because lists that share items may contain exponentially many values. */
enum { MOST_SPANS = 1 << 20 };

static void add(spans *list, const xcvm_value *v, size_t index, bool is_target)
{
    if (list->count > MOST_SPANS)
        return;
    if (xcvm_kind_is_list(v->kind)) {
        for (uint32_t i = 0; i < v->count && list->count <= MOST_SPANS; i++)
            add(list, xcvm_items(v) + i, index, is_target);
    }
    const bool has_memory = v->kind == XCVM_KIND_TENSOR && v->bytes != 0;
    if (list->at != NULL && has_memory)
        list->at[list->count] = (span){(uintptr_t)v->data, (uintptr_t)v->data + v->bytes, index, is_target};
    /* While counting, values without memory count too, so that the limit also bounds the traversal of these. */
    list->count += list->at == NULL || has_memory;
}

static void collect(const xcvm_session *s, spans *list)
{
    for (size_t i = 0; i < s->program->image.input_count; i++)
        add(list, &s->inputs[i], i, false);
    for (size_t i = 0; i < s->program->image.output_count; i++)
        add(list, &s->bound_outputs[i], i, true);
}

static void sift_down(span *heap, size_t root, size_t count)
{
    const span moved = heap[root];
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && heap[child].begin < heap[child + 1].begin)
            child++;
        if (heap[child].begin <= moved.begin)
            break;
        heap[root] = heap[child];
    }
    heap[root] = moved;
}

/* Heapsort, because qsort may call malloc. */
static void sort(span *at, size_t count)
{
    for (size_t i = count / 2; i-- > 0;)
        sift_down(at, i, count);
    for (size_t end = count; end-- > 1;) {
        const span first = at[0];
        at[0] = at[end];
        at[end] = first;
        sift_down(at, 0, end);
    }
}

static xcvm_status refuse(const xcvm_session *s, const span *a, const span *b, xcvm_error *error)
{
    const xcvm_image *image = &s->program->image;
    const span *target = a->is_target ? a : b, *other = a->is_target ? b : a;
    const char *output = image->outputs[target->index].name;
    return other->is_target ? xcvm_error_set(error, XCVM_INVALID_ARGUMENT,
                                             "the tensors bound to outputs \"%.100s\" and \"%.100s\" overlap", output,
                                             image->outputs[other->index].name)
                            : xcvm_error_set(error, XCVM_INVALID_ARGUMENT,
                                             "the tensor bound to output \"%.100s\" overlaps that of input \"%.100s\"",
                                             output, image->inputs[other->index].name);
}

/* An output bound to the memory of its paired input is computed elsewhere and copied after the run. */
static bool are_pair(const xcvm_session *s, const span *target, const span *input)
{
    return s->staged[target->index] && s->pairs[target->index] == input->index + 1;
}

static xcvm_status sweep(const xcvm_session *s, const spans *list, xcvm_error *error)
{
    /* Among spans that begin earlier, the target and the input with the highest end. */
    const span *target = NULL, *input = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const span *here = &list->at[i];
        if (target != NULL && here->begin < target->end) {
            if (!here->is_target && are_pair(s, target, here))
                continue;
            return refuse(s, target, here, error);
        }
        if (here->is_target && input != NULL && here->begin < input->end && !are_pair(s, here, input))
            return refuse(s, here, input, error);
        const span **furthest = here->is_target ? &target : &input;
        if (*furthest == NULL || here->end > (*furthest)->end)
            *furthest = here;
    }
    return XCVM_OK;
}

xcvm_status xcvm_session_check_overlap(const xcvm_session *s, xcvm_error *error)
{
    spans list = {NULL, 0};
    bool any = false;
    for (size_t i = 0; i < s->program->image.output_count && !any; i++)
        any = s->bound_outputs[i].kind != XCVM_KIND_NULL;
    if (!any)
        return XCVM_OK;
    collect(s, &list);
    XCVM_CHECK(error, list.count <= MOST_SPANS, OUT_OF_RANGE,
               "more than %d values are bound, too many to be compared with the tensors bound to outputs", MOST_SPANS);
    xcvm_storage *storage;
    XCVM_TRY(xcvm_heap_allocate(s->kernel.heap, list.count * sizeof(span), &storage, error));
    list = (spans){storage->data, 0};
    collect(s, &list);
    sort(list.at, list.count);
    const xcvm_status status = sweep(s, &list, error);
    xcvm_storage_release(storage);
    return status;
}
