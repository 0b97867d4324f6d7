/* Products with weights, of batches. A weight by which rows are multiplied again and again, as the steps of a recurrent
 * network do, forward and back, is packed once, as the compiler packs constants: products that do not find it so would
 * pack it each time. What a weight's gradient is made of is kept in the walk back, and is one product over the rows of
 * several batches, which adds up in fewer sums of the weight's size. */
#include "compiler/gradients/rule.h"
#include "compiler/ir/compose.h"
#include "ops/matmul/packed.h"
#include "ops/table/table.h"
#include "proto/arguments.h"
#include "tape/walk.h"

#include <string.h>

/* ---- Weights in panels ---- */

enum {
    LEAST_USES = 2,          /* of one version of the elements */
    LEAST_BYTES = 64 * 1024, /* smaller ones are packed in no time */
    /* One row reads a matrix as fast where it lies; beside the work of many, packing is none. */
    LEAST_ROWS = 2,
    MOST_ROWS = 256
};

/* y = a * weight + c + z, the weight transposed or not; c and z as of PackedGemm. */
typedef struct row_product {
    tape_variable *weight;
    const xcvm_value *a, *c, *z;
    bool transposed;
    size_t rows, depth, columns;
} row_product;

static bool read_gemm(const tape_record *r, row_product *p)
{
    const xcvm_Gemm_args *args = r->args;
    const xcvm_value *y = args->y;
    if (args->transA != 0 || args->alpha != 1.0 || args->activation != XCVM_ACTIVATION_none)
        return false;
    p->transposed = args->transB != 0;
    if (args->c == NULL || args->beta == 0.0)
        return true;
    const bool is_row = args->c->rank > 0 && args->c->dims[args->c->rank - 1] == y->dims[y->rank - 1] &&
                        xcvm_element_count(args->c) == (size_t)y->dims[y->rank - 1];
    *(is_row ? &p->c : &p->z) = args->c;
    return args->beta == 1.0 && (is_row || xcvm_same_shape(args->c, y));
}

/* Parameters, and what is kept as those are: others are read once, most likely. */
static bool is_weight(const xcvm_tape *t, const tape_variable *v)
{
    const xcvm_value *type = &v->value.type;
    return v->creator == NULL && v->kept && type->rank == 2 && type->bytes >= LEAST_BYTES && type->storage != NULL &&
           type->storage->owner == t->kernel.heap;
}

static bool read_product(const xcvm_tape *t, const tape_record *r, row_product *p)
{
    const bool gemm = r->schema->opcode == XCVM_OP_Gemm;
    if (!gemm && r->schema->opcode != XCVM_OP_MatMul)
        return false;
    const xcvm_value *y = &r->out[0]->value.type;
    *p = (row_product){.weight = r->in[1], .a = &r->in[0]->value.type};
    if (!is_weight(t, p->weight) || y->dtype != XCVM_F32 || y->rank < 2 || (gemm && !read_gemm(r, p)))
        return false;
    const int64_t *dims = p->weight->value.type.dims;
    p->depth = (size_t)dims[p->transposed];
    p->columns = (size_t)dims[!p->transposed];
    p->rows = xcvm_element_count(y) / p->columns;
    return p->rows >= LEAST_ROWS && p->rows <= MOST_ROWS && p->columns >= XCVM_PACKED_COLUMNS;
}

void tape_panels_release(tape_variable *v)
{
    tape_panels *panels = v->panels;
    v->panels = NULL;
    v->packed = false;
    for (size_t i = 0; i < 2; i++)
        xcvm_storage_release(panels->packed[i]);
    xcvm_deallocate(v->tape->allocator, panels, sizeof *panels);
}

bool tape_panels_release_all(xcvm_tape *t)
{
    bool any = false;
    for (tape_variable *v = t->kept_first; v != NULL; v = v->next)
        if (v->packed) {
            tape_panels_release(v);
            any = true;
        }
    return any;
}

/* Those of the elements that the weight has now. NULL: no memory, which is no failure. */
static tape_panels *panels_of(const xcvm_tape *t, tape_variable *v)
{
    const xcvm_storage *storage = v->value.type.storage;
    if (v->packed && (v->panels->of != storage || v->panels->version != storage->version))
        tape_panels_release(v);
    if (!v->packed && (v->panels = xcvm_allocate(t->allocator, sizeof *v->panels)) != NULL) {
        *v->panels = (tape_panels){.of = storage, .version = storage->version};
        v->packed = true;
    }
    return v->panels;
}

bool tape_panels_reclaim(void *tape)
{
    xcvm_tape *t = tape;
    return !t->packing && tape_panels_release_all(t);
}

/* NULL: the product is computed without; that there is no memory is no failure, and other panels stay. */
static xcvm_storage *pack(xcvm_tape *t, const row_product *p, tape_panels *panels)
{
    xcvm_storage **packed = &panels->packed[p->transposed];
    xcvm_error unused;
    if (*packed != NULL || ++panels->uses[p->transposed] < LEAST_USES)
        return *packed;
    const size_t bytes = xcvm_packed_panels(p->columns) * p->depth * XCVM_PACKED_COLUMNS * sizeof(float);
    t->packing = true;
    const xcvm_status status = xcvm_heap_allocate(t->kernel.heap, bytes, packed, &unused);
    t->packing = false;
    if (status != XCVM_OK)
        return *packed = NULL;
    xcvm_packed_write(p->depth, p->columns, p->weight->value.type.data, p->transposed ? 1 : p->columns,
                      p->transposed ? p->depth : 1, 1.0f, (*packed)->data);
    return *packed;
}

bool tape_panels_multiply(xcvm_tape *t, const tape_record *r, xcvm_status *status)
{
    row_product p;
    if (!read_product(t, r, &p))
        return false;
    tape_panels *panels = panels_of(t, p.weight);
    xcvm_storage *packed = panels != NULL ? pack(t, &p, panels) : NULL;
    if (packed == NULL)
        return false;
    /* The kernel's scratch memory may have all panels released, and this product reads these. */
    xcvm_storage_retain(packed);
    const int64_t dims[] = {(int64_t)xcvm_packed_panels(p.columns), (int64_t)p.depth, XCVM_PACKED_COLUMNS};
    xcvm_value w = {0};
    xcvm_value_set_tensor(&w, XCVM_F32, 3, dims);
    w.data = packed->data;
    const xcvm_PackedGemm_args args = {
        .y = &r->out[0]->value.type, .a = p.a, .w = &w, .c = p.c, .z = p.z, .columns = (int64_t)p.columns};
    *status = xcvm_kernel_of(XCVM_OP_PackedGemm)(&t->kernel, &args);
    xcvm_storage_release(packed);
    return true;
}

/* ---- Gradients ---- */

enum {
    PIECES = 128,
    ROWS = 512,   /* are added up together at the most, and one batch more */
    ENOUGH = 256, /* of one batch are worth a product of their own */
};

/* One weight's: a[i], transposed, times g[i] is added up, or that transposed; both matrices, held. */
struct tape_product {
    tape_variable *weight;
    tape_product *next;
    double factor;
    bool transposed;
    int64_t rows;
    uint32_t count;
    tape_variable *a[PIECES], *g[PIECES];
};

static bool is_matrix(const tape_variable *v)
{
    return v->value.type.kind == XCVM_KIND_TENSOR && v->value.type.rank == 2;
}

bool tape_product_waits(const tape_walk *w, const tape_record *call)
{
    const bool gemm = call->schema->opcode == XCVM_OP_Gemm;
    if ((!gemm && call->schema->opcode != XCVM_OP_MatMul) || !call->batch->operands[1].shared)
        return false;
    const tape_variable *weight = call->in[1], *g = call->out[0]->sum;
    const xcvm_Gemm_args *args = call->args;
    return weight->creator == NULL && tape_walk_reaches(w, weight) && g != NULL && is_matrix(call->in[0]) &&
           is_matrix(weight) && is_matrix(g) && g->value.type.dims[0] < ENOUGH &&
           (!gemm || (args->transA == 0 && args->activation == XCVM_ACTIVATION_none));
}

static tape_product **find(tape_walk *w, const tape_variable *weight, double factor, bool transposed)
{
    tape_product **at = &w->products;
    while (*at != NULL && ((*at)->weight != weight || (*at)->factor != factor || (*at)->transposed != transposed))
        at = &(*at)->next;
    return at;
}

static void drop(tape_product *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        tape_variable_release(p->a[i]);
        tape_variable_release(p->g[i]);
    }
    p->count = 0;
    p->rows = 0;
}

static xcc_value *joined(tape_walk *w, tape_variable *const *pieces, uint32_t count)
{
    xcc_value *values[PIECES];
    for (uint32_t i = 0; i < count; i++)
        values[i] = (xcc_value *)(uintptr_t)&pieces[i]->value;
    return xcc_build_concat(&w->builder, count, values, 0);
}

static xcvm_status add_up(tape_walk *w, tape_product *p)
{
    if (p->count == 0)
        return XCVM_OK;
    xcc_value *a = joined(w, p->a, p->count), *g = joined(w, p->g, p->count);
    xcc_value *product = NULL;
    if (a != NULL && g != NULL)
        product = xcc_apply(&w->builder, Gemm, y, .a = XCC_IN(p->transposed ? g : a),
                            .b = XCC_IN(p->transposed ? a : g), .alpha = p->factor, .beta = 1, .transA = 1);
    drop(p);
    return product != NULL ? tape_walk_add(w, p->weight, product, NULL) : tape_walk_failure(w, "a product");
}

xcvm_status tape_product_wait(tape_walk *w, const tape_record *call)
{
    const bool gemm = call->schema->opcode == XCVM_OP_Gemm;
    const xcvm_Gemm_args *args = call->args;
    const double factor = gemm ? args->alpha : 1;
    const bool transposed = gemm && args->transB != 0;
    tape_product **at = find(w, call->in[1], factor, transposed), *p = *at;
    if (p == NULL) {
        if ((p = tape_take(w->tape, sizeof *p)) == NULL)
            return w->tape->error.status;
        *p = (tape_product){.weight = call->in[1], .factor = factor, .transposed = transposed};
        *at = p;
    }
    p->a[p->count] = call->in[0];
    p->g[p->count] = call->out[0]->sum;
    p->a[p->count]->refs++;
    p->g[p->count]->refs++;
    p->rows += p->g[p->count]->value.type.dims[0];
    p->count++;
    return p->count == PIECES || p->rows >= ROWS ? add_up(w, p) : XCVM_OK;
}

static xcvm_status add_all(tape_walk *w, tape_record *none)
{
    (void)none;
    for (tape_product *p = w->products; p != NULL; p = p->next)
        XCVM_TRY(add_up(w, p));
    return XCVM_OK;
}

xcvm_status tape_products_add(tape_walk *w) { return w->products != NULL ? tape_walk_run(w, NULL, add_all) : XCVM_OK; }

/* ---- Products that are left as their factors ---- */

/* So many times the factors' elements a gradient has at least, to be left as them: they are perhaps copied at the end
 * of the walk, and read once more for each block of weights, which has to stay little beside writing the gradient. */
enum { WORTH_LEAVING = 8 };

bool tape_product_is_left(const tape_walk *w, const tape_record *r)
{
    const xcvm_tape *t = w->tape;
    const bool gemm = r->operation == NULL && r->schema->opcode == XCVM_OP_Gemm;
    if ((!gemm && (r->operation != NULL || r->schema->opcode != XCVM_OP_MatMul)) || w->request->kind != TAPE_BACKWARD ||
        w->request->create || tape_has_overwritten(r) || t->batching != XCVM_BATCHING_NONE || t->tracer != NULL ||
        t->observer.call != NULL || t->check_nan)
        return false;
    const tape_variable *weight = r->in[1], *x = r->in[0], *g = r->out[0]->sum;
    if (!weight->requires || weight->creator != NULL || weight->gradient != NULL || weight->rows != NULL ||
        weight->hooks != NULL || x == weight || (weight->walk != NULL && (weight->walk != w || weight->sum != NULL)) ||
        (weight->walk == w && weight->factored))
        return false;
    const xcvm_value *type = &weight->value.type;
    const xcvm_Gemm_args *args = r->args;
    if ((type->dtype != XCVM_F32 && type->dtype != XCVM_F64) || !is_matrix(weight) || !is_matrix(x) || !is_matrix(g) ||
        (gemm && (args->transA != 0 || args->alpha != 1.0 || args->activation != XCVM_ACTIVATION_none)))
        return false;
    const int64_t terms = g->value.type.dims[0];
    return terms >= 1 && terms <= XCC_FEW_TERMS &&
           xcvm_element_count(type) >=
               WORTH_LEAVING * (xcvm_element_count(&x->value.type) + xcvm_element_count(&g->value.type));
}

static xcvm_status make_product(tape_walk *w, tape_product *p)
{
    p->weight->factored = false;
    return add_up(w, p);
}

xcvm_status tape_product_make(tape_walk *w, const tape_variable *v)
{
    for (tape_product *p = w->products; p != NULL; p = p->next)
        if (p->weight == v && p->count > 0)
            XCVM_TRY(make_product(w, p));
    return XCVM_OK;
}

/* Held in the place of *v, which is perhaps somebody else's. */
static xcvm_status own(tape_walk *w, tape_variable **v)
{
    if (!tape_walk_is_shared(*v))
        return XCVM_OK;
    tape_variable *copy = tape_walk_copy(w->tape, *v);
    const xcvm_status status = tape_walk_hold(w, v, copy != NULL ? &copy->value : NULL, "a factor");
    if (copy != NULL)
        tape_variable_unname(copy);
    return status;
}

static xcvm_status own_all(tape_walk *w, tape_record *none)
{
    (void)none;
    for (tape_product *p = w->products; p != NULL; p = p->next) {
        if (p->count != 1 || !p->weight->factored) {
            XCVM_TRY(add_up(w, p));
            continue;
        }
        XCVM_TRY(own(w, &p->a[0]));
        XCVM_TRY(own(w, &p->g[0]));
    }
    return XCVM_OK;
}

xcvm_status tape_products_own(tape_walk *w) { return w->products != NULL ? tape_walk_run(w, NULL, own_all) : XCVM_OK; }

void tape_products_give(tape_walk *w)
{
    for (tape_product *p = w->products; p != NULL; p = p->next)
        if (p->count == 1)
            tape_variable_set_factors(p->weight, p->transposed ? p->g[0] : p->a[0], p->transposed ? p->a[0] : p->g[0]);
}

void tape_products_drop(tape_walk *w)
{
    while (w->products != NULL) {
        tape_product *p = w->products;
        w->products = p->next;
        drop(p);
        tape_give_back(w->tape, p, sizeof *p);
    }
}
