/* Weights in blocks, caches of keys and values, and positions, as C: what models that generate are made of. */
#include "compiler/export_c/export_c.h"
#include "compiler/export_c/c_runtime/workspace.h"

#include "ops/attention/attention_operands.h"
#include "ops/elementwise/activation.h"
#include "ops/matmul/quantized_blocks.h"

#include <math.h>

static const char *single(xcc_c_export *x, double value) { return xcc_c_number(x, XCVM_F32, (double)(float)value); }
static size_t size_of(const xcvm_value *v) { return xcvm_dtype_size((xcvm_dtype)v->dtype); }

/* Forms of c_runtime/blocks.h. */
static const char *block_type(const xcvm_value *v)
{
    const xcvm_dtype dtype = v != NULL ? (xcvm_dtype)v->dtype : XCVM_U8;
    return dtype == XCVM_F32    ? "XC_BLOCK_F32"
           : dtype == XCVM_F16  ? "XC_BLOCK_F16"
           : dtype == XCVM_BF16 ? "XC_BLOCK_BF16"
                                : "XC_BLOCK_U8";
}

static bool write_block_product(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_BlockQuantizedGemm_args *a = step->args;
    const xcvm_activation f = xcvm_activation_of(a->activation, a->activation_params);
    const xcvm_qblocks layout = {(size_t)a->depth, (size_t)a->columns, (size_t)a->block_size, (unsigned)a->bits};
    const size_t rows = xcvm_element_count(a->y) / (size_t)a->columns, index = x->table_count++;
    const bool rounds = a->activations == XCVM_BLOCK_ACTIVATIONS_int8;
    xcc_c_put(&x->tables,
              "\nstatic const xc_blocks xc_table_%zu = {.rows = %zu, .k = %zu, .n = %zu, .block = %zu, .bits = %u, "
              ".scale_type = %s, .offset_type = %s, .low = %s, .high = %s};\n",
              index, rows, layout.k, layout.n, layout.block, layout.bits, block_type(a->scales), block_type(a->offsets),
              single(x, (double)f.low), single(x, (double)f.high));
    const char *const workspace =
        rounds ? xcc_c_scratch(x, xc_block_workspace_bytes(xcvm_qblocks_count(&layout), layout.k)) : "NULL";
    xcc_c_line(x, "        xc_block_product(&xc_table_%zu, %s, %s, %s, %s, %s, %s, %s, %s);\n", index,
               xcc_c_read(x, a->a), xcc_c_read(x, a->w), xcc_c_read(x, a->scales), xcc_c_read(x, a->offsets),
               xcc_c_read(x, a->c), xcc_c_read(x, a->z), xcc_c_write(x, a->y), workspace);
    return f.kind == XCVM_ACTIVATION_none ||
           xcc_c_write_activation(x, a->y, a->activation, a->activation_params, (xcvm_floats){NULL, 0});
}

/* ---- Caches ---- */

static bool end_call(xcc_c_export *x)
{
    x->fails = true;
    xcc_c_line(x, "))\n            return %zu;\n", x->pc + 1);
    return true;
}

static bool write_cached_attention(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_CachedAttention_args *a = step->args;
    const int64_t *q = a->q->dims, heads = a->k->dims[1], bound = a->past_key->dims[2];
    const xcvm_attention_rows mask = a->mask != NULL ? xcvm_attention_mask_rows(a->mask) : (xcvm_attention_rows){0};
    const int64_t mask_keys = a->mask != NULL ? a->mask->dims[a->mask->rank - 1] : 0;
    const size_t index = x->table_count++;
    if (a->past_value->dims[2] != bound)
        return xcc_c_refuse(x, "past_key and past_value have different numbers of rows");
    xcc_c_put(&x->tables,
              "\nstatic const xc_cached xc_table_%zu = {.batch = %lld, .kv_heads = %lld, .group = %lld, .queries = "
              "%lld, .width = %lld, .v_width = %lld, .bound = %lld, .left = %lld, .scale = %s, .softcap = %s, .causal "
              "= %d, .boolean = %d, .mask_keys = %lld, .mask = {%zu, %zu, %zu}};\n",
              index, (long long)q[0], (long long)heads, (long long)(q[1] / heads), (long long)q[2], (long long)q[3],
              (long long)a->v->dims[3], (long long)bound, (long long)a->left_window_size,
              single(x, a->scale != 0.0 ? a->scale : 1.0 / sqrt((double)q[3])), single(x, a->softcap),
              (int)a->is_causal, a->mask != NULL && xcc_c_is(a->mask, XCVM_BOOL), (long long)mask_keys, mask.batch,
              mask.head, mask.row);
    xcc_c_line(x, "        if (xc_cached_attend(&xc_table_%zu, %s, %s, %s, %s, %s, %s, %s, %s, %s", index,
               xcc_c_read(x, a->q), xcc_c_read(x, a->k), xcc_c_read(x, a->v), xcc_c_read(x, a->past_key),
               xcc_c_read(x, a->past_value), xcc_c_read(x, a->before), xcc_c_read(x, a->mask), xcc_c_write(x, a->y),
               xcc_c_scratch(x, (uint64_t)(bound + q[2]) * sizeof(float)));
    return end_call(x);
}

/* Rows of `update` along `axis` of a cache. */
static bool write_rows(xcc_c_export *x, const xcvm_value *cache, const xcvm_value *update, const xcvm_value *at,
                       int axis, bool circular)
{
    const int64_t *d = cache->dims;
    if (update->bytes == 0)
        return true;
    xcc_c_line(x,
               "        if (xc_cache_write((unsigned char *)(%s), (const unsigned char *)(%s), %s, %lld, %lld, %lld, "
               "%lld, %lld, %d",
               xcc_c_write(x, cache), xcc_c_read(x, update), xcc_c_read(x, at), (long long)d[0],
               (long long)xcc_c_product(d, 1, axis), (long long)d[axis], (long long)update->dims[axis],
               (long long)(xcc_c_product(d, axis + 1, cache->rank) * (int64_t)size_of(cache)), circular);
    return end_call(x);
}

static bool write_append(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_CacheAppend_args *a = step->args;
    return write_rows(x, a->cache, a->update, a->at, 2, false);
}

static bool write_tensor_scatter(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_TensorScatter_args *a = step->args;
    xcc_c_line(x, "        memmove(%s, %s, %zu);\n", xcc_c_write(x, a->y), xcc_c_read(x, a->past_cache), a->y->bytes);
    return write_rows(x, a->y, a->update, a->write_indices, xcc_c_axis(a->axis, a->y->rank),
                      a->mode == XCVM_CACHE_MODE_circular);
}

static bool write_rotation(xcc_c_export *x, xcc_c_step *step)
{
    const xcvm_RotaryEmbedding_args *a = step->args;
    const int64_t *d = a->x->dims;
    const bool by_heads = a->x->rank == 4;
    const int64_t heads = by_heads ? d[1] : a->num_heads, rows = by_heads ? d[2] : d[1];
    const int64_t width = by_heads ? d[3] : d[2] / heads;
    const size_t index = x->table_count++;
    xcc_c_put(&x->tables,
              "\nstatic const xc_rotation xc_table_%zu = {.batch = %lld, .heads = %lld, .rows = %lld, .width = %lld, "
              ".pairs = %lld, .head_step = %lld, .row_step = %lld, .angles = %lld, .positions = %lld, .interleaved = "
              "%d};\n",
              index, (long long)d[0], (long long)heads, (long long)rows, (long long)width,
              (long long)((a->rotary_embedding_dim > 0 ? a->rotary_embedding_dim : width) / 2),
              (long long)(by_heads ? rows * width : width), (long long)(by_heads ? width : d[2]),
              (long long)a->cos->dims[a->cos->rank - 1], (long long)a->cos->dims[0], (int)a->interleaved);
    xcc_c_line(x, "        if (xc_rotate_%s(&xc_table_%zu, %s, %s, %s, %s, %s", xcc_c_suffix((xcvm_dtype)a->x->dtype),
               index, xcc_c_read(x, a->x), xcc_c_read(x, a->cos), xcc_c_read(x, a->sin), xcc_c_read(x, a->position_ids),
               xcc_c_write(x, a->y));
    return end_call(x);
}

static const xcc_c_row rows[] = {{XCVM_OP_BlockQuantizedGemm, write_block_product},
                                 {XCVM_OP_CachedAttention, write_cached_attention},
                                 {XCVM_OP_CacheAppend, write_append},
                                 {XCVM_OP_TensorScatter, write_tensor_scatter},
                                 {XCVM_OP_RotaryEmbedding, write_rotation}};
const xcc_c_rows xcc_c_cache_rows = {rows, sizeof rows / sizeof *rows};
