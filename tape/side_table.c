/* The side table of variables, and the accumulated gradients in it. */
#include "tape/side_table.h"
#include "ops/table/table.h"
#include "tape/tracer.h"

const tape_side_state tape_no_side_state;

/* ---- Allocation ---- */

/* Freed entries are reused, so that a steady state allocates nothing. They are not blocks of the tape: those of
 * parameters would keep the slabs from being cut anew. */
tape_side_state *tape_side_try_reserve(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    if (v->has_side_state)
        return v->side;
    tape_side_state *side = t->free_side_states;
    if (side != NULL)
        t->free_side_states = side->next_free;
    else if ((side = xcvm_allocate(t->allocator, sizeof *side)) == NULL)
        return NULL;
    *side = (tape_side_state){0};
    v->side = side;
    v->has_side_state = true;
    return side;
}

tape_side_state *tape_side_reserve(tape_variable *v)
{
    tape_side_state *side = tape_side_try_reserve(v);
    if (side == NULL)
        tape_fail(v->tape, XCVM_OUT_OF_MEMORY, "the allocator has no %zu bytes for a variable", sizeof *side);
    return side;
}

void tape_side_pool_release(xcvm_tape *t)
{
    while (t->free_side_states != NULL) {
        tape_side_state *next = t->free_side_states->next_free;
        xcvm_deallocate(t->allocator, t->free_side_states, sizeof *next);
        t->free_side_states = next;
    }
}

/* Releasing a gradient may destroy other variables, so it comes last. */
static void release_gradient(tape_variable *gradient)
{
    if (gradient == NULL)
        return;
    gradient->lent_refs--;
    tape_variable_release(gradient);
}

void tape_side_destroy(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    tape_side_state *side = v->side;
    tape_variable *gradient = side->gradient, *left = side->left_factor;
    while (side->hooks != NULL) {
        tape_hook *next = side->hooks->next;
        tape_free(t, side->hooks, sizeof *side->hooks);
        side->hooks = next;
    }
    tape_sparse_release(t, &side->sparse_rows);
    tape_sparse_release(t, &side->pass_rows);
    if (side->panels != NULL)
        tape_panels_release(v);
    v->side = NULL;
    v->has_side_state = false;
    side->next_free = t->free_side_states;
    t->free_side_states = side;
    release_gradient(gradient);
    release_gradient(left);
}

/* ---- Parts ---- */

size_t tape_hook_count(const tape_variable *v)
{
    size_t count = 0;
    for (const tape_hook *hook = tape_side(v)->hooks; hook != NULL; hook = hook->next)
        count++;
    return count;
}

void tape_sparse_release(xcvm_tape *t, tape_sparse_rows **rows)
{
    while (*rows != NULL) {
        tape_sparse_rows *first = *rows;
        *rows = first->next;
        first->gradient->lent_refs--;
        tape_variable_release(first->gradient);
        if (first->indices != NULL)
            tape_variable_release(first->indices);
        tape_free(t, first, tape_sparse_bytes(first->count));
    }
}

void tape_panels_release(tape_variable *v)
{
    tape_panels *panels = v->side->panels;
    v->side->panels = NULL;
    for (size_t i = 0; i < 2; i++)
        xcvm_storage_release(panels->packed[i]);
    xcvm_deallocate(v->tape->allocator, panels, sizeof *panels);
}

bool tape_panels_release_all(xcvm_tape *t)
{
    bool any = false;
    for (tape_variable *v = t->kept; v != NULL; v = v->next_kept)
        if (tape_side(v)->panels != NULL) {
            tape_panels_release(v);
            any = true;
        }
    return any;
}

bool tape_panels_reclaim(void *tape)
{
    xcvm_tape *t = tape;
    return !t->packing && tape_panels_release_all(t);
}

/* ---- Accumulated gradients ---- */

void tape_variable_set_gradient(tape_variable *v, tape_variable *gradient)
{
    if (!v->has_side_state)
        return;
    tape_side_state *side = v->side;
    tape_variable *before = side->gradient, *left = side->left_factor;
    side->gradient = gradient;
    side->left_factor = NULL;
    if (gradient != NULL)
        gradient->lent_refs++;
    release_gradient(before);
    release_gradient(left);
}

void tape_variable_set_factors(tape_variable *v, tape_variable *left, tape_variable *right)
{
    right->refs++;
    tape_variable_set_gradient(v, right);
    left->refs++;
    left->lent_refs++;
    v->side->left_factor = left;
}

tape_variable *tape_variable_gradient(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    const tape_side_state *side = tape_side(v);
    if (side->left_factor == NULL)
        return side->gradient;
    const xcvm_value *type = &v->value.type;
    tape_variable *product = tape_tensor(t, (xcvm_dtype)type->dtype, type->rank, type->dims, NULL);
    if (product == NULL)
        return NULL;
    const xcvm_Gemm_args args = {.y = &product->value.type,
                                 .a = &side->left_factor->value.type,
                                 .b = &side->gradient->value.type,
                                 .alpha = 1,
                                 .beta = 1,
                                 .transA = 1};
    const bool made = tape_latch_failure(t, xcvm_kernel_of(XCVM_OP_Gemm)(&t->kernel, &args)) == XCVM_OK;
    if (made) {
        product->refs++;
        tape_variable_set_gradient(v, product);
    }
    tape_variable_unname(product);
    return made ? product : NULL;
}

void tape_variable_clear_gradient(tape_variable *v)
{
    xcvm_tape *t = v->tape;
    if (t->tracer != NULL && !t->failed)
        t->tracer->functions->clear(t->tracer, v);
    tape_variable_set_gradient(v, NULL);
    if (v->has_side_state)
        tape_sparse_release(t, &v->side->sparse_rows);
}
