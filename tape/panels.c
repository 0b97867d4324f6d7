/* Weights in panels: a matrix by which a tape that batches multiplies rows again and again, as the steps of a recurrent
 * network do, forward and back, is packed once, as the compiler packs constants. Products that do not find it so would
 * pack it each time. */
#include "ops/matmul/packed.h"
#include "proto/arguments.h"
#include "tape/batch.h"

enum {
    LEAST_USES = 2,          /* of one version of the elements */
    LEAST_BYTES = 64 * 1024, /* smaller ones are packed in no time */
    /* One row reads a matrix as fast where it lies; beside the work of many, packing is none. */
    LEAST_ROWS = 2,
    MOST_ROWS = 256
};

/* y = a * weight + c + z, the weight transposed or not; c and z as of PackedGemm. */
typedef struct product {
    tape_variable *weight;
    const xcvm_value *a, *c, *z;
    bool transposed;
    size_t rows, depth, columns;
} product;

static bool read_gemm(const tape_record *r, product *p)
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

static bool read_product(const xcvm_tape *t, const tape_record *r, product *p)
{
    const bool gemm = r->schema->opcode == XCVM_OP_Gemm;
    if (!gemm && r->schema->opcode != XCVM_OP_MatMul)
        return false;
    const xcvm_value *y = &r->out[0]->value.type;
    *p = (product){.weight = r->in[1], .a = &r->in[0]->value.type};
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
    tape_give_back(v->tape, panels, sizeof *panels);
}

/* Those of the elements that the weight has now. */
static tape_panels *panels_of(xcvm_tape *t, tape_variable *v)
{
    const xcvm_storage *storage = v->value.type.storage;
    if (v->packed && (v->panels->of != storage || v->panels->version != storage->version))
        tape_panels_release(v);
    if (!v->packed && (v->panels = tape_take(t, sizeof *v->panels)) != NULL) {
        *v->panels = (tape_panels){.of = storage, .version = storage->version};
        v->packed = true;
    }
    return v->panels;
}

/* NULL: the product is computed without; that there is no memory is no failure. */
static const xcvm_storage *pack(const xcvm_tape *t, const product *p, tape_panels *panels)
{
    xcvm_storage **packed = &panels->packed[p->transposed];
    xcvm_error unused;
    if (*packed != NULL || ++panels->uses[p->transposed] < LEAST_USES)
        return *packed;
    const size_t bytes = xcvm_packed_panels(p->columns) * p->depth * XCVM_PACKED_COLUMNS * sizeof(float);
    if (xcvm_heap_allocate(t->kernel.heap, bytes, packed, &unused) != XCVM_OK)
        return *packed = NULL;
    xcvm_packed_write(p->depth, p->columns, p->weight->value.type.data, p->transposed ? 1 : p->columns,
                      p->transposed ? p->depth : 1, 1.0f, (*packed)->data);
    return *packed;
}

bool tape_panels_multiply(xcvm_tape *t, const tape_record *r, xcvm_status *status)
{
    product p;
    if (!read_product(t, r, &p))
        return false;
    tape_panels *panels = panels_of(t, p.weight);
    if (panels == NULL)
        return *status = t->error.status, true;
    const xcvm_storage *packed = pack(t, &p, panels);
    if (packed == NULL)
        return false;
    const int64_t dims[] = {(int64_t)xcvm_packed_panels(p.columns), (int64_t)p.depth, XCVM_PACKED_COLUMNS};
    xcvm_value w = {0};
    xcvm_value_set_tensor(&w, XCVM_F32, 3, dims);
    w.data = packed->data;
    const xcvm_PackedGemm_args args = {
        .y = &r->out[0]->value.type, .a = p.a, .w = &w, .c = p.c, .z = p.z, .columns = (int64_t)p.columns};
    *status = xcvm_kernel_of(XCVM_OP_PackedGemm)(&t->kernel, &args);
    return true;
}
