/* Operands of Attention as its kernels use them: the same for the 4-D and 3-D forms, with past keys and values first.
 */
#ifndef XCVM_OPS_ATTENTION_ATTENTION_OPERANDS_H
#define XCVM_OPS_ATTENTION_ATTENTION_OPERANDS_H

#include "ops/util/kernel.h"

/* Row `r` of head `h` of batch `b` begins at element b * batch + h * head + r * row. */
typedef struct xcvm_attention_rows {
    size_t batch, head, row;
} xcvm_attention_rows;

static inline size_t xcvm_attention_row(const xcvm_attention_rows *rows, size_t b, size_t h, size_t r)
{
    return b * rows->batch + h * rows->head + r * rows->row;
}

typedef struct xcvm_attention {
    size_t batch, heads, kv_heads, group; /* group: query heads per key head */
    size_t queries, keys;                 /* keys: past and new */
    size_t width, v_width;                /* elements of a query or key, and of a value */
    xcvm_attention_rows q, k, v, y;
    const void *q_data, *k_data, *v_data; /* in the element types of the operands */
    const void *mask;                     /* NULL: none */
    xcvm_dtype mask_dtype;
    xcvm_attention_rows mask_rows; /* 0 for broadcast axes */
    size_t mask_keys;              /* keys from this index are masked, if there is a mask */
    const int64_t *nonpad;         /* valid keys of each batch entry; NULL: all keys */
    double scale, softcap;
    bool causal;
    int64_t left, right; /* keys that a query sees before and after its position; negative: all */
    int64_t place;       /* position of query 0 among the keys; negative: derived from nonpad */
    int64_t place_step;  /* position increment per query: 1, or 0 if the rows are heads (xcvm_attention_reduce) */
    bool nan_rows;       /* queries without keys give NaN instead of 0 */
    void *qk;            /* [batch, heads, queries, keys]; NULL if not requested */
    int qk_mode;
} xcvm_attention;

/* Checks that a mask (NULL: none) broadcasts to `around`, which is batch, heads and queries, and has at most `keys`
 * keys. Negative sizes are unknown. */
xcvm_status xcvm_attention_check_mask(xcvm_error *error, const xcvm_value *mask, const int64_t around[3], int64_t keys);
/* Strides of the rows of a mask: 0 for broadcast axes. */
xcvm_attention_rows xcvm_attention_mask_rows(const xcvm_value *mask);
/* Fills `d` and checks what the shape rule could not check. */
xcvm_status xcvm_attention_read(xcvm_error *error, const xcvm_Attention_args *a, xcvm_attention *d);
/* Bytes of scratch, a multiple of XCVM_ALIGNMENT, for xcvm_attention_join to concatenate past and new keys and values
 * that are not results. */
size_t xcvm_attention_joined(const xcvm_Attention_args *a);
/* Writes present_key and present_value, and sets `d` to read keys and values from there or from `joined`. */
xcvm_status xcvm_attention_join(xcvm_kernel *k, const xcvm_Attention_args *a, void *joined, xcvm_attention *d);
/* If there is one query per head, turns the heads of a group into queries of one head. */
void xcvm_attention_reduce(xcvm_attention *d);
/* Returns the keys [*begin, *end) that query i of batch entry b may see. */
void xcvm_attention_range(const xcvm_attention *d, size_t b, size_t i, size_t *begin, size_t *end);
/* Computes Attention in f64, row by row. */
xcvm_status xcvm_attention_f64(xcvm_kernel *k, const xcvm_Attention_args *a);

#endif
