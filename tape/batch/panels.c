/* Packed weights: a weight that several products read, as in a recurrent network, is packed once for the product
 * kernel, as the compiler packs constants. */
#include "ops/matmul/packed.h"
#include "ops/table/table.h"
#include "proto/arguments.h"
#include "tape/batch/batch.h"
#include "tape/side_table.h"

enum {
    LEAST_USES = 2,          /* products by one version of the elements */
    LEAST_BYTES = 64 * 1024, /* packing smaller weights costs nothing */
    /* One row reads the weight in place as fast. For many rows the cost of packing does not matter. */
    LEAST_ROWS = 2,
    MOST_ROWS = 256
};

/* y = a * weight + c + z, with the weight possibly transposed; c and z as of PackedGemm. */
typedef struct weight_product_call {
    tape_variable *weight;
    const xcvm_value *a, *c, *z;
    bool transposed;
    size_t rows, depth, columns;
} weight_product_call;

static bool read_gemm(const tape_op_record *r, weight_product_call *p)
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

/* Parameters and other kept matrices. Other matrices are usually read once. */
static bool is_weight(const xcvm_tape *t, const tape_variable *v)
{
    const xcvm_value *type = &v->value.type;
    return v->creator == NULL && v->kept && type->rank == 2 && type->bytes >= LEAST_BYTES && type->storage != NULL &&
           type->storage->owner == t->kernel.heap;
}

static bool read_product(const xcvm_tape *t, const tape_op_record *r, weight_product_call *p)
{
    const bool gemm = r->schema->opcode == XCVM_OP_Gemm;
    if (!gemm && r->schema->opcode != XCVM_OP_MatMul)
        return false;
    const xcvm_value *y = &r->out[0]->value.type;
    *p = (weight_product_call){.weight = r->in[1], .a = &r->in[0]->value.type};
    if (!is_weight(t, p->weight) || y->dtype != XCVM_F32 || y->rank < 2 || (gemm && !read_gemm(r, p)))
        return false;
    const int64_t *dims = p->weight->value.type.dims;
    p->depth = (size_t)dims[p->transposed];
    p->columns = (size_t)dims[!p->transposed];
    p->rows = xcvm_element_count(y) / p->columns;
    return p->rows >= LEAST_ROWS && p->rows <= MOST_ROWS && p->columns >= XCVM_PACKED_COLUMNS;
}

/* The panels of the current elements of a weight. NULL: no memory, which is no failure. */
static tape_panels *panels_of(const xcvm_tape *t, tape_variable *v)
{
    const xcvm_storage *storage = v->value.type.storage;
    tape_side_state *side = tape_side_try_reserve(v);
    if (side == NULL)
        return NULL;
    if (side->panels != NULL && (side->panels->of != storage || side->panels->version != storage->version))
        tape_panels_release(v);
    if (side->panels == NULL && (side->panels = xcvm_allocate(t->allocator, sizeof *side->panels)) != NULL)
        *side->panels = (tape_panels){.of = storage, .version = storage->version};
    return side->panels;
}

/* NULL: the product uses the weight as it is. A lack of memory is no failure, and other panels stay. */
static xcvm_storage *pack_weight(xcvm_tape *t, const weight_product_call *p, tape_panels *panels)
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

bool tape_panels_multiply(xcvm_tape *t, const tape_op_record *r, xcvm_status *status)
{
    weight_product_call p;
    if (!read_product(t, r, &p))
        return false;
    tape_panels *panels = panels_of(t, p.weight);
    xcvm_storage *packed = panels != NULL ? pack_weight(t, &p, panels) : NULL;
    if (packed == NULL)
        return false;
    /* The kernel's scratch memory may reclaim all panels, and this product reads these. */
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
