/* Block quantization of weights: constants of products and recurrences, and gathered tables, are rounded to 4 or 8 bits
 * with an f16 scale per block of 32. */
#include "compiler/passes/compress.h"
#include "compiler/ir/compilation.h"

#include "compiler/ir/block_weights.h"
#include "compiler/ir/compose.h"
#include "ops/util/convert.h"

#include <math.h>

static unsigned bits_of(const xcc_module *m) { return m->options->weights.blocks == XCC_WEIGHTS_Q8 ? 8 : 4; }

static xcvm_qblocks_form form_of(const xcc_module *m)
{
    return m->options->weights.blocks == XCC_WEIGHTS_Q4A ? XCVM_QBLOCKS_ASYMMETRIC : XCVM_QBLOCKS_SYMMETRIC;
}

static bool all_finite(const xcc_value *v)
{
    const float *w = v->type.data;
    const size_t count = xcvm_element_count(&v->type);
    bool finite = true;
    for (size_t i = 0; i < count; i++)
        finite = finite && isfinite(w[i]);
    return finite;
}

static void put_scale(const xcc_value *scales, size_t at, float scale)
{
    xcvm_store_f32(XCVM_F16, XCVM_DATA(uint16_t, &scales->type) + at, 0, 1, &scale);
}

/* ---- Products ---- */

/* The rounded form of panels, shared by all their readers. */
struct xcc_compressed_panels {
    const xcc_value *panels;
    int64_t columns;
    xcc_block_weights weights;
    bool stays; /* some numbers exceed the scales' range */
    xcc_compressed_panels *next;
};

static xcvm_status round_panels(xcc_module *m, const xcc_value *panels, xcc_compressed_panels *to)
{
    const xcvm_qblocks layout = {
        .k = (size_t)panels->type.dims[1], .n = (size_t)to->columns, .block = XCVM_QBLOCKS_USUAL, .bits = bits_of(m)};
    const xcvm_qblocks_form form = form_of(m);
    if (!all_finite(panels)) {
        to->stays = true;
        return XCVM_OK;
    }
    XCVM_TRY(xcc_block_weights_create(panels->graph, &layout, XCVM_F16,
                                      form == XCVM_QBLOCKS_ASYMMETRIC ? XCVM_U8 : XCVM_NO_DTYPE, &to->weights));
    for (size_t j = 0; j < layout.n; j++) {
        const float *column = XCVM_CDATA(float, &panels->type) +
                              j / XCVM_PACKED_COLUMNS * layout.k * XCVM_PACKED_COLUMNS + j % XCVM_PACKED_COLUMNS;
        XCVM_TRY(xcc_poll(m));
        for (size_t p = 0; p < layout.k; p += layout.block) {
            const size_t count = xcvm_min(layout.k - p, layout.block);
            uint8_t codes[XCVM_QBLOCKS_USUAL];
            float scale;
            unsigned offset;
            if (!xcvm_qblocks_round(column + p * XCVM_PACKED_COLUMNS, count, XCVM_PACKED_COLUMNS, layout.bits, form,
                                    codes, &scale, &offset)) {
                to->stays = true;
                return XCVM_OK;
            }
            const size_t at = xcvm_qblocks_scale_at(&layout, p, j);
            put_scale(to->weights.scales, at, scale);
            if (to->weights.offsets != NULL)
                XCVM_DATA(uint8_t, &to->weights.offsets->type)[at] = (uint8_t)offset;
            for (size_t i = 0; i < count; i++)
                xcc_block_weights_set(&to->weights, p + i, j, codes[i]);
        }
    }
    return XCVM_OK;
}

/* Returns the rounded form of f32 panels of that many columns, which is cached; NULL only on failure. */
static const xcc_compressed_panels *compress_panels(xcc_module *m, const xcc_value *panels, int64_t columns,
                                                    xcc_compressed_panels **known)
{
    xcc_compressed_panels *of = *known;
    while (of != NULL && (of->panels != panels || of->columns != columns))
        of = of->next;
    if (of != NULL)
        return of;
    of = xcc_alloc(m, sizeof *of);
    if (of == NULL)
        return NULL;
    *of = (xcc_compressed_panels){.panels = panels, .columns = columns, .next = *known};
    *known = of;
    m->compilation->weight_bytes_before += panels->type.bytes;
    /* Shorter columns would be mostly padding. */
    if (panels->type.dims[1] < XCVM_QBLOCKS_USUAL) {
        of->stays = true;
    } else {
        if (round_panels(m, panels, of) != XCVM_OK)
            return NULL;
        m->compilation->uncompressed += of->stays;
    }
    const xcc_block_weights *w = &of->weights;
    m->compilation->weight_bytes_after +=
        of->stays ? panels->type.bytes
                  : w->codes->type.bytes + w->scales->type.bytes + (w->offsets != NULL ? w->offsets->type.bytes : 0);
    return of;
}

xcvm_status xcc_compress_product(xcc_rewrite *r, xcc_node *n, xcc_compressed_panels **known)
{
    const xcvm_PackedGemm_args a = *XCC_ARGS(PackedGemm, n);
    const xcc_value *panels = xcc_value_of(a.w);
    if (!xcc_is_constant(panels) || panels->type.dtype != XCVM_F32)
        return XCVM_OK;
    const xcc_compressed_panels *of = compress_panels(r->m, panels, a.columns, known);
    if (of == NULL)
        return r->m->error->status;
    if (of->stays)
        return XCVM_OK;
    xcc_builder b = xcc_builder_before(n);
    if (xcc_rewrite_replace(r, xcc_node_output(n, 0), xcc_block_weights_product(&b, &of->weights, a.a, &a)))
        xcc_rewrite_sweep(n);
    return r->status;
}

/* ---- Recurrences ---- */

xcvm_status xcc_compress_recurrence(xcc_rewrite *r, xcc_node *n, xcc_compressed_panels **known)
{
    enum { MOST_RESULTS = 3 };
    const xcc_value *panels = xcc_node_input(n, 1);
    if (!xcc_is_constant(panels) || panels->type.dtype != XCVM_F32)
        return XCVM_OK;
    const xcc_compressed_panels *of = compress_panels(r->m, panels, panels->type.dims[0] * XCVM_PACKED_COLUMNS, known);
    if (of == NULL)
        return r->m->error->status;
    if (of->stays)
        return XCVM_OK;
    xcc_builder b = xcc_builder_before(n);
    xcc_value *y[MOST_RESULTS] = {NULL};
    for (size_t i = 0; i < xcc_node_output_count(n); i++)
        if (xcc_node_output(n, i) != NULL && (y[i] = xcc_value_create(n->graph, NULL)) == NULL)
            return r->m->error->status;
    const xcc_block_weights *w = &of->weights;
    const xcc_node *made;
#define COMMON                                                                                                         \
    .y = XCC_OUT(y[0]), .y_h = XCC_OUT(y[1]), .x = a->x, .r = XCC_IN(w->codes), .scales = XCC_IN(w->scales),           \
    .offsets = XCC_IN(w->offsets), .sequence_lens = a->sequence_lens, .initial_h = a->initial_h,                       \
    .hidden_size = a->hidden_size, .direction = a->direction, .layout = a->layout, .activations = a->activations,      \
    .activation_alpha = a->activation_alpha, .activation_beta = a->activation_beta, .clip = a->clip,                   \
    .bits = w->layout.bits, .block_size = (int64_t)w->layout.block
    if (xcc_is(n, XCVM_OP_PackedRNN)) {
        const xcvm_PackedRNN_args *a = XCC_ARGS(PackedRNN, n);
        made = xcc_emit(&b, BlockQuantizedRNN, COMMON);
    } else if (xcc_is(n, XCVM_OP_PackedGRU)) {
        const xcvm_PackedGRU_args *a = XCC_ARGS(PackedGRU, n);
        made = xcc_emit(&b, BlockQuantizedGRU, COMMON, .b = a->b, .linear_before_reset = a->linear_before_reset);
    } else {
        const xcvm_PackedLSTM_args *a = XCC_ARGS(PackedLSTM, n);
        made = xcc_emit(&b, BlockQuantizedLSTM, COMMON, .y_c = XCC_OUT(y[2]), .initial_c = a->initial_c, .p = a->p,
                        .input_forget = a->input_forget);
    }
#undef COMMON
    if (made == NULL)
        return r->m->error->status;
    for (size_t i = 0; i < xcc_node_output_count(n); i++)
        if (y[i] != NULL)
            (void)xcc_rewrite_replace(r, xcc_node_output(n, i), y[i]);
    xcc_rewrite_sweep(n);
    return r->status;
}

/* ---- Tables ---- */

bool xcc_compresses_table(const xcc_value *v)
{
    return v->type.rank == 2 && v->type.dims[1] > 0 && v->type.dims[1] % XCVM_QBLOCKS_USUAL == 0;
}

typedef struct table {
    xcc_value *codes, *scales, *offsets;
} table;

static void put_code(const xcc_value *to, size_t at, unsigned bits, unsigned code)
{
    uint8_t *bytes = XCVM_DATA(uint8_t, &to->type);
    if (bits == 8)
        bytes[at] = (uint8_t)code;
    else
        bytes[at / 2] = (uint8_t)(at % 2 == 0 ? (bytes[at / 2] & 0xf0) | code : (bytes[at / 2] & 0x0f) | code << 4);
}

static xcvm_status round_table(xcc_module *m, const xcc_value *v, table *t, bool *stays)
{
    const unsigned bits = bits_of(m);
    const xcvm_qblocks_form form = form_of(m);
    const bool asymmetric = form == XCVM_QBLOCKS_ASYMMETRIC;
    const xcvm_dtype dtype = bits == 8 ? XCVM_I8 : asymmetric ? XCVM_U4 : XCVM_I4;
    const int64_t blocks[] = {v->type.dims[0], v->type.dims[1] / XCVM_QBLOCKS_USUAL};
    *stays = !all_finite(v);
    if (*stays)
        return XCVM_OK;
    t->codes = xcc_constant_blank(v->graph, dtype, 2, v->type.dims);
    t->scales = t->codes != NULL ? xcc_constant_blank(v->graph, XCVM_F16, 2, blocks) : NULL;
    t->offsets = t->scales != NULL && asymmetric ? xcc_constant_blank(v->graph, XCVM_U4, 2, blocks) : NULL;
    if (t->scales == NULL || (asymmetric && t->offsets == NULL))
        return m->error->status;
    memset(t->codes->type.data, 0, t->codes->type.bytes);
    if (asymmetric)
        memset(t->offsets->type.data, 0, t->offsets->type.bytes);
    const size_t count = (size_t)(blocks[0] * blocks[1]);
    for (size_t i = 0; i < count; i++) {
        uint8_t codes[XCVM_QBLOCKS_USUAL];
        float scale;
        unsigned offset;
        if (i % 4096 == 0)
            XCVM_TRY(xcc_poll(m));
        *stays = !xcvm_qblocks_round(XCVM_CDATA(float, &v->type) + i * XCVM_QBLOCKS_USUAL, XCVM_QBLOCKS_USUAL, 1, bits,
                                     form, codes, &scale, &offset);
        if (*stays)
            return XCVM_OK;
        put_scale(t->scales, i, scale);
        if (asymmetric)
            put_code(t->offsets, i, 4, offset);
        /* In signed types, codes are relative to the middle: the top bit is inverted. */
        const unsigned turned = asymmetric ? 0 : 1u << (bits - 1);
        for (size_t j = 0; j < XCVM_QBLOCKS_USUAL; j++)
            put_code(t->codes, i * XCVM_QBLOCKS_USUAL + j, bits, codes[j] ^ turned);
    }
    return XCVM_OK;
}

/* Gathers rows of codes and then dequantizes them. */
static void gather_codes(xcc_rewrite *r, xcc_node *gather, const table *t)
{
    const xcvm_Gather_args *a = XCC_ARGS(Gather, gather);
    xcc_builder b = xcc_builder_before(gather);
    xcc_value *codes = xcc_apply(&b, Gather, y, .x = XCC_IN(t->codes), .indices = a->indices, .axis = 0);
    xcc_value *scales = xcc_apply(&b, Gather, y, .x = XCC_IN(t->scales), .indices = a->indices, .axis = 0);
    xcc_value *offsets = NULL, *y = NULL;
    if (t->offsets != NULL)
        offsets = xcc_apply(&b, Gather, y, .x = XCC_IN(t->offsets), .indices = a->indices, .axis = 0);
    if (scales != NULL)
        scales = xcc_build_cast(&b, scales, XCVM_F32);
    if (codes != NULL && scales != NULL && (offsets != NULL) == (t->offsets != NULL))
        y = xcc_apply(&b, DequantizeLinear, y, .x = XCC_IN(codes), .scale = XCC_IN(scales),
                      .zero_point = XCC_IN(offsets), .axis = -1, .block_size = XCVM_QBLOCKS_USUAL);
    (void)xcc_rewrite_replace(r, xcc_node_output(gather, 0), y);
}

xcvm_status xcc_compress_table(xcc_module *m, xcc_value *v)
{
    xcc_rewrite r = {.m = m};
    table t = {.codes = NULL};
    bool stays;
    XCVM_TRY(round_table(m, v, &t, &stays));
    m->compilation->weight_bytes_before += v->type.bytes;
    m->compilation->weight_bytes_after +=
        stays ? v->type.bytes
              : t.codes->type.bytes + t.scales->type.bytes + (t.offsets != NULL ? t.offsets->type.bytes : 0);
    m->compilation->uncompressed += stays;
    if (stays)
        return XCVM_OK;
    for (xcc_use *u = v->users, *next; u != NULL && r.status == XCVM_OK; u = next) {
        next = u->next;
        xcc_node *gather = u->node;
        gather_codes(&r, gather, &t);
        xcc_rewrite_sweep(gather);
    }
    return r.status;
}
